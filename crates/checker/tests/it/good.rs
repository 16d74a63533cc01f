//! Histories without violations.

use driftq_checker::check;
use driftq_checker::history::{
    Commit, Counters, DeadLetter, Delivery, Fact, Granted, How, Lease, Name, Op, Reply, Status,
    Verb, What,
};

use crate::assert_clean;
use crate::tale::{
    BACKOFF_MS, LEASE_MS, Tale, biller, buried, content, counters, dead_id, died, duplicate_of,
    ended, granted, id, lease, letter, moved, orders, redrive,
};
use crate::tale_of_commits::{arrived_there, came_back, commit, committed};
use crate::tale_of_effects::{TTL_MS, begin, finish};

/// Every kind of event, once.
pub(crate) fn everything(tale: &mut Tale) {
    tale.makes_group();
    deduplicates(tale);
    takes_several_attempts(tale);
    comes_late(tale);
    dies_in_every_way(tale);
    is_redriven(tale);
    has_another_group(tale);
    is_moved(tale);
    has_effects(tale);
    has_a_commit(tale);
    is_counted_and_over(tale);
}

/// Offset 0 is deduplicated.
fn deduplicates(tale: &mut Tale) {
    let until = tale.now + 600_000;
    let call = tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.is_lost(call);
    let call = tale.sends_keyed(1, "order-77");
    let key = Fact::Deduplicated {
        topic: orders(),
        tenant: "default".into(),
        idem: "order-77".into(),
        id: id(0),
    };
    tale.commits([key]);
    tale.is_done(call, duplicate_of(0));
    let call = tale.asks(crate::tale::produce(100, Some("order-77")));
    tale.is_refused(call, "CONFLICT", "");
    tale.leases(0, 1);
    tale.acks(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    tale.commits([]);
    tale.is_done(call, Reply::Settled);
}

/// Offset 1: given back, nacked, expired, extended, acked.
fn takes_several_attempts(tale: &mut Tale) {
    tale.produces(2);
    tale.grants(1, 1, |_| ());
    let due = tale.now;
    tale.ends(1, 1, How::Returned { due });
    tale.grants(1, 2, |granted| granted.spent = 1);
    tale.delivers(1, 2, |delivery| delivery.spent = 1);
    tale.nacks(1, 2);
    tale.happens(What::Fault { fault: "crash".into(), point: "committing".into() });
    tale.epoch += 1;
    tale.grants(1, 3, |granted| granted.spent = 2);
    tale.delivers(1, 3, |delivery| delivery.spent = 2);
    let call = tale.asks_to(Verb::Extend { lease_ms: LEASE_MS * 2 }, 1, 3);
    let until = tale.now + LEASE_MS * 2;
    tale.commits([Fact::Extended { lease: lease(1, 3), until }]);
    tale.is_done(call, Reply::Settled);
    tale.passes(LEASE_MS);
    tale.expires(1, 3);
    tale.grants(1, 4, |granted| granted.spent = 3);
    tale.delivers(1, 4, |delivery| delivery.spent = 3);
    let call = tale.asks_to(Verb::Ack, 1, 3);
    tale.commits([]);
    tale.is_refused(call, "STALE_LEASE", "leased");
    tale.acks(1, 4);
}

/// Offset 2 is acked after its lease expired and before it is redelivered.
fn comes_late(tale: &mut Tale) {
    tale.produces(3);
    tale.leases(2, 1);
    tale.passes(LEASE_MS);
    let due = tale.now + BACKOFF_MS / 10;
    tale.ends(2, 1, How::Expired { due });
    tale.acks(2, 1);
}

/// Offsets 3 to 6: rejected, exhausted, and past the deadline before and after a delivery.
fn dies_in_every_way(tale: &mut Tale) {
    tale.produces(4);
    tale.leases(3, 1);
    tale.dies(3, 1, 0);

    tale.produces_with(5, |stored| stored.retry.max_attempts = Some(1));
    tale.leases(4, 1);
    tale.passes(LEASE_MS);
    let dead = How::Dead { asked: false };
    tale.commits([ended(4, 1, dead), died(4, 1, "exhausted", 1), buried(5, 1)]);

    let deadline = tale.now + 500;
    tale.produces_with(6, |stored| stored.deadline = Some(deadline));
    tale.produces_with(7, |stored| stored.deadline = Some(deadline));
    tale.passes(500);
    tale.commits([died(5, 0, "deadline", 2), buried(6, 2)]);
    tale.commits([died(6, 0, "deadline", 3), buried(7, 3)]);

    let deadline = tale.now + 500;
    tale.produces_with(8, |stored| stored.deadline = Some(deadline));
    tale.leases(7, 1);
    tale.nacks(7, 1);
    tale.commits([ended(7, 1, dead), died(7, 1, "deadline", 4), buried(8, 4)]);
}

/// Dead letter 0 is redriven as offset 8.
fn is_redriven(tale: &mut Tale) {
    let new = tale.redrives(0, 4);
    let call = tale.asks(redrive(0));
    tale.commits([]);
    tale.is_done(call, Reply::Redriven { new: id(new), already: true });
    tale.grants(new, 1, |_| ());
    tale.delivers(new, 1, |delivery| delivery.message = content(4));
    tale.acks(new, 1);
}

/// Offset 9, in a group that starts at the redriven message and skips it. The group is then
/// deleted.
fn has_another_group(tale: &mut Tale) {
    let mailer: Name = "mailer".into();
    let (topic, group) = (orders(), mailer.clone());
    let call = tale.asks(Op::CreateGroup { topic, group: mailer.clone(), latest: true });
    tale.commits([Fact::GroupMade { topic: orders(), group, cursors: vec![(2, 8)] }]);
    tale.is_done(call, Reply::Ok);
    let (topic, group) = (orders(), mailer.clone());
    tale.commits([Fact::Passed { topic, group, generation: 2, partition: 0, offset: 8 }]);
    tale.produces(10);
    tale.leases(9, 1);
    tale.acks(9, 1);
    let lease = Lease { group: mailer.clone(), generation: 2, ..lease(9, 1) };
    let grant = Granted { lease: lease.clone(), ..granted(9, 1, tale.now) };
    tale.commits([Fact::Granted(grant)]);
    let delivery = Delivery { lease: lease.clone(), id: id(9), spent: 1, message: content(10) };
    tale.happens(What::Delivered(delivery));
    let call = tale.asks(Op::Settle { lease: lease.clone(), verb: Verb::Ack, by_owner: false });
    tale.commits([Fact::Ended { lease, how: How::Acked }]);
    tale.is_done(call, Reply::Settled);
    let call = tale.asks(Op::DeleteGroup { topic: orders(), group: mailer.clone() });
    tale.commits([Fact::GroupGone { topic: orders(), group: mailer }]);
    tale.is_done(call, Reply::Ok);
}

/// Offset 10 is leased when the cursor moves back to 9. Both are redelivered under generation 3.
fn is_moved(tale: &mut Tale) {
    tale.produces(11);
    tale.leases(10, 1);
    for paused in [true, false] {
        let call = tale.asks(Op::Pause { topic: orders(), group: biller(), paused });
        tale.commits([]);
        tale.is_done(call, Reply::Ok);
        if paused {
            let (topic, group) = (orders(), biller());
            let call = tale.asks(Op::Seek { topic, group, partition: 0, offset: 9 });
            tale.commits([moved(3, 9)]);
            tale.is_done(call, Reply::Ok);
        }
    }
    let call = tale.asks_to(Verb::Ack, 10, 1);
    tale.commits([]);
    tale.is_refused(call, "STALE_LEASE", "generation");
    for offset in [9, 10] {
        let lease = Lease { generation: 3, ..lease(offset, 1) };
        tale.grants(offset, 1, |granted| granted.lease = lease.clone());
        tale.delivers(offset, 1, |delivery| delivery.lease = lease.clone());
        let call =
            tale.asks(Op::Settle { lease: lease.clone(), verb: Verb::Ack, by_owner: offset == 10 });
        tale.commits([Fact::Ended { lease, how: How::Acked }]);
        tale.is_done(call, Reply::Settled);
    }
}

/// An effect is in doubt, retried, finished, and begun again after it expired.
fn has_effects(tale: &mut Tale) {
    tale.executes(1);
    let call = tale.asks(begin(|_| ()));
    tale.decides(call, []);
    tale.is_refused(call, "IN_PROGRESS", "");
    tale.passes(LEASE_MS);
    tale.executes(2);
    let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
    tale.decides(call, []);
    tale.is_refused(call, "STALE_FENCE", "IN_PROGRESS");
    tale.finishes(2, Status::Succeeded, "ch_2");
    tale.replays(2, Status::Succeeded, "ch_2");
    tale.passes(TTL_MS);
    tale.life += 1;
    tale.executes(1);
    tale.finishes(1, Status::FailedFinal, "declined");
}

/// Offset 11 is committed with 12, a message for another shard, and one that the other shard
/// rejects.
fn has_a_commit(tale: &mut Tale) {
    let lease = Lease { generation: 3, ..lease(11, 1) };
    tale.produces(12);
    tale.grants(11, 1, |granted| granted.lease = lease.clone());
    tale.delivers(11, 1, |delivery| delivery.lease = lease.clone());
    let asked = Commit { lease, ..commit([(13, "orders"), (60, "receipts"), (61, "gone")]) };
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |_| ());
    tale.is_done(call, committed([Some(id(12)), None, None], false));
    let call = tale.asks_to_commit(&asked);
    tale.decides(call, []);
    tale.is_done(call, committed([Some(id(12)), None, None], true));
    tale.commits_there([arrived_there(60, 0), Fact::Arrived { from: 0, through: 1 }]);
    tale.commits_there([Fact::TurnedAway { from: 0, number: 1 }]);
    tale.commits([
        Fact::Left { to: 1, number: 0 },
        buried(61, 5),
        Fact::CameBack { id: dead_id(5) },
        Fact::Left { to: 1, number: 1 },
    ]);
    let lease = Lease { generation: 3, ..crate::tale::lease(12, 1) };
    tale.grants(12, 1, |granted| granted.lease = lease.clone());
    tale.delivers(12, 1, |delivery| delivery.lease = lease.clone());
    let call = tale.asks(Op::Settle { lease: lease.clone(), verb: Verb::Ack, by_owner: false });
    tale.commits([Fact::Ended { lease, how: How::Acked }]);
    tale.is_done(call, Reply::Settled);
}

