//! Corner cases in which the obvious implementation loses doubt, an outcome or an execution.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_commit_result_ends_doubt_but_not_a_parked_effect() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders a idem=k + produce orders b idem=l
            stored 0:0
            stored 0:1
        0s join a orders/biller lease=10s credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
            a gets orders/biller 0:1.1 "b" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        1s begin-under orders/biller 0:1.1 on=retry
            EXECUTE: effect/orders/biller l.1 IN_PROGRESS until 10s
        12s commit orders/biller 0:0.2 result=42
            effect/orders/biller k.1 in doubt: lease_expired
            orders/biller 0:0 expired, due 10.342s
            effect/orders/biller l.1 in doubt: lease_expired
            orders/biller 0:1 expired, due 10.999s
            a gets orders/biller 0:0.2 "a" spent 2 until 20.342s after "ack_timeout"
            a gets orders/biller 0:1.2 "b" spent 2 until 20.999s after "ack_timeout"
            park: fence 1 of "w1" began 1s in doubt since 10s, lease_expired, ask in 60000ms
        12s commit orders/biller 0:1.2 result=42
            committed
            orders/biller 0:1 acked
        13s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        13s finish effect/orders/biller l.1 succeeded result=1
            refused: fence 1 is not current: the effect is SUCCEEDED at fence 2
        14s effect effect/orders/biller l
            effect/orders/biller l.2 SUCCEEDED result 42, kept until 604812s; fence 1 of "w1" began 1s in doubt since 10s, lease_expired
    "#]]);
}

#[test]
fn a_message_dead_lettered_twice_may_have_forgotten_effects() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s dedupe=1m => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        4s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "a" spent 1 until 14s redriven 1 times from 0:0
        5s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        1h redrive orders 0:1
            expire to 63.001s
            refused: outcomes of its effects may have expired, so a redrive could execute them again
    "#]]);
}

#[test]
fn an_effect_in_doubt_before_a_crash_gets_no_grace_period() {
    check(expect![[r#"
        0s begin op/charge k on=park => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        40s effect op/charge k
            op/charge k.1 PARKED; fence 1 of "" began 0s in doubt since 30s, lease_expired
        40s begin op/charge l on=park => EXECUTE: op/charge l.1 IN_PROGRESS until 70s
        60s crash
        61s effect op/charge k
            op/charge k.1 PARKED; fence 1 of "" began 0s in doubt since 30s, lease_expired
        61s resolve op/charge k.1 as=failed
            op/charge k.1 FAILED_FINAL, kept until 604861s; Failed by ops: looked
        69s effect op/charge l => op/charge l.1 IN_PROGRESS until 70s
        70s effect op/charge l
            op/charge l.1 PARKED; fence 1 of "" began 40s in doubt since 70s, lease_expired
    "#]]);
}

#[test]
fn effects_of_a_deleted_topic_are_not_listed() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s leave a => ok
        2s delete orders/biller
            deleted with backlog 1, open 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        3s effects PARKED
            effect/orders/biller k.1 PARKED; fence 1 of "w1" began 1s in doubt since 1s, abandoned (scanned 1, the end)
        3s delete orders
            deleted 1 messages, 0 dead letters
            sweep pages topic 1 0:0..1
            sweep lane topic 1 0
            sweep dead letters topic 1 0..4096
            sweep the last pointers topic 1
        4s effects PARKED => none (scanned 1, the end)
    "#]]);
}

#[test]
fn a_key_accepted_as_new_does_not_replay_the_earlier_outcome() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s dedupe=1m => created
        0s produce orders a idem=weekly => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        9s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 10s
        9s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        9s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        60s produce orders b idem=weekly
            expire to 60.001s
            stored 0:1
            a gets orders/biller 0:1.1 "b" spent 1 until 70s
        60s effect effect/orders/biller weekly
            effect/orders/biller weekly.1 SUCCEEDED result 1, kept until 69s
        61s begin-under orders/biller 0:1.1 on=park
            EXECUTE: effect/orders/biller weekly.2 IN_PROGRESS until 70s
        62s finish effect/orders/biller weekly.1 succeeded result=1 => refused: no such effect
        62s bury orders/biller 0:1.1
            ok
            effect/orders/biller weekly.2 in doubt: abandoned
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        63s resolve effect/orders/biller weekly.2 as=succeeded result=2
            effect/orders/biller weekly.2 SUCCEEDED result 2, kept until 123s; Succeeded by ops: looked
        63s redrive orders 0:0
            redriven as 0:2
            a gets orders/biller 0:2.1 "b" spent 1 until 73s redriven 1 times from 0:1
        64s begin-under orders/biller 0:2.1 on=park
            REPLAY: effect/orders/biller weekly.2 SUCCEEDED result 2; Succeeded by ops: looked
    "#]]);
}

#[test]
fn a_commit_result_does_not_replay_an_earlier_message_of_the_key() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s dedupe=1m => created
        0s produce orders a idem=weekly => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        9s commit orders/biller 0:0.1 result=1
            committed
            orders/biller 0:0 acked
        60s produce orders b idem=weekly
            expire to 60.001s
            stored 0:1
            a gets orders/biller 0:1.1 "b" spent 1 until 70s
        61s commit orders/biller 0:1.1 result=2
            committed
            orders/biller 0:1 acked
        62s effect effect/orders/biller weekly
            effect/orders/biller weekly.2 SUCCEEDED result 2, kept until 121s
    "#]]);
}

#[test]
fn an_outcome_is_replayed_while_the_earlier_message_is_open() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s dedupe=1m => created
        0s produce orders a idem=weekly => stored 0:0
        0s join a orders/biller lease=10m credit=2 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 600s
        9s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller weekly.1 IN_PROGRESS until 600s
        9s finish effect/orders/biller weekly.1 succeeded result=1
            effect/orders/biller weekly.1 SUCCEEDED result 1
        61s produce orders b idem=weekly
            expire to 60.001s
            stored 0:1
            a gets orders/biller 0:1.1 "b" spent 1 until 661s
        62s begin-under orders/biller 0:1.1 on=park
            REPLAY: effect/orders/biller weekly.1 SUCCEEDED result 1
    "#]]);
}

#[test]
fn a_redrive_does_not_repeat_an_effect_with_its_own_ttl() {
    check(expect![[r#"
        0s topic orders 1 retry=5,1s,1s => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s begin-under orders/biller 0:0.1 key=k on=park ttl=1m
            EXECUTE: effect/orders/biller k.1 IN_PROGRESS until 10s
        2s finish effect/orders/biller k.1 succeeded result=1
            effect/orders/biller k.1 SUCCEEDED result 1
        3s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        64s redrive orders 0:0
            expire to 63.001s
            refused: outcomes of its effects may have expired, so a redrive could execute them again
        64s redrive orders 0:0 force
            redriven as 0:1
            a gets orders/biller 0:1.1 "a" spent 1 until 74s redriven 1 times from 0:0
    "#]]);
}
