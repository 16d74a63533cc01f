//! Bad histories of replies to clients, and of the final state.

use driftq_checker::history::{Counters, Fact, How, Op, Reply, Verb, What};

use crate::tale::{Tale, counters, ended, lease, letter, moved, orders};

/// Trimmed offsets are never available again, because their pages are deleted.
pub(super) fn trimmed_to_an_earlier_offset(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    for offset in 0..2 {
        tale.produces(offset + 1);
        tale.leases(offset, 1);
        tale.acks(offset, 1);
    }
    for first in [1, if wrong { 0 } else { 2 }] {
        tale.commits([Fact::Trimmed { topic: orders(), partition: 0, first }]);
    }
    tale.is_over();
}

pub(super) fn never_granted(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    if !wrong {
        tale.leases(0, 1);
        tale.acks(0, 1);
    }
    tale.is_over();
}

pub(super) fn a_stale_extend_is_done(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.expires(0, 1);
    tale.leases(0, 2);
    let call = tale.asks_to(Verb::Extend { lease_ms: 60_000 }, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "STALE_LEASE", "leased");
    }
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn refused_before_it_was_so(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.expires(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_refused(call, "STALE_LEASE", "leased");
        tale.leases(0, 2);
    } else {
        tale.leases(0, 2);
        tale.is_refused(call, "STALE_LEASE", "leased");
    }
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn a_settlement_of_an_old_generation_is_done(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.commits([moved(2, 1)]);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "STALE_LEASE", "generation");
    }
    tale.is_over();
}

pub(super) fn granted_after_an_ack_was_answered(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    tale.expires(0, 1);
    tale.leases(0, 2);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "STALE_LEASE", "leased");
    }
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn answered_as_acked_and_dead(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "STALE_LEASE", "dead");
    }
    tale.happens(What::DeadLetter(letter(0, 0)));
    tale.is_over();
}

pub(super) fn delivered_and_forgotten(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    tale.leases(0, 1);
    tale.leases(1, 1);
    tale.acks(1, 1);
    if !wrong {
        tale.acks(0, 1);
    }
    tale.is_over();
}

pub(super) fn acked_by_nobody(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    tale.leases(0, 1);
    tale.leases(1, 1);
    if !wrong {
        tale.asks_to(Verb::Ack, 0, 1);
    }
    let call = tale.asks_to(Verb::Ack, 1, 1);
    tale.commits([ended(0, 1, How::Acked), ended(1, 1, How::Acked)]);
    tale.is_done(call, Reply::Settled);
    tale.is_over();
}

pub(super) fn a_repeated_ack_is_refused(tale: &mut Tale, wrong: bool) {
    tale.goes_well();
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_refused(call, "STALE_LEASE", "settled");
    } else {
        tale.is_done(call, Reply::Settled);
    }
}

pub(super) fn counters_never_drain(tale: &mut Tale, wrong: bool) {
    tale.heals();
    tale.goes_well();
    let open = u64::from(wrong);
    let counters = Counters { leased: open, backlog: open, ..counters(1) };
    tale.happens(What::Counted { batch: None, counters });
}

pub(super) fn counters_lie(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let batch = Some(tale.batch);
    tale.acks(0, 1);
    let open = u64::from(!wrong);
    let counters = Counters { leased: open, backlog: open, ..counters(1) };
    tale.happens(What::Counted { batch, counters });
    tale.is_over();
}

pub(super) fn an_ack_in_a_deleted_group_is_done(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.commits([Fact::GroupGone { topic: orders(), group: "biller".into() }]);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "NOT_FOUND", "");
    }
}

pub(super) fn acked_by_another_group(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let mut lease = lease(0, 1);
    // A settle by owner does not know the generation, so any is accepted. The group must match.
    lease.generation = 0;
    if wrong {
        lease.group = "mailer".into();
    }
    tale.asks(Op::Settle { lease, verb: Verb::Ack, by_owner: true });
    tale.ends(0, 1, How::Acked);
}

pub(super) fn trimmed_before_it_is_read(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    if !wrong {
        tale.leases(0, 1);
    }
    tale.commits([Fact::Trimmed { topic: orders(), partition: 0, first: 1 }]);
}

pub(super) fn counters_of_no_batch(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let batch = Some(tale.batch + u64::from(wrong));
    tale.happens(What::Counted { batch, counters: counters(0) });
}

pub(super) fn counters_of_an_older_generation(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    if wrong {
        tale.commits([moved(2, 0)]);
    }
    let batch = Some(tale.batch);
    tale.happens(What::Counted { batch, counters: counters(0) });
}