fn is_counted_and_over(tale: &mut Tale) {
    tale.commits([Fact::Trimmed { topic: orders(), partition: 0, first: 9 }]);
    tale.heals();
    let counters = Counters { generation: 3, ..counters(tale.high) };
    tale.happens(What::Counted { batch: Some(tale.batch), counters });
    let deadline = |offset, dead, attempts| {
        let mut letter = letter(offset, dead);
        (letter.reason, letter.attempts) = ("deadline".into(), attempts);
        letter
    };
    let mut redriven = letter(3, 0);
    redriven.redriven = Some(id(8));
    let mut exhausted = letter(4, 1);
    exhausted.reason = "exhausted".into();
    let letters = [redriven, exhausted, deadline(5, 2, 0), deadline(6, 3, 0), deadline(7, 4, 1)];
    for letter in letters {
        tale.happens(What::DeadLetter(letter));
    }
    let (offset, origin) = (11, id(11));
    tale.happens(What::DeadLetter(DeadLetter { offset, origin, ..came_back(61, 5) }));
    tale.is_over();
}

#[test]
fn a_history_with_every_kind_of_event_is_clean() {
    let mut tale = Tale::new();
    everything(&mut tale);
    assert_clean(&tale);
    let counts = check(&tale.events).counts;
    let seen = [counts.deduplicated, counts.acked, counts.nacked, counts.expired, counts.returned];
    assert!(!seen.contains(&0), "{counts:?}");
    let seen = [counts.died, counts.redriven, counts.moved, counts.faults, counts.refused];
    assert!(!seen.contains(&0), "{counts:?}");
    let seen = [counts.recorded, counts.committed, counts.sent, counts.arrived];
    assert!(!seen.contains(&0), "{counts:?}");
}

