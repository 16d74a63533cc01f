//! Bad histories of grants and of the ends of leases.

use driftq_checker::history::{Fact, How, Lease, Op, Verb};

use crate::tale::{BACKOFF_MS, LEASE_MS, Tale, biller, lease, moved, orders};

pub(super) fn passed_by_though_meant_for_the_group(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    if wrong {
        let (topic, group) = (orders(), "biller".into());
        tale.commits([Fact::Passed { topic, group, generation: 1, partition: 0, offset: 0 }]);
    } else {
        tale.leases(0, 1);
        tale.acks(0, 1);
    }
    tale.is_over();
}

pub(super) fn an_attempt_is_granted_again(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    let attempt = if wrong { 1 } else { 2 };
    tale.grants(0, attempt, |granted| granted.spent = 2);
    tale.acks(0, attempt);
    tale.is_over();
}

pub(super) fn granted_while_leased(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if !wrong {
        tale.nacks(0, 1);
    }
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn acked_twice(tale: &mut Tale, wrong: bool) {
    tale.goes_well();
    if wrong {
        tale.ends(0, 1, How::Acked);
    }
}

pub(super) fn expired_too_early(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.passes(LEASE_MS - u64::from(wrong));
    let due = tale.now + BACKOFF_MS;
    tale.ends(0, 1, How::Expired { due });
    tale.passes(BACKOFF_MS);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn waits_longer_than_the_policy_says(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.asks_to(Verb::Nack { delay_ms: None }, 0, 1);
    let due = tale.now + BACKOFF_MS + u64::from(wrong);
    tale.ends(0, 1, How::Nacked { due, asked: false });
    tale.passes(2 * BACKOFF_MS);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn an_attempt_is_left_out(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    let attempt = if wrong { 3 } else { 2 };
    tale.grants(0, attempt, |granted| granted.spent = 2);
    tale.acks(0, attempt);
    tale.is_over();
}

pub(super) fn a_given_back_attempt_counts(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.grants(0, 1, |_| ());
    let due = tale.now;
    tale.ends(0, 1, How::Returned { due });
    tale.grants(0, 2, |granted| granted.spent = if wrong { 2 } else { 1 });
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn granted_more_often_than_allowed(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let max = if wrong { 1 } else { 2 };
    tale.produces_with(1, |stored| stored.retry.max_attempts = Some(max));
    tale.leases(0, 1);
    tale.nacks(0, 1);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn read_behind_its_start(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    tale.commits([moved(2, u64::from(wrong))]);
    for offset in [0, 1] {
        let lease = lease(offset, 1);
        let lease = Lease { generation: 2, ..lease };
        tale.grants(offset, 1, |granted| granted.lease = lease.clone());
        tale.asks(Op::Settle { lease: lease.clone(), verb: Verb::Ack, by_owner: false });
        tale.commits([Fact::Ended { lease, how: How::Acked }]);
    }
    tale.is_over();
}

pub(super) fn a_message_is_left_out(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    for body in 1..=3 {
        tale.produces(body);
    }
    tale.leases(0, 1);
    if !wrong {
        tale.leases(1, 1);
    }
    tale.leases(2, 1);
}

pub(super) fn more_leases_than_credit(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    let credit = if wrong { 1 } else { 2 };
    tale.grants(0, 1, |granted| granted.credit = credit);
    tale.grants(1, 1, |granted| granted.credit = credit);
}

pub(super) fn more_leases_than_the_group_allows(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    tale.grants(0, 1, |granted| granted.max_in_flight = 1);
    if !wrong {
        tale.acks(0, 1);
    }
    tale.grants(1, 1, |granted| (granted.max_in_flight, granted.consumer) = (1, 8));
}

pub(super) fn granted_before_it_is_due(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    tale.now -= u64::from(wrong);
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn granted_after_its_deadline(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let deadline = tale.now + 10;
    tale.produces_with(1, |stored| stored.deadline = Some(deadline));
    tale.passes(if wrong { 10 } else { 9 });
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn delivered_and_not_granted(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.grants(0, 1, |_| ());
    tale.delivers(0, if wrong { 2 } else { 1 }, |_| ());
}

pub(super) fn delivered_with_another_count(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    tale.grants(0, 2, |_| ());
    tale.delivers(0, 2, |delivery| delivery.spent -= u32::from(wrong));
}

pub(super) fn a_lease_that_is_over_is_renewed(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if wrong {
        tale.expires(0, 1);
    }
    let until = tale.now + LEASE_MS;
    tale.commits([Fact::Extended { lease: lease(0, 1), until }]);
}

pub(super) fn an_attempt_ends_that_is_not_the_last(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    tale.leases(0, 2);
    let attempt = if wrong { 1 } else { 2 };
    tale.asks_to(Verb::Ack, 0, attempt);
    tale.ends(0, attempt, How::Acked);
}

pub(super) fn a_nacked_attempt_is_acked(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if wrong {
        tale.nacks(0, 1);
    } else {
        tale.expires(0, 1);
    }
    tale.asks_to(Verb::Ack, 0, 1);
    tale.ends(0, 1, How::Acked);
}

pub(super) fn granted_after_its_end(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.ends(0, 1, How::Acked);
    } else {
        tale.expires(0, 1);
    }
    tale.is_lost(call);
    tale.leases(0, 2);
}

pub(super) fn granted_in_a_generation_that_is_over(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    if wrong {
        tale.commits([moved(2, 0)]);
    }
    tale.leases(0, 1);
}

pub(super) fn granted_in_a_group_that_is_gone(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    if wrong {
        tale.commits([Fact::GroupGone { topic: orders(), group: biller() }]);
    }
    tale.leases(0, 1);
}

pub(super) fn nacked_by_nobody(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if !wrong {
        tale.asks_to(Verb::Nack { delay_ms: None }, 0, 1);
    }
    let due = tale.now + BACKOFF_MS;
    tale.ends(0, 1, How::Nacked { due, asked: false });
}

pub(super) fn an_extended_lease_expires_at_its_first_end(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if wrong {
        let until = tale.now + 2 * LEASE_MS;
        tale.commits([Fact::Extended { lease: lease(0, 1), until }]);
    }
    tale.expires(0, 1);
}

pub(super) fn waits_less_than_a_tenth(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.nacks(0, 1);
    tale.leases(0, 2);
    tale.passes(LEASE_MS);
    let due = tale.now + 2 * BACKOFF_MS / 10 - u64::from(wrong);
    tale.ends(0, 2, How::Expired { due });
}

pub(super) fn waits_a_negative_time(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.asks_to(Verb::Nack { delay_ms: Some(0) }, 0, 1);
    let due = tale.now - u64::from(wrong);
    tale.ends(0, 1, How::Nacked { due, asked: true });
}
