//! Bad histories of operator requests and their replies.

use driftq_checker::history::{
    Commit, Counters, Fact, How, MessageStatus, MessageStatusKind, Op, Pointer, Reply, Retry,
    Settings, What,
};

use crate::tale::{BACKOFF_MS, Tale, biller, counters, dead_id, ended, group_made, id, orders};
use crate::tale_of_commits::{commit, committed};

pub(super) fn settings() -> Settings {
    Settings {
        topic: orders(),
        retry: Retry { max_attempts: Some(3), backoff_ms: BACKOFF_MS, max_backoff_ms: 8_000 },
        max_in_flight: 100,
        max_open: 1_000,
        dlq_retention_ms: None,
        group_idle_ms: Some(60_000),
        dedupe_by_key: false,
        text: "as created".into(),
    }
}

pub(super) fn set(settings: Settings) -> Fact {
    Fact::Set(Box::new(settings))
}

fn joined() -> Fact {
    let (topic, group, worker) = (orders(), biller(), Some("w1".into()));
    Fact::Joined { consumer: 7, topic, group, poll: false, credit: 10, worker }
}

fn decided(call: u64) -> Fact {
    Fact::Decided { calls: vec![call] }
}

pub(super) fn a_group_is_deleted_before_it_is_idle(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.commits([joined()]);
    tale.happens(What::Left { consumer: 7 });
    tale.passes(if wrong { 30_000 } else { 60_000 });
    tale.commits([Fact::GroupGone { topic: orders(), group: biller() }]);
    tale.is_over();
}

pub(super) fn a_group_is_deleted_while_it_is_read(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.commits([joined()]);
    if !wrong {
        tale.happens(What::Left { consumer: 7 });
    }
    tale.passes(90_000);
    tale.commits([Fact::GroupGone { topic: orders(), group: biller() }]);
    tale.is_over();
}

pub(super) fn a_dead_letter_is_deleted_unasked(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let ids = vec![dead_id(0)];
    let op = Op::Purge { topic: orders(), ids, dry_run: wrong };
    let call = tale.asks(op);
    tale.is_lost(call);
    tale.commits([Fact::Dropped { id: dead_id(0) }]);
    tale.is_over();
}

pub(super) fn a_dead_letter_is_deleted_before_its_time(tale: &mut Tale, wrong: bool) {
    tale.commits([set(Settings { dlq_retention_ms: Some(60_000), ..settings() })]);
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    tale.passes(if wrong { 59_999 } else { 60_000 });
    tale.commits([Fact::Dropped { id: dead_id(0) }]);
    tale.is_over();
}

pub(super) fn more_is_said_to_be_deleted_than_was(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let ids = vec![dead_id(0)];
    let call = tale.asks(Op::Purge { topic: orders(), ids, dry_run: false });
    tale.commits([Fact::Dropped { id: dead_id(0) }, decided(call)]);
    tale.is_done(call, Reply::Purged { count: if wrong { 2 } else { 1 } });
    tale.is_over();
}

pub(super) fn a_group_begins_before_its_time(tale: &mut Tale, wrong: bool) {
    tale.produces(1);
    tale.passes(1_000);
    let since = tale.now;
    tale.produces(2);
    let start = u64::from(!wrong);
    let call = tale.asks(Op::CreateGroupAt { topic: orders(), group: biller(), since });
    tale.commits([group_made(1, start), decided(call)]);
    tale.is_done(call, Reply::Ok);
    for offset in start..2 {
        tale.leases(offset, 1);
        tale.acks(offset, 1);
    }
    tale.is_over();
}

pub(super) fn a_partition_is_forgotten(tale: &mut Tale, wrong: bool) {
    tale.happens(What::Limits { open_max: 1_000 });
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.commits([joined()]);
    tale.produces(1);
    if !wrong {
        tale.leases(0, 1);
        tale.acks(0, 1);
    }
    // Each takes ten milliseconds.
    for _ in 0..3_200 {
        tale.commits([]);
    }
}

pub(super) fn a_group_is_said_to_be_paused(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.acks(0, 1);
    let blocked = Some(if wrong { "paused" } else { "nothing_new" }.into());
    let counters = Counters { blocked, ..counters(1) };
    tale.happens(What::Counted { batch: Some(tale.batch), counters });
    tale.is_over();
}