#[test]
fn the_same_history_is_clean_without_its_commits() {
    let mut tale = Tale::new();
    tale.hides_commits();
    everything(&mut tale);
    assert_clean(&tale);
}

#[test]
fn an_empty_history_is_clean() {
    assert_clean(&Tale::new());
}

#[test]
fn events_are_checked_in_order_of_seq() {
    let mut tale = Tale::new();
    everything(&mut tale);
    tale.events.reverse();
    assert_clean(&tale);
}

#[test]
fn every_prefix_of_a_clean_history_is_clean() {
    let mut tale = Tale::new();
    everything(&mut tale);
    let n_events = tale.events.len();
    for n in 0..n_events {
        let report = check(&tale.events[..n]);
        assert!(report.is_clean(), "first {n} events: {report}");
    }
}

#[test]
fn a_nack_after_the_lease_expired_does_not_change_the_backoff() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.passes(LEASE_MS);
    let due = tale.now + BACKOFF_MS;
    tale.ends(0, 1, How::Expired { due });
    tale.passes(BACKOFF_MS - 1);
    let call = tale.asks_to(Verb::Nack { delay_ms: None }, 0, 1);
    tale.ends(0, 1, How::Nacked { due, asked: false });
    tale.is_done(call, Reply::Settled);
    tale.passes(1);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
    assert_clean(&tale);
}

