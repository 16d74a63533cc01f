//! Cases in which DriftQ-Core v1 loses, duplicates or blocks messages: one test for each that the
//! core handles. The list is in the requirements.

mod slow_disk;

use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn v1_acks_out_of_order_survive_a_restart() {
    check(expect![[r#"
        1s topic orders 1 lease=10s retry=9,1s,1s => created
        1s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 11s
            a gets orders/biller 0:1.1 "m1" spent 1 until 11s
            a gets orders/biller 0:2.1 "m2" spent 1 until 11s
        2s ack orders/biller 0:2.1 + ack orders/biller 0:1.1
            ok
            ok
            orders/biller 0:2 acked
            orders/biller 0:1 acked
        3s crash
        4s join b orders/biller => joined
        14s view orders/biller
            orders/biller 0:0 expired, due 13.342s
            b gets orders/biller 0:0.2 "m0" spent 2 until 23.342s after "ack_timeout"
            next 3 of 3, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn v1_an_expired_key_used_again_is_a_new_message() {
    check(expect![[r#"
        1000s topic orders 1 dedupe=10m => created
        1000s produce orders pay idem=k => stored 0:0
        1599s produce orders pay idem=k => stored 0:0 before
        1600s produce orders pay idem=k
            expire to 1600.001s
            stored 0:1
        1601s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 1631s
            a gets orders/biller 0:1.1 "pay" spent 1 until 1631s
    "#]]);
}

#[test]
fn v1_the_same_key_with_another_payload_is_rejected() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders "pay 12" idem=order-77 => stored 0:0
        2s produce orders "pay 13" idem=order-77
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        3s crash
        4s produce orders "pay 13" idem=order-77
            refused: this idempotency key was used for a different message: value differs; use a new key for new content
        5s view orders => orders 0..1 (6 bytes), dead 0, groups []
    "#]]);
}

#[test]
fn v1_a_slow_handler_can_renew_its_lease_and_ack_late() {
    check(expect![[r#"
        100s topic orders 1 lease=2s retry=2,10s,10s => created
        100s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        100s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 102s
            a gets orders/biller 0:1.1 "m1" spent 1 until 102s
        101s extend orders/biller 0:0.1 => extended until 103s
        102s extend orders/biller 0:0.1 lease=30s
            orders/biller 0:1 expired, due 104.895s
            extended until 132s
        103s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        130s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        131s view orders
            orders 0..2 (4 bytes), dead 0, groups ["biller"], changed lease_ms retry_policy
    "#]]);
}

#[test]
fn v1_a_restart_redelivers_no_leased_message_and_accepts_older_tokens() {
    check(expect![[r#"
        1s topic orders 1 lease=30s => created
        1s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            a gets orders/biller 0:1.1 "m1" spent 1 until 31s
        20s crash
        21s join b orders/biller => joined
        29s view orders/biller
            next 2 of 2, committed -1, backlog 2, leased 2, waiting 0, nothing_new
        29s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        29s ack orders/biller 0:1 owner=a
            ok
            orders/biller 0:1 acked
        1h view orders/biller
            next 2 of 2, committed 1, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn v1_two_processes_with_one_owner_name_are_distinguished_by_token() {
    check(expect![[r#"
        100s topic orders 1 lease=10s retry=9,1s,1s => created
        100s produce orders m0 => stored 0:0
        100s join first orders/biller owner=worker credit=1
            joined
            first gets orders/biller 0:0.1 "m0" spent 1 until 110s
        100s join second orders/biller owner=worker credit=1 => joined
        112s wait
            orders/biller 0:0 expired, due 110.342s
            second gets orders/biller 0:0.2 "m0" spent 2 until 120.342s after "ack_timeout"
        113s ack orders/biller 0:0.1 => stale: leased, attempt 2 is current
        113s nack orders/biller 0:0.1 => stale: leased, attempt 2 is current
        114s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        115s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn v1_a_topic_can_reject_settles_by_owner() {
    check(expect![[r#"
        1s topic orders 1 require_token => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller owner=worker
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s ack orders/biller 0:0 owner=worker
            refused: this topic requires the lease token of the delivery
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn v1_a_dead_letter_is_stored_in_the_commit_that_ends_its_delivery() {
    for commits in 0..=2 {
        let mut world = World::new(Default::default());
        world.play("1s topic orders 1");
        world.play("1s produce orders m0");
        world.play("1s join a orders/biller lease=1h");
        world.play_partly("2s bury orders/biller 0:0.1", commits);
        let open = world.shard().open_entries();
        assert_eq!(open + world.rows("dead") as u64, 1, "not once after {commits} commits");
        assert_eq!(world.rows("dead"), usize::from(commits > 0));
    }
}

#[test]
fn v1_a_full_partition_accepts_messages_again_after_settles() {
    check(expect![[r#"
        1s topic orders 1 max_messages=2 max_bytes=20 => created
        1s join a orders/biller => joined
        1s produce orders 15bytes
            stored 0:0
            a gets orders/biller 0:0.1 "xxxxxxxxxxxxxxx" spent 1 until 31s
        2s produce orders 15bytes => full: bytes, held by biller
        3s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        4s produce orders 15bytes
            stored 0:1
            a gets orders/biller 0:1.1 "xxxxxxxxxxxxxxx" spent 1 until 34s
        5s produce orders 21bytes => refused: message must be at most 20 bytes (got 21)
    "#]]);
}

#[test]
fn v1_a_topic_without_consumers_accepts_messages_up_to_its_backlog() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1");
    for _ in 0..500 {
        world.play("2s produce orders hello");
    }
    assert_eq!(world.ask("3s produce orders hello"), "stored 0:500");
    world.check();
}

#[test]
fn v1_an_abandoned_group_is_named_and_can_be_deleted() {
    check(expect![[r#"
        1s topic orders 1 max_messages=1 => created
        1s group orders/abandoned => created
        1s join a orders/biller => joined
        1s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s produce orders m1 => full: messages, held by abandoned
        4s delete orders/abandoned
            deleted with backlog 1, open 0
            sweep blocks 3 0:0..0
            sweep cursor 3 0
        5s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 35s
    "#]]);
}

#[test]
fn v1_an_abandoned_group_expires_if_configured() {
    let mut world = World::new(Default::default());
    world.play("100s topic orders 1 max_messages=1 idle=60s");
    world.play("100s group orders/abandoned");
    world.play("100s produce orders m0");
    world.play("400s wait");
    assert_eq!(world.ask("400s view orders/abandoned"), "refused: no such group");
}

#[test]
fn v1_any_number_of_dead_letters_does_not_block_their_source() {
    let mut world = World::new(Default::default());
    world.play("1s topic orders 1 max_messages=2 max_bytes=20 retry=1,1s,1s");
    world.play("1s join a orders/biller");
    for offset in 0..100 {
        let said = world.ask("2s produce orders 20bytes");
        assert_eq!(said, format!("stored 0:{offset}"));
        assert_eq!(world.ask(&format!("2s nack orders/biller 0:{offset}.1")), "ok");
    }
    assert_eq!(world.rows("dead"), 100);
    world.check();
}

#[test]
fn v1_a_consumer_with_an_odd_lease_does_not_stall_its_group() {
    check(expect![[r#"
        100s topic orders 1 retry=9,1s,1s => created
        100s join odd orders/biller lease=43200000ms credit=1 + join even orders/biller lease=250ms credit=1
            joined
            joined
        100s produce orders m0 + produce orders m1 + produce orders m2
            stored 0:0
            stored 0:1
            stored 0:2
            odd gets orders/biller 0:0.1 "m0" spent 1 until 43300s
            even gets orders/biller 0:1.1 "m1" spent 1 until 100.250s
        101s ack orders/biller 0:2.1
            orders/biller 0:1 expired, due 101.249s
            even gets orders/biller 0:2.1 "m2" spent 1 until 100.500s
            orders/biller 0:2 expired, due 101.422s
            ok
            orders/biller 0:2 acked
        102s ack orders/biller 0:1.2
            even gets orders/biller 0:1.2 "m1" spent 2 until 101.499s after "ack_timeout"
            orders/biller 0:1 expired, due 102.082s
            ok
            orders/biller 0:1 acked
        103s view orders/biller
            next 3 of 3, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn v1_empty_partitions_exist_after_a_restart() {
    check(expect![[r#"
        1s topic orders 4 => created
        1s produce orders a key=user:1 => stored 3:0
        2s crash
        3s view orders
            orders 0..0 (0 bytes), 0..0 (0 bytes), 0..0 (0 bytes), 0..1 (7 bytes), dead 0, groups []
        3s produce orders b key=user:1 => stored 3:1
        3s produce orders c key=user:2 => stored 2:0
    "#]]);
}

#[test]
fn v1_repeated_nacks_wait_for_their_backoff() {
    let mut world = World::new(Default::default());
    world.play("100s topic orders 1 retry=5,1s,1m");
    world.play("100s produce orders hello");
    world.play("100s join a orders/biller");
    let mut ms = 100_000;
    let mut attempt = 1;
    // A client polls every 10 ms and nacks at once.
    while world.rows("dead") == 0 {
        if world.ask(&format!("{ms}ms nack orders/biller 0:0.{attempt}")) == "ok" {
            let shown = world.play(&format!("{ms}ms wait"));
            assert!(shown.is_empty(), "not at once: {shown:?}");
        }
        loop {
            ms += 10;
            let shown = world.play(&format!("{ms}ms wait"));
            if shown.iter().any(|line| line.contains("gets")) {
                attempt += 1;
                break;
            }
            if world.rows("dead") > 0 || ms > 200_000 {
                break;
            }
        }
    }
    assert_eq!(attempt, 5, "total deliveries");
    assert!(ms - 100_000 >= 1_500, "at least a tenth of 1 + 2 + 4 + 8 s: {} ms", ms - 100_000);
}

#[test]
fn v1_a_token_issued_before_a_seek_or_a_delete_is_rejected() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        1s keep orders/biller 0:0.1 as first
        2s delete orders/biller
            deleted with backlog 1, open 1
            a is dismissed
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        2s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 32s
        2s keep orders/biller 0:0.1 as second
        3s ack token=first => refused: no such group
        4s pause orders/biller => ok
        4s seek orders/biller earliest
            moved [(0, 1, 0)] redelivers 1 skips 0 dropped 1
            sweep blocks 6 0:0..1
            sweep cursor 6 0
        4s resume orders/biller
            ok
            a gets orders/biller 0:0.1 "m0" spent 1 until 34s
        5s ack token=second => stale: generation
        5s ack token=first => refused: no such group
        6s view orders/biller
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        7s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
    "#]]);
}

#[test]
fn v1_a_late_ack_of_a_dead_letter_is_rejected() {
    check(expect![[r#"
        100s topic orders 1 lease=10s retry=1,1s,1s => created
        100s produce orders m0 => stored 0:0
        100s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 110s
        111s wait
            dead letter 0:0 exhausted after 1 of biller, "ack_timeout"
            orders/biller 0:0 dead
        112s ack orders/biller 0:0.1 => stale: dead
        113s ack orders/biller 0:0 owner=a => stale: dead
        114s crash
        115s ack orders/biller 0:0.1 => stale: dead
    "#]]);
}

#[test]
fn v1_a_key_used_twice_in_one_batch_is_stored_once() {
    check(expect![[r#"
        1s topic orders 1 => created
        2s produce orders pay idem=k + produce orders pay idem=k
            stored 0:0
            stored 0:0 before
        3s join a orders/biller
            joined
            a gets orders/biller 0:0.1 "pay" spent 1 until 33s
    "#]]);
}

#[test]
fn v1_a_redriven_message_reaches_the_group_that_failed_and_no_other() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller + join b orders/mailer
            joined
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
            b gets orders/mailer 0:0.1 "m0" spent 1 until 31s
        2s ack orders/mailer 0:0.1 + bury orders/biller 0:0.1
            ok
            ok
            orders/mailer 0:0 acked
            dead letter 0:0 rejected after 1 of biller, "nack"
            orders/biller 0:0 dead
        3s redrive orders 0:0
            redriven as 0:1
            a gets orders/biller 0:1.1 "m0" spent 1 until 33s redriven 1 times from 0:0
        4s join c orders/later
            joined
            c gets orders/later 0:0.1 "m0" spent 1 until 34s
        5s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        6s view orders/mailer
            next 2 of 2, committed 1, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}
