//! Effect tokens that this shard did not issue, or issued before the last restore.

use driftq_core::{EffectToken, ShardConfig};

use crate::transcript::World;

const OF: &str = "effect/orders/biller order-77.1";

/// A world with an effect in progress under a delivery.
fn in_progress() -> World {
    let mut world = World::new(ShardConfig::default());
    for line in [
        "0s topic orders 1",
        "0s produce orders hello idem=order-77",
        "0s join a orders/biller lease=10s credit=1 owner=w1",
        "1s begin-under orders/biller 0:0.1 on=retry",
    ] {
        world.play(line);
    }
    world
}

#[test]
fn a_token_of_another_namespace_is_rejected() {
    let mut world = in_progress();
    world.forge_effect(OF, "foreign", |token| EffectToken { namespace: "other".into(), ..token });
    for (line, answer) in [
        (format!("2s finish {OF} succeeded \"token=foreign\""), "refused: no such effect"),
        (format!("2s extend-effect {OF} \"token=foreign\""), "refused: no such effect"),
        (format!("2s finish {OF} succeeded"), "effect/orders/biller order-77.1 SUCCEEDED"),
    ] {
        assert_eq!(world.ask(&line), answer, "{line}");
    }
}

#[test]
fn a_token_issued_before_a_restore_is_rejected() {
    let mut world = in_progress();
    world.forge_effect(OF, OF, |token| EffectToken { restore: token.restore + 1, ..token });
    for line in [
        format!("2s finish {OF} succeeded"),
        format!("2s finish {OF} failed"),
        format!("2s extend-effect {OF}"),
        format!("2s commit orders/biller 0:0.1 effects=\"{OF} succeeded\""),
    ] {
        let answer = world.ask(&line);
        assert!(answer.contains("fence 1 is not current"), "{line}: {answer}");
    }
}
