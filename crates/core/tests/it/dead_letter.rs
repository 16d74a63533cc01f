//! A message that cannot be processed becomes a dead letter in the commit that ends its delivery. A
//! dead letter records how it died, and it never dies again.

use driftq_core::{DeathReason, Timestamp};
use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn nacks_that_use_up_the_attempts_dead_letter_the_message() {
    check(expect![[r#"
        1s topic orders 2 retry=2,1s,1s => created
        1s produce orders hello p=1 => stored 1:0
        1s join a orders/biller
            joined
            a gets orders/biller 1:0.1 "hello" spent 1 until 31s
        2s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
        2s nack orders/biller 1:0.1 delay=1s
            ok
            orders/biller 1:0 nacked, due 3s
        4s nack orders/biller 1:0.2 reason="card declined"
            a gets orders/biller 1:0.2 "hello" spent 2 until 33s after "nack"
            ok
            dead letter 1:0 exhausted after 2 of biller, "card declined"
            orders/biller 1:0 dead
        5s view orders/biller
            next 0 of 0, committed -1, backlog 0, leased 0, waiting 0, nothing_new; next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
        5s view orders
            orders 0..0 (0 bytes), 0..1 (5 bytes), dead 1, groups ["biller"], changed retry_policy
        5s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..1 (5 bytes), dead 0, groups []
        6s rows dead page => dead 1, page 2
    "#]]);
}

#[test]
fn expired_leases_that_use_up_the_attempts_dead_letter_the_message() {
    check(expect![[r#"
        1s topic orders 1 retry=2,1s,1s lease=10s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 11s
        2s nack orders/biller 0:0.1 delay=1s reason="card declined"
            ok
            orders/biller 0:0 nacked, due 3s
        13s view orders/biller
            a gets orders/biller 0:0.2 "hello" spent 2 until 13s after "card declined"
            dead letter 0:0 exhausted after 2 of biller, "ack_timeout"
            orders/biller 0:0 dead
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, nothing_new
        14s rows note block => note 0, block 0
    "#]]);
}

#[test]
fn a_final_nack_dead_letters_the_message_at_once() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s bury orders/biller 0:0.1 reason="no such customer" delay=1s
            refused: delay_ms: is not allowed with dead_letter
        3s bury orders/biller 0:0.1 reason="no such customer"
            ok
            dead letter 0:0 rejected after 1 of biller, "no such customer"
            orders/biller 0:0 dead
        4s bury orders/biller 0:0.1 => ok
        5s ack orders/biller 0:0.1 => stale: dead
    "#]]);
}

#[test]
fn a_message_whose_deadline_passes_before_delivery_is_never_delivered() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders late deadline=10s => stored 0:0
        1s produce orders later => stored 0:1
        10s join a orders/biller
            joined
            dead letter 0:0 deadline after 0 of biller, ""
            a gets orders/biller 0:1.1 "later" spent 1 until 40s
        11s join b orders/mailer
            joined
            dead letter 0:1 deadline after 0 of mailer, ""
            b gets orders/mailer 0:1.1 "later" spent 1 until 41s
        12s view orders => orders 0..2 (9 bytes), dead 2, groups ["biller", "mailer"]
    "#]]);
}

#[test]
fn a_message_whose_deadline_passes_before_its_retry_is_not_redelivered() {
    check(expect![[r#"
        1s topic orders 1 lease=20s => created
        1s produce orders m0 deadline=10s => stored 0:0
        1s produce orders m1 deadline=10s => stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 21s
            a gets orders/biller 0:1.1 "m1" spent 1 until 21s
        2s nack orders/biller 0:0.1 delay=30s reason="card declined"
            ok
            orders/biller 0:0 nacked, due 32s
        12s release orders/biller 0:1.1
            ok
            orders/biller 0:1 returned, due 12s
            dead letter 0:0 deadline after 0 of biller, ""
            orders/biller 0:1 dead
        40s view orders/biller
            dead letter 0:1 deadline after 1 of biller, "card declined"
            orders/biller 0:0 dead
            next 2 of 2, committed 1, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_leased_message_past_its_deadline_can_be_acked_but_not_retried() {
    check(expect![[r#"
        1s topic orders 1 lease=20s => created
        1s produce orders m0 deadline=10s => stored 0:0
        1s produce orders m1 deadline=10s => stored 0:1
        1s produce orders m2 deadline=10s => stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 21s
            a gets orders/biller 0:1.1 "m1" spent 1 until 21s
            a gets orders/biller 0:2.1 "m2" spent 1 until 21s
        11s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        11s nack orders/biller 0:1.1 reason=late
            ok
            dead letter 0:0 deadline after 1 of biller, "late"
            orders/biller 0:1 dead
        21s wait
            dead letter 0:1 deadline after 1 of biller, "ack_timeout"
            orders/biller 0:2 dead
    "#]]);
}

#[test]
fn a_message_that_is_not_in_memory_can_be_dead_lettered() {
    check(expect![[r#"
        1s topic orders 1 retry=2,1s,1s lease=10s => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
            a gets orders/biller 0:1.1 "m1" spent 1 until 11s
            a gets orders/biller 0:2.1 "m2" spent 1 until 11s
        2s nack orders/biller 0:0.1 delay=1h reason="card declined"
            ok
            orders/biller 0:0 nacked, due 3602s
        3s crash
        4s bury orders/biller 0:1.1 reason="no such customer"
            ok
            dead letter 0:0 rejected after 1 of biller, "no such customer"
            orders/biller 0:1 dead
        20s crash => orders/biller 0:2 expired, due 13.922s
        3610s crash
        3611s join b orders/biller
            joined
            b gets orders/biller 0:2.2 "m2" spent 2 until 3621s after "ack_timeout"
            b gets orders/biller 0:0.2 "m0" spent 2 until 3621s after "card declined"
        3612s crash
        3622s wait
            dead letter 0:1 exhausted after 2 of biller, "ack_timeout"
            orders/biller 0:2 dead
            dead letter 0:2 exhausted after 2 of biller, "ack_timeout"
            orders/biller 0:0 dead
    "#]]);
}

#[test]
fn the_topic_of_dead_letters_exists_as_soon_as_its_source() {
    check(expect![[r#"
        1s topic dlq.orders 2 => refused: name: must not start with dlq. or sys.
        1s topic orders 2 => created
        2s topic dlq.orders 3
            refused: the topic already exists with different partitions or settings
        2s topic dlq.orders 2 => exists
        3s topic dlq.orders 2 => exists
        4s topic dlq.dlq.orders 2 => refused: name: must not start with dlq. or sys.
        5s join a orders/biller => joined
        6s produce orders hello
            stored 0:0
            a gets orders/biller 0:0.1 "hello" spent 1 until 36s
        7s bury orders/biller 0:0.1 reason="no card"
            ok
            dead letter 0:0 rejected after 1 of biller, "no card"
            orders/biller 0:0 dead
        8s topics default
            dlq.orders (dead letters) 0..1 (5 bytes), 0..0 (0 bytes), dead 0, groups []; orders 0..1 (5 bytes), 0..0 (0 bytes), dead 1, groups ["biller"]
        9s crash
        9s topic dlq.orders 2 => exists
    "#]]);
}

#[test]
fn a_reader_of_dead_letters_may_come_before_the_first() {
    check(expect![[r#"
        1s topic orders 2 => created
        1s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups []
        2s group dlq.orders/auditor => created
        3s join c dlq.invoices/mender => refused: no such topic
        4s join m dlq.orders/mender => joined
        5s view dlq.orders
            dlq.orders (dead letters) 0..0 (0 bytes), 0..0 (0 bytes), dead 0, groups ["auditor", "mender"]
        6s join a orders/biller => joined
        7s produce orders hello p=1
            stored 1:0
            a gets orders/biller 1:0.1 "hello" spent 1 until 37s
        8s nack orders/biller 1:0.1 delay=1s
            ok
            orders/biller 1:0 nacked, due 9s
        10s bury orders/biller 1:0.2 reason="no card"
            a gets orders/biller 1:0.2 "hello" spent 2 until 39s after "nack"
            ok
            dead letter 1:0 rejected after 2 of biller, "no card"
            orders/biller 1:0 dead
            m gets dlq.orders/mender 1:0.1 "hello" spent 2 until 40s after "no card"
        11s nack dlq.orders/mender 1:0.1 delay=1s reason="no luck"
            ok
            dlq.orders/mender 1:0 nacked, due 12s
        13s crash => m gets dlq.orders/mender 1:0.2 "hello" spent 2 until 42s after "no card"
        14s join m dlq.orders/mender => joined
    "#]]);
}

#[test]
fn the_first_dead_letter_creates_a_dlq_topic_with_equal_partitions() {
    check(expect![[r#"
        1s topic orders 3 => created
        1s produce orders m0 p=2 + produce orders m1 p=0 + produce orders m2 p=2
            stored 2:0
            stored 0:0
            stored 2:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m1" spent 1 until 31s
            a gets orders/biller 2:0.1 "m0" spent 1 until 31s
            a gets orders/biller 2:1.1 "m2" spent 1 until 31s
        2s bury orders/biller 2:0.1 + bury orders/biller 0:0.1
            ok
            ok
            dead letter 2:0 rejected after 1 of biller, "nack"
            orders/biller 2:0 dead
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s view dlq.orders
            dlq.orders (dead letters) 0..1 (2 bytes), 0..0 (0 bytes), 0..1 (2 bytes), dead 0, groups []
        4s bury orders/biller 2:1.1
            ok
            dead letter 2:1 rejected after 1 of biller, "nack"
            orders/biller 2:1 dead
        5s view dlq.orders
            dlq.orders (dead letters) 0..1 (2 bytes), 0..0 (0 bytes), 0..2 (4 bytes), dead 0, groups []
        5s view orders
            orders 0..1 (2 bytes), 0..0 (0 bytes), 0..2 (4 bytes), dead 3, groups ["biller"]
        6s topic dlq.orders 3 => exists
    "#]]);
}

#[test]
fn each_dead_letter_has_its_own_page() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
            a gets orders/biller 0:2.1 "m2" spent 1 until 31s
        2s bury orders/biller 0:0.1 + bury orders/biller 0:1.1 + bury orders/biller 0:2.1
            ok
            ok
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
            dead letter 0:1 rejected after 1 of biller, "nack"
            orders/biller 0:1 dead
            dead letter 0:2 rejected after 1 of biller, "nack"
            orders/biller 0:2 dead
        3s rows page dead => page 4, dead 3
        4s crash
        5s redrive orders 0:1 => redriven as 0:3
        6s join a orders/biller
            joined
            a gets orders/biller 0:3.1 "m1" spent 1 until 36s redriven 1 times from 0:1
    "#]]);
}

#[test]
fn each_group_has_its_own_dead_letter() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        1s join b orders/mailer
            joined
            b gets orders/mailer 0:0.1 "hello" spent 1 until 31s
        2s bury orders/biller 0:0.1
            ok
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s bury orders/mailer 0:0.1
            ok
            dead letter 0:1 rejected after 1 of mailer, "nack"
            orders/mailer 0:0 dead
        4s view orders => orders 0..1 (5 bytes), dead 2, groups ["biller", "mailer"]
    "#]]);
}

#[test]
fn a_dead_letter_records_how_it_died() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 2 retry=2,1s,1s");
    world.play("2s produce orders hello p=1 key=cust-9 tenant=acme idem=order-77 run=run_1");
    world.play("3s join a orders/biller owner=worker-a credit=1");
    world.play("4s nack orders/biller 1:0.1 delay=1s + leave a");
    world.play("10s join b orders/biller owner=worker-b");
    world.play("11s nack orders/biller 1:0.2 reason=card_declined");
    let letter = world.letter("orders 1:0");
    let death = letter.death.as_ref().expect("it is dead");
    assert_eq!(death.reason, DeathReason::Exhausted);
    assert_eq!((&*death.topic, &*death.group), ("orders", "biller"));
    assert_eq!((death.id.lane.0, death.id.offset), (1, 0));
    assert_eq!(death.attempts, 2);
    assert_eq!((&*death.last_error, &*death.last_owner), ("card_declined", "worker-b"));
    assert_eq!(letter.produced_at, Timestamp(2_000));
    assert_eq!(death.first_delivered_at, Some(Timestamp(3_000)));
    assert_eq!(death.at, Timestamp(11_000));
    assert_eq!(letter.tenant(), "acme");
    assert_eq!(letter.envelope.idempotency_key.as_deref(), Some("order-77"));
    assert_eq!((&letter.key[..], &letter.value[..]), (&b"cust-9"[..], &b"hello"[..]));
    assert_eq!(letter.origin, Some(death.id), "its effects are found under its first id");
}

#[test]
fn a_dead_letter_that_fails_is_retried_forever_at_the_longest_backoff() {
    check(expect![[r#"
        1s topic orders 1 retry=1,1s,1s => created
        1s produce orders hello => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s nack orders/biller 0:0.1
            ok
            dead letter 0:0 exhausted after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s join b dlq.orders/clerk lease=10s
            joined
            b gets dlq.orders/clerk 0:0.1 "hello" spent 1 until 13s after "nack"
        4s nack dlq.orders/clerk 0:0.1
            ok
            dlq.orders/clerk 0:0 nacked, due 604s
        605s bury dlq.orders/clerk 0:0.2
            b gets dlq.orders/clerk 0:0.2 "hello" spent 1 until 614s after "nack"
            ok
            dlq.orders/clerk 0:0 nacked, due 1205s
        2000s wait
            b gets dlq.orders/clerk 0:0.3 "hello" spent 1 until 1215s after "nack"
            dlq.orders/clerk 0:0 expired, due 1815s
            b gets dlq.orders/clerk 0:0.4 "hello" spent 1 until 1825s after "nack"
            dlq.orders/clerk 0:0 expired, due 2425s
        2001s view dlq.orders/clerk
            next 1 of 1, committed -1, backlog 1, leased 0, waiting 1 (first 2425s), nothing_new
        2002s view dlq.dlq.orders => refused: no such topic
    "#]]);
}

#[test]
fn a_dead_letter_is_delivered_after_its_deadline() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders hello deadline=10s => stored 0:0
        11s join a orders/biller
            joined
            dead letter 0:0 deadline after 0 of biller, ""
        12s join b dlq.orders/clerk lease=10s
            joined
            b gets dlq.orders/clerk 0:0.1 "hello" spent 0 until 22s
        30s wait => dlq.orders/clerk 0:0 expired, due 622s
    "#]]);
}

#[test]
fn producing_to_a_dead_letter_topic_is_rejected() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    world.play("1s topic sideways 1");
    world.play("1s produce orders hello");
    world.play("1s join a orders/biller");
    world.play("2s bury orders/biller 0:0.1");
    assert!(world.ask("3s produce dlq.orders forged").starts_with("refused"));
    assert!(world.ask("3s produce sideways forged to=dlq.orders").starts_with("refused"));
}