pub(super) fn a_busy_group_is_explained_as_full(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.commits([joined()]);
    tale.produces(1);
    tale.leases(0, 1);
    let blocked = Some(if wrong { "consumers_full" } else { "nothing_new" }.into());
    let shown = Counters { leased: 1, backlog: 1, blocked, ..counters(1) };
    let call = tale.asks(Op::ExplainGroup { topic: orders(), group: biller() });
    tale.commits([decided(call)]);
    tale.is_done(call, Reply::Group(vec![shown]));
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn a_deletion_is_not_recorded(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.records_no_acts();
    let call = tale.asks(Op::DeleteGroup { topic: orders(), group: biller() });
    let gone = Fact::GroupGone { topic: orders(), group: biller() };
    let mut facts = vec![gone, decided(call)];
    if !wrong {
        facts.push(Fact::Acted { call });
    }
    tale.commits(facts);
    tale.is_done(call, Reply::Ok);
    tale.is_over();
}

pub(super) fn an_act_is_recorded_in_another_commit(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let call = tale.asks(Op::Pause { topic: orders(), group: biller(), paused: true });
    let paused = Fact::Paused { topic: orders(), group: biller(), until: None };
    let recorded = Fact::Acted { call };
    if wrong {
        tale.commits([paused, decided(call)]);
        tale.commits([recorded]);
    } else {
        tale.commits([paused, decided(call), recorded]);
    }
    tale.is_done(call, Reply::Ok);
    tale.is_over();
}

pub(super) fn a_worker_that_left_is_granted_a_message(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    tale.makes_group();
    tale.commits([joined()]);
    tale.produces(1);
    let until = tale.now + 60_000;
    tale.commits([Fact::WorkerLeft { worker: "w1".into(), until }]);
    tale.passes(if wrong { 1_000 } else { 60_000 });
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

fn pointer() -> Pointer {
    Pointer { name: "sales/v1/day-1".into(), location: "s3://a".into(), replace: false }
}

fn pointed() -> Fact {
    Fact::Pointed { topic: orders(), name: "sales/v1/day-1".into(), location: "s3://a".into() }
}

pub(super) fn a_pointer_is_not_set_with_its_commit(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = Commit { pointers: vec![pointer()], ..commit([]) };
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| {
        if !wrong {
            facts.push(pointed());
        }
    });
    tale.is_done(call, committed([], false));
    tale.is_over();
}

pub(super) fn a_pointer_is_shown_where_it_does_not_lead(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = Commit { pointers: vec![pointer()], ..commit([]) };
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| facts.push(pointed()));
    tale.is_done(call, committed([], false));
    let call = tale.asks(Op::ReadPointer { topic: orders(), name: "sales/v1/day-1".into() });
    tale.commits([decided(call)]);
    let location = if wrong { "s3://b" } else { "s3://a" }.into();
    tale.is_done(call, Reply::Pointer { location });
    tale.is_over();
}

pub(super) fn a_jump_is_followed_unconfirmed(tale: &mut Tale, wrong: bool) {
    tale.happens(What::Clock { now: tale.now });
    tale.now += 2 * 3_600_000;
    if !wrong {
        tale.happens(What::Clock { now: tale.now });
    }
    tale.goes_well();
}

pub(super) fn rows_are_damaged(tale: &mut Tale, wrong: bool) {
    if wrong {
        tale.happens(What::Damaged { shard: 0, why: "page 3 is missing".into() });
    }
    tale.goes_well();
}

pub(super) fn rows_are_left_behind(tale: &mut Tale, wrong: bool) {
    if wrong {
        tale.happens(What::Leaked { shard: 0, rows: 1, example: "a page".into() });
    }
    tale.goes_well();
}

pub(super) fn an_outdated_lease_is_accepted(tale: &mut Tale, wrong: bool) {
    tale.commits([]);
    let call = tale.asks(Op::Outdated);
    if wrong {
        tale.is_done(call, Reply::Settled)
    } else {
        tale.is_refused(call, "STALE_LEASE", "generation")
    }
}

/// An id of a dead letter stored between the backup and the restore is used again.
pub(super) fn an_id_of_before_a_restore_is_accepted(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let (to, batch) = (tale.events.len() as u64, tale.batch);
    tale.dies(0, 1, 0);
    tale.happens(What::Restored { to });
    tale.batch = batch;
    tale.epoch += 1;
    let call = tale.asks(crate::tale::redrive(0));
    if wrong {
        tale.is_done(call, Reply::Redriven { new: id(9), already: true })
    } else {
        tale.is_refused(call, "NOT_FOUND", "")
    }
    tale.expires(0, 1);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn a_message_is_shown_where_it_is_not(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks(Op::Inspect { topic: orders(), partition: 0 });
    tale.commits([decided(call)]);
    let state = if wrong { MessageStatusKind::Ready } else { MessageStatusKind::Leased };
    let shown = MessageStatus { id: id(0), offset: 0, group: biller(), state, attempts: 1 };
    tale.is_done(call, Reply::Inspected(vec![shown]));
    tale.acks(0, 1);
    tale.is_over();
}

/// A peek may see commands of its own batch or not.
pub(super) fn a_message_is_shown_where_it_was(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks(Op::Inspect { topic: orders(), partition: 0 });
    let ack = tale.asks_to(driftq_checker::history::Verb::Ack, 0, 1);
    if wrong {
        tale.commits([ended(0, 1, How::Acked)]);
        tale.commits([decided(call)]);
    } else {
        tale.commits([ended(0, 1, How::Acked), decided(call)])
    }
    let state = MessageStatusKind::Leased;
    let shown = MessageStatus { id: id(0), offset: 0, group: biller(), state, attempts: 1 };
    tale.is_done(call, Reply::Inspected(vec![shown]));
    tale.is_done(ack, Reply::Settled);
    tale.is_over();
}

pub(super) fn settings_are_shown_that_are_not(tale: &mut Tale, wrong: bool) {
    tale.commits([set(settings())]);
    let call = tale.asks(Op::Patch { topic: orders() });
    let changed = Settings { text: "as changed".into(), ..settings() };
    tale.commits([set(changed), decided(call)]);
    let settings = if wrong { "as wished" } else { "as changed" }.into();
    tale.is_done(call, Reply::Topic { settings });
}

pub(super) fn granted_while_paused(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    let until = Some(tale.now + 5_000);
    tale.commits([Fact::Paused { topic: orders(), group: biller(), until }]);
    tale.passes(if wrong { 4_999 } else { 5_000 });
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn a_message_is_given_up_that_nothing_damaged(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    let damaged = if wrong { 1..2 } else { 0..1 };
    tale.happens(What::Corrupted {
        shard: 0,
        topic: orders(),
        partition: 0,
        from: damaged.start,
        to: damaged.end,
    });
    tale.commits([Fact::Lost { topic: orders(), partition: 0, offset: 0 }]);
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}
