//! Histories that violate an invariant, with only client events recorded.

use driftq_checker::Invariant::{self, *};
use driftq_checker::history::{Decision, Reply, Status, Verb, What};

use crate::tale::{Tale, content, duplicate_of, id, letter, produced};
use crate::tale_of_effects::{begin, finish};
use crate::{Case, assert_breaks};

const CASES: &[(&[Invariant], Case)] = &[
    (&[NoLoss], never_delivered),
    (&[NoPhantom], delivered_but_never_sent),
    (&[SameContent], delivered_with_another_tenant),
    (&[OnePosition], answered_and_delivered_under_two_ids),
    (&[RejectedIsAbsent], refused_and_delivered),
    (&[StoredAtMostOnce], sent_once_and_delivered_from_two_places),
    (&[RealTimeOrder], sent_later_and_stored_earlier),
    (&[AttemptsGrow], one_attempt_delivered_twice),
    (&[AttemptsGrow], one_process_sees_attempts_go_down),
    (&[StaleIsRejected], a_stale_ack_is_done),
    (&[AckIsFinal], delivered_after_an_ack_was_answered),
    (&[AckSettlesOne], delivered_and_forgotten),
    (&[IdempotentAck], a_repeated_ack_is_refused),
    (&[AttemptsCounted], more_spent_than_delivered),
    (&[DeadLetteredOnce], dead_twice),
    (&[NoEarlyDeadLetter], final_though_nobody_said_so),
    (&[FaithfulDeadLetter], dead_without_an_error),
    (&[RedrivenOnce], redriven_as_two_messages),
    (&[ProducerOrder], one_producer_out_of_order),
    (&[MessageSize], a_giant_is_accepted),
    (&[OneExecutor], an_effect_given_out_twice),
    (&[StaleFinishIsRejected], an_effect_finished_by_an_older_fence),
    (&[ExactReplay], an_effect_given_out_after_its_end),
    (&[ExactReplay], an_effect_replayed_in_two_ways),
    (&[Dedupe], a_duplicate_of_nothing),
    (&[SameContent, TenantIsolation], a_duplicate_of_another_tenant),
    (&[EventualDrain], counters_never_drain),
    (&[Conservation], counters_do_not_add_up),
];

#[test]
fn every_bad_history_violates_exactly_its_invariants() {
    for (broken, case) in CASES {
        assert_breaks(broken, *case);
    }
}

fn starts(tale: &mut Tale) {
    tale.hides_commits();
    tale.makes_group();
}

fn never_delivered(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    if !wrong {
        tale.leases(0, 1);
        tale.acks(0, 1);
    }
    tale.is_over();
}

fn delivered_but_never_sent(tale: &mut Tale, wrong: bool) {
    starts(tale);
    let call = tale.sends(if wrong { 9 } else { 1 });
    tale.is_lost(call);
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

fn delivered_with_another_tenant(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.delivers(0, 1, |delivery| {
        if wrong {
            delivery.message.tenant = "acme".into();
        }
    });
    tale.acks(0, 1);
    tale.is_over();
}

fn answered_and_delivered_under_two_ids(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.delivers(0, 1, |delivery| delivery.id = id(if wrong { 9 } else { 0 }));
    tale.acks(0, 1);
    tale.is_over();
}

fn refused_and_delivered(tale: &mut Tale, wrong: bool) {
    starts(tale);
    let call = tale.sends(1);
    if wrong {
        tale.is_refused(call, "RESOURCE_EXHAUSTED", "");
    } else {
        tale.is_lost(call);
    }
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

fn sent_once_and_delivered_from_two_places(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    if !wrong {
        let call = tale.sends(1);
        tale.is_lost(call);
    }
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.delivers(1, 1, |delivery| delivery.message = content(1));
    tale.acks(1, 1);
    tale.is_over();
}

fn sent_later_and_stored_earlier(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    for (process, offset) in [(1, u64::from(wrong)), (2, u64::from(!wrong))] {
        tale.process = process;
        let call = tale.sends(offset + 1);
        tale.is_done(call, produced(offset));
    }
}

fn one_attempt_delivered_twice(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    tale.process = 2;
    tale.leases(0, if wrong { 1 } else { 2 });
    tale.acks(0, 2);
    tale.is_over();
}

fn one_process_sees_attempts_go_down(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 2);
    tale.process = if wrong { 1 } else { 2 };
    tale.leases(0, 1);
    tale.acks(0, 2);
    tale.is_over();
}

fn a_stale_ack_is_done(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    tale.leases(0, 2);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_refused(call, "STALE_LEASE", "leased");
    }
    tale.acks(0, 2);
    tale.is_over();
}

fn delivered_after_an_ack_was_answered(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_done(call, Reply::Settled);
    } else {
        tale.is_lost(call);
    }
    tale.leases(0, 2);
    tale.acks(0, 2);
    tale.is_over();
}

