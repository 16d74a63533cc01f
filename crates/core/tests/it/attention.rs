//! What an operator should look at.

use driftq_core::attention::attention;
use driftq_core::{Reply, ShardConfig};
use expect_test::{Expect, expect};

use crate::transcript::World;

fn shows(world: &mut World, seconds: u64, expected: &Expect) {
    let Some(Reply::All(views)) = world.reply_to(&format!("{seconds}s all default")) else {
        panic!("the reply has all topics and groups")
    };
    let line = |it: driftq_core::attention::Attention| {
        format!("{:?}: {} since {:?}\n", it.kind, it.message, it.since.map(|at| at.to_string()))
    };
    let found = attention(world.now(), &views.topics, &views.groups);
    expected.assert_eq(&found.into_iter().map(line).collect::<String>());
}

#[test]
fn attention_lists_what_is_wrong_and_nothing_else() {
    let mut world = World::new(ShardConfig::default());
    world.play("1s topic orders 1 max_messages=3 retry=-1,1s,1s");
    world.play("1s topic quiet 1");
    world.play("1s group orders/biller");
    world.play("1s group quiet/idle");
    // A group without messages needs no consumer.
    shows(&mut world, 2, &expect![[""]]);
    world.play("3s produce orders m0 + produce orders m1");
    shows(
        &mut world,
        13,
        &expect![[r#"
            NoConsumers: group biller has no consumer: 2 unsettled messages in orders, the oldest for 10 s since Some("3.000s")
        "#]],
    );
    world.play("14s produce orders m2");
    world.play("14s pause orders/biller");
    shows(
        &mut world,
        15,
        &expect![[r#"
            PartitionFull: topic orders has 1 full partition: produce requests to it get 429 since None
            Paused: group biller is paused by ops: 3 unsettled messages in orders, the oldest for 12 s since Some("14.000s")
        "#]],
    );
    world.play("16s resume orders/biller");
    world.play("20s join a orders/biller credit=9 lease=60s");
    world.play("21s bury orders/biller 0:0.1");
    for second in 21..25 {
        world.play(&format!("{second}s nack orders/biller 0:1.{}", second - 20));
    }
    shows(
        &mut world,
        25,
        &expect![[r#"
            Failing: deliveries to group biller of orders fail: 5 failed and 0 acked in 15 s since Some("3.000s")
            DeadLetters: topic orders has 1 dead letter since None
        "#]],
    );
}