#[test]
fn a_recreated_group_has_a_greater_generation() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.commits([Fact::GroupGone { topic: orders(), group: biller() }]);
    tale.commits([crate::tale::group_made(2, 1)]);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    tale.is_refused(call, "STALE_LEASE", "generation");
    tale.is_over();
    assert_clean(&tale);
}

#[test]
fn dead_letters_of_a_deleted_topic_may_be_missing() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let call = tale.asks(Op::DeleteTopic { topic: orders() });
    tale.commits([Fact::TopicGone { topic: orders() }]);
    tale.is_done(call, Reply::Ok);
    tale.is_over();
    assert_clean(&tale);
}

#[test]
fn leases_of_an_older_generation_use_no_prefetch() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    tale.grants(0, 1, |granted| granted.credit = 1);
    tale.commits([moved(2, 0)]);
    tale.grants(0, 1, |granted| {
        granted.lease.generation = 2;
        (granted.credit, granted.max_in_flight) = (1, 1);
    });
    assert_clean(&tale);
}

#[test]
fn a_dead_letter_read_by_a_group_has_no_attempt_limit() {
    let mut tale = Tale::new();
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let (topic, group): (Name, Name) = ("dlq.orders".into(), "triage".into());
    let cursors = vec![(5, 0)];
    tale.commits([Fact::GroupMade { topic: topic.clone(), group: group.clone(), cursors }]);
    for attempt in 1..=5 {
        let lease = Lease {
            topic: topic.clone(),
            group: group.clone(),
            generation: 5,
            partition: 0,
            offset: 0,
            attempt,
        };
        tale.grants(0, attempt, |granted| granted.lease = lease.clone());
        let verb = if attempt < 5 { Verb::Nack { delay_ms: None } } else { Verb::Ack };
        tale.asks(Op::Settle { lease: lease.clone(), verb, by_owner: false });
        let due = tale.now + 8_000;
        let nacked = How::Nacked { due, asked: false };
        let how = if attempt < 5 { nacked } else { How::Acked };
        tale.commits([Fact::Ended { lease, how }]);
        tale.passes(8_000);
    }
    tale.happens(What::DeadLetter(letter(0, 0)));
    tale.is_over();
    assert_clean(&tale);
}
