//! Dead letters are listed newest first, in slices.

use driftq_core::command::{DeadFilter, ListDead, TopicName};
use driftq_core::limits::DEAD_ROWS_MAX;
use driftq_core::{Command, NUMBER_MAX, Reply, SettingsPatch};
use expect_test::expect;

use crate::held::{Held, join, nack, produce, topic};
use crate::transcript::check;

#[test]
fn dead_letters_are_listed_newest_first_with_or_without_values() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s dead orders => none (scanned 0, the end)
        1s produce orders m0 p=0 + produce orders m1 p=1 + produce orders m2 p=0
            stored 0:0
            stored 1:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m2" spent 1 until 31s
            a gets orders/biller 1:0.1 "m1" spent 1 until 31s
        2s bury orders/biller 0:0.1 reason=first
            ok
            dead letter 0:0 rejected after 1 of biller, "first"
            orders/biller 0:0 dead
        3s bury orders/biller 1:0.1 reason=second
            ok
            dead letter 1:0 rejected after 1 of biller, "second"
            orders/biller 1:0 dead
        4s bury orders/biller 0:1.1
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
        5s dead orders
            0:1 rejected of biller at 4s "nack"; 1:0 rejected of biller at 3s "second"; 0:0 rejected of biller at 2s "first" (scanned 3, the end)
        5s dead orders values
            0:1 rejected of biller at 4s "nack" m2; 1:0 rejected of biller at 3s "second" m1; 0:0 rejected of biller at 2s "first" m0 (scanned 3, the end)
        5s dead orders limit=2
            0:1 rejected of biller at 4s "nack"; 1:0 rejected of biller at 3s "second" (scanned 2, more)
        5s dead orders below=1:0 limit=2
            0:0 rejected of biller at 2s "first" (scanned 1, the end)
        6s crash
        7s dead orders values
            0:1 rejected of biller at 4s "nack" m2; 1:0 rejected of biller at 3s "second" m1; 0:0 rejected of biller at 2s "first" m0 (scanned 3, the end)
        7s dead orders below=1:0 values
            0:0 rejected of biller at 2s "first" m0 (scanned 1, the end)
        8s dead nothing => refused: no such topic
    "#]]);
}

#[test]
fn filters_are_combined_with_and() {
    check(expect![[r#"
        1s topic orders 1 retry=1,1s,1s => created
        1s produce orders m0 run=r1 tenant=acme => stored 0:0
        1s produce orders m1 run=r2 deadline=3s => stored 0:1
        1s produce orders m2 run=r1 => stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s nack orders/biller 0:0.1 reason="card declined"
            ok
            dead letter 0:0 exhausted after 1 of biller, "card declined"
            orders/biller 0:0 dead
        3s nack orders/biller 0:1.1 reason="card lost"
            ok
            dead letter 0:1 deadline after 1 of biller, "card lost"
            orders/biller 0:1 dead
        4s bury orders/biller 0:2.1 reason=other
            ok
            dead letter 0:2 rejected after 1 of biller, "other"
            orders/biller 0:2 dead
        5s join b orders/mailer credit=1
            joined
            dead letter 0:3 deadline after 0 of mailer, ""
            b gets orders/mailer 0:0.1 "m0" spent 1 until 35s
        6s bury orders/mailer 0:0.1
            ok
            dead letter 0:4 rejected after 1 of mailer, "nack"
            orders/mailer 0:0 dead
            b gets orders/mailer 0:2.1 "m2" spent 1 until 36s
        9s dead orders group=biller
            0:2 rejected of biller at 4s "other"; 0:1 deadline of biller at 3s "card lost"; 0:0 exhausted of biller at 2s "card declined" (scanned 5, the end)
        9s dead orders tenant=acme
            0:4 rejected of mailer at 6s "nack"; 0:0 exhausted of biller at 2s "card declined" (scanned 5, the end)
        9s dead orders run=r1 tenant=default
            0:2 rejected of biller at 4s "other" (scanned 5, the end)
        9s dead orders error=card
            0:1 deadline of biller at 3s "card lost"; 0:0 exhausted of biller at 2s "card declined" (scanned 5, the end)
        9s dead orders error="card l"
            0:1 deadline of biller at 3s "card lost" (scanned 5, the end)
        9s dead orders reason=exhausted
            0:0 exhausted of biller at 2s "card declined" (scanned 5, the end)
        9s dead orders reason=deadline
            0:3 deadline of mailer at 5s ""; 0:1 deadline of biller at 3s "card lost" (scanned 5, the end)
        9s dead orders since=3s until=4s
            0:1 deadline of biller at 3s "card lost" (scanned 5, the end)
        9s redrive orders 0:0
            redriven as 0:3
            a gets orders/biller 0:3.1 "m0" spent 1 until 39s redriven 1 times from 0:0
        9s dead orders group=biller
            0:2 rejected of biller at 4s "other"; 0:1 deadline of biller at 3s "card lost" (scanned 5, the end)
        9s dead orders state=redriven
            0:0 exhausted of biller at 2s "card declined", redriven as 0:3 (scanned 5, the end)
        9s dead orders state=all limit=1 => 0:4 rejected of mailer at 6s "nack" (scanned 1, more)
    "#]]);
}

#[test]
fn a_list_includes_decisions_that_are_not_durable_yet() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        2s bury orders/biller 0:0.1 + dead orders
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            0:0 rejected of biller at 2s "nack" (scanned 1, the end)
        3s bury orders/biller 0:1.1 + redrive orders 0:0 + dead orders state=all values
            ok
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
            0:1 rejected of biller at 3s "nack" m1; 0:0 rejected of biller at 2s "nack" m0 (scanned 2, the end)
            redriven as 0:2
            a gets orders/biller 0:2.1 "m0" spent 1 until 33s redriven 1 times from 0:0
    "#]]);
}

fn list(below: Option<u64>, limit: u32) -> Command {
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    let filter = DeadFilter::default();
    Command::ListDead(Box::new(ListDead { topic, below, filter, limit, values: false }))
}

#[test]
fn a_long_list_is_returned_in_slices() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    let count = DEAD_ROWS_MAX as u64 * 2 + 5;
    for _ in 0..count {
        held.ask(produce("m")).expect("stored");
        let (_, delivery) = held.deliveries.remove(0);
        held.ask(nack(&delivery.token, driftq_core::command::NackKind::Final)).expect("dead");
    }
    for limit in [1_000, 100, 1] {
        let (mut below, mut seen, mut slices) = (Some(NUMBER_MAX), Vec::new(), 0);
        while below.is_some() {
            let Ok(Reply::DeadLetters(slice)) = held.ask(list(below, limit)) else {
                panic!("a list returns dead letters")
            };
            assert!(slice.letters.len() <= (limit as usize).min(DEAD_ROWS_MAX));
            seen.extend(slice.letters.iter().map(|letter| letter.row.offset));
            assert!(slice.next < below || slice.next.is_none(), "every slice makes progress");
            below = slice.next;
            slices += 1;
        }
        assert_eq!(seen, (0..count).rev().collect::<Vec<_>>(), "by {limit}");
        assert!(slices >= count / u64::from(limit), "by {limit}");
    }
}