fn delivered_and_forgotten(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    let call = tale.asks_to(Verb::Ack, 0, 1);
    if wrong {
        tale.is_refused(call, "STALE_LEASE", "waiting");
    } else {
        tale.is_lost(call);
    }
    tale.is_over();
}

fn a_repeated_ack_is_refused(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    tale.goes_well();
    let call = tale.asks_to(Verb::Ack, 0, 1);
    let state = if wrong { "settled" } else { "generation" };
    tale.is_refused(call, "STALE_LEASE", state);
}

fn more_spent_than_delivered(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.delivers(0, 1, |delivery| delivery.spent += u32::from(wrong));
    tale.acks(0, 1);
    tale.is_over();
}

fn dead_twice(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    tale.happens(What::DeadLetter(letter(0, 0)));
    if wrong {
        tale.happens(What::DeadLetter(letter(0, 1)));
    }
    tale.is_over();
}

fn final_though_nobody_said_so(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    let verb = if wrong { Verb::Nack { delay_ms: None } } else { Verb::Final };
    let call = tale.asks_to(verb, 0, 1);
    tale.is_done(call, Reply::Settled);
    tale.happens(What::DeadLetter(letter(0, 0)));
    tale.is_over();
}

fn dead_without_an_error(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let mut told = letter(0, 0);
    if wrong {
        told.last_error = "".into();
    }
    tale.happens(What::DeadLetter(told));
    tale.is_over();
}

fn redriven_as_two_messages(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let new = tale.redrives(0, 1);
    let call = tale.asks(crate::tale::redrive(0));
    let new = id(new + u64::from(wrong));
    tale.is_done(call, Reply::Redriven { new, already: true });
}

fn one_producer_out_of_order(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    for offset in [u64::from(wrong), u64::from(!wrong)] {
        let call = tale.sends(offset + 1);
        tale.is_done(call, produced(offset));
    }
}

fn a_giant_is_accepted(tale: &mut Tale, wrong: bool) {
    use driftq_checker::history::{Op, Produce};
    tale.hides_commits();
    let size = (16 << 20) + 1024 + u64::from(wrong);
    let message = content(1);
    let call = tale.asks(Op::Produce(Produce {
        topic: crate::tale::orders(),
        message,
        idem: None,
        nonce: None,
        target: None,
        size,
    }));
    tale.is_done(call, produced(0));
}

fn a_duplicate_of_nothing(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    let call = tale.sends_keyed(1, "order-77");
    if wrong {
        tale.is_refused(call, "RESOURCE_EXHAUSTED", "");
    } else {
        tale.is_lost(call);
    }
    let call = tale.sends_keyed(1, "order-77");
    tale.is_done(call, duplicate_of(0));
}

fn a_duplicate_of_another_tenant(tale: &mut Tale, wrong: bool) {
    use driftq_checker::history::{Op, Produce};
    tale.hides_commits();
    let mut message = content(1);
    message.tenant = "acme".into();
    let (topic, idem) = (crate::tale::orders(), Some("order-77".into()));
    let call = tale.asks(Op::Produce(Produce {
        topic,
        message: message.clone(),
        idem,
        nonce: None,
        target: None,
        size: 10,
    }));
    tale.is_done(call, produced(0));
    if !wrong {
        let call = tale.sends_keyed(2, "order-77");
        tale.is_done(call, produced(1));
    }
    let call = tale.sends_keyed(2, "order-77");
    tale.is_done(call, duplicate_of(u64::from(!wrong)));
}

fn counters_never_drain(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    tale.heals();
    tale.goes_well();
    let mut counters = crate::tale::counters(1);
    (counters.waiting, counters.backlog) = (u64::from(wrong), u64::from(wrong));
    tale.happens(What::Counted { batch: None, counters });
}

fn counters_do_not_add_up(tale: &mut Tale, wrong: bool) {
    tale.hides_commits();
    tale.goes_well();
    let mut counters = crate::tale::counters(1);
    counters.waiting = 2;
    counters.backlog = 2 + u64::from(wrong);
    tale.happens(What::Counted { batch: None, counters });
}

fn an_effect_given_out_twice(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.executes(1);
    let nonce = if wrong { "b" } else { "a" };
    let call = tale.asks(begin(|begin| begin.nonce = Some(nonce.into())));
    tale.is_done(call, tale.told(Decision::Execute, 1, ""));
}

fn an_effect_finished_by_an_older_fence(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.executes(1);
    tale.executes(2);
    tale.finishes(if wrong { 1 } else { 2 }, Status::Succeeded, "ch_1");
}

fn an_effect_given_out_after_its_end(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.executes(1);
    let status = if wrong { Status::Succeeded } else { Status::FailedRetryable };
    tale.finishes(1, status, "ch_1");
    tale.executes(2);
}

fn an_effect_replayed_in_two_ways(tale: &mut Tale, wrong: bool) {
    starts(tale);
    tale.executes(1);
    let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
    tale.is_lost(call);
    tale.replays(1, Status::Succeeded, "ch_1");
    tale.replays(1, Status::Succeeded, if wrong { "ch_2" } else { "ch_1" });
}
