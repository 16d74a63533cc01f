//! An unknown outcome is never reported as a violation.

use driftq_checker::history::{Decision, How, Status, Verb};

use crate::assert_clean;
use crate::tale::{Tale, redrive};
use crate::tale_of_effects::{begin, finish};

/// Checks a history with and without its commits.
fn assert_clean_both_ways(tell: fn(&mut Tale)) {
    let mut tale = Tale::new();
    tell(&mut tale);
    assert_clean(&tale);
    let mut tale = Tale::new();
    tale.hides_commits();
    tell(&mut tale);
    assert_clean(&tale);
}

#[test]
fn a_lost_ack_may_not_have_happened() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        tale.produces(1);
        tale.leases(0, 1);
        let call = tale.asks_to(Verb::Ack, 0, 1);
        tale.is_lost(call);
        tale.expires(0, 1);
        tale.leases(0, 2);
        tale.acks(0, 2);
        tale.is_over();
    });
}

#[test]
fn a_lost_ack_may_have_happened() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        tale.produces(1);
        tale.leases(0, 1);
        let call = tale.asks_to(Verb::Ack, 0, 1);
        tale.ends(0, 1, How::Acked);
        tale.is_lost(call);
        tale.is_over();
    });
}

#[test]
fn a_lost_ack_may_happen_after_its_sender_timed_out() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        tale.produces(1);
        tale.leases(0, 1);
        let call = tale.asks_to(Verb::Ack, 0, 1);
        tale.is_lost(call);
        tale.ends(0, 1, How::Acked);
        tale.is_over();
    });
}

#[test]
fn a_call_without_a_reply_is_unknown() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        tale.sends(1);
        tale.stores(1, |_| ());
        tale.leases(0, 1);
        tale.asks_to(Verb::Ack, 0, 1);
        tale.ends(0, 1, How::Acked);
        tale.is_over();
    });
}

#[test]
fn a_lost_produce_may_be_delivered() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        let call = tale.sends(1);
        tale.stores(1, |_| ());
        tale.is_lost(call);
        tale.leases(0, 1);
        tale.acks(0, 1);
        tale.is_over();
    });
}

#[test]
fn a_lost_produce_may_never_be_delivered() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        let call = tale.sends(1);
        tale.is_lost(call);
        tale.is_over();
    });
}

#[test]
fn a_lost_produce_that_is_retried_may_be_stored_twice() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        let call = tale.sends(1);
        tale.stores(1, |_| ());
        tale.is_lost(call);
        tale.produces(1);
        tale.leases(0, 1);
        tale.acks(0, 1);
        tale.grants(1, 1, |_| ());
        tale.delivers(1, 1, |delivery| delivery.message.body = 1);
        tale.acks(1, 1);
        tale.is_over();
    });
}

#[test]
fn a_lost_redrive_may_have_stored_its_message() {
    assert_clean_both_ways(|tale| {
        tale.makes_group();
        tale.produces(1);
        tale.leases(0, 1);
        tale.dies(0, 1, 0);
        let call = tale.asks(redrive(0));
        tale.is_lost(call);
        let new = tale.redrives(0, 1);
        tale.grants(new, 1, |_| ());
        tale.delivers(new, 1, |delivery| delivery.message.body = 1);
        tale.acks(new, 1);
    });
}

#[test]
fn a_lost_begin_may_have_been_granted() {
    assert_clean_both_ways(|tale| {
        let call = tale.asks(begin(|begin| begin.nonce = Some("b".into())));
        let granted = tale.grants_effect(1, "b");
        tale.decides(call, [granted]);
        tale.is_lost(call);
        let call = tale.asks(begin(|begin| begin.nonce = Some("b".into())));
        tale.decides(call, []);
        tale.is_done(call, tale.told(Decision::Execute, 1, ""));
    });
}

#[test]
fn a_lost_begin_may_not_have_been_granted() {
    assert_clean_both_ways(|tale| {
        let call = tale.asks(begin(|_| ()));
        tale.is_lost(call);
        tale.executes(1);
    });
}

#[test]
fn a_lost_finish_may_have_happened() {
    assert_clean_both_ways(|tale| {
        tale.executes(1);
        let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
        tale.is_lost(call);
        let ended = tale.ends_effect(1, Status::Succeeded, "ch_1");
        tale.decides(call, [ended]);
        tale.replays(1, Status::Succeeded, "ch_1");
    });
}

#[test]
fn a_lost_finish_may_not_have_happened() {
    assert_clean_both_ways(|tale| {
        tale.executes(1);
        let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
        tale.is_lost(call);
        tale.passes(crate::tale::LEASE_MS);
        tale.executes(2);
        tale.finishes(2, Status::FailedFinal, "declined");
    });
}
