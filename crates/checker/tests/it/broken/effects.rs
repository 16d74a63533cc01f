//! Bad histories about effects.

use driftq_checker::history::{
    Decision, Fact, How, Lease, OnDoubt, Progress, Record, Reply, Right, Status, Verb,
};

use crate::tale::{Tale, ended, lease, moved, produced};
use crate::tale_of_effects::{TTL_MS, Told, begin, effect, finish, record, resolve, right};

pub(super) fn given_out_while_it_is_held(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.passes(if wrong { 29_999 } else { 30_000 });
    tale.executes(2);
    tale.finishes(2, Status::Succeeded, "ch_1");
}

pub(super) fn given_to_another_nonce(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    let call = tale.asks(begin(|begin| begin.nonce = Some(if wrong { "b" } else { "a" }.into())));
    tale.decides(call, []);
    tale.is_done(call, tale.told(Decision::Execute, 1, ""));
    tale.finishes(1, Status::Succeeded, "ch_1");
}

pub(super) fn executed_again_though_parked(tale: &mut Tale, wrong: bool) {
    tale.on_doubt = if wrong { OnDoubt::Park } else { OnDoubt::Retry };
    tale.executes(1);
    tale.finishes(1, Status::Unknown, "no answer");
    tale.executes(2);
    tale.finishes(2, Status::Succeeded, "ch_1");
}

pub(super) fn executed_again_past_the_window(tale: &mut Tale, wrong: bool) {
    tale.window_until = Some(tale.now + 30_000 + u64::from(!wrong));
    tale.executes(1);
    tale.passes(30_000);
    tale.executes(2);
    tale.finishes(2, Status::Succeeded, "ch_1");
}

pub(super) fn the_window_moves(tale: &mut Tale, wrong: bool) {
    tale.window_until = Some(tale.now + 60_000);
    tale.executes(1);
    tale.passes(30_000);
    if wrong {
        tale.window_until = Some(tale.now + 60_000);
    }
    tale.executes(2);
    tale.finishes(2, Status::FailedRetryable, "busy");
    tale.window_until = Some(tale.now + 60_000);
    tale.executes(3);
}

pub(super) fn executed_though_it_should_be_probed(tale: &mut Tale, wrong: bool) {
    tale.on_doubt = OnDoubt::Probe;
    tale.executes(1);
    tale.passes(30_000);
    let call = tale.asks(begin(|begin| begin.nonce = Some("n2".into())));
    let granted = tale.grants_effect(2, "n2");
    tale.decides(call, [granted]);
    let decision = if wrong { Decision::Execute } else { Decision::Probe };
    tale.is_done(call, tale.told(decision, 2, ""));
    tale.finishes(2, Status::Succeeded, "ch_1");
}

pub(super) fn acked_while_an_effect_is_in_doubt(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    let status = if wrong { Status::Unknown } else { Status::FailedRetryable };
    tale.finishes(1, status, "no answer");
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn doubted_while_its_delivery_has_it(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    let doubt = record(tale, 1, Progress::InDoubt, "");
    if wrong {
        tale.commits([doubt.clone().into_fact()]);
        tale.nacks(0, 1);
    } else {
        let call = tale.asks_to(Verb::Nack { delay_ms: None }, 0, 1);
        let due = tale.now + 1_000;
        let nacked = crate::tale::ended(0, 1, How::Nacked { due, asked: false });
        tale.commits([doubt.into_fact(), nacked]);
        tale.is_done(call, Reply::Settled);
        tale.passes(1_000);
    }
    tale.leases(0, 2);
    tale.under = Some(lease(0, 2));
    tale.executes(2);
    tale.finishes(2, Status::Succeeded, "ch_1");
    tale.acks(0, 2);
    tale.is_over();
}

pub(super) fn finished_by_an_older_fence(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.passes(30_000);
    tale.executes(2);
    let fence = if wrong { 1 } else { 2 };
    let call = tale.asks(finish(tale, fence, Status::Succeeded, "ch_1"));
    let known = tale.ends_effect(2, Status::Succeeded, "ch_1");
    tale.decides(call, [known]);
    tale.is_done(call, Reply::Ok);
}

pub(super) fn ended_by_nobody(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
    tale.is_lost(call);
    let outcome = if wrong { "ch_2" } else { "ch_1" };
    let known = tale.ends_effect(1, Status::Succeeded, outcome);
    tale.decides(call, [known]);
}

pub(super) fn resolved_with_another_outcome(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.passes(30_000);
    let call = tale.asks(resolve(1, Status::FailedFinal, "never sent"));
    let outcome = if wrong { "sent" } else { "never sent" };
    let known = tale.ends_effect(1, Status::FailedFinal, outcome);
    tale.decides(call, [known.resolved()]);
    tale.is_done(call, Reply::Ok);
}

pub(super) fn a_wait_ends_without_a_resolution(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    let doubt = record(tale, 1, Progress::InDoubt, "");
    let call = tale.asks_to(Verb::Nack { delay_ms: None }, 0, 1);
    let due = tale.now + 1_000;
    let nacked = crate::tale::ended(0, 1, How::Nacked { due, asked: false });
    tale.commits([doubt.into_fact(), nacked]);
    tale.is_done(call, Reply::Settled);
    tale.passes(500);
    let wait_ended = Fact::WaitEnded { lease: lease(0, 1), due: tale.now };
    if wrong {
        tale.commits([wait_ended]);
    } else {
        let call = tale.asks(resolve(1, Status::FailedFinal, "never sent"));
        let known = tale.ends_effect(1, Status::FailedFinal, "never sent").resolved();
        tale.commits([known.into_fact(), wait_ended, Fact::Decided { calls: vec![call] }]);
        tale.is_done(call, Reply::Ok);
    }
}

pub(super) fn executed_though_it_is_over(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    let status = if wrong { Status::FailedFinal } else { Status::FailedRetryable };
    tale.finishes(1, status, "declined");
    let call = tale.asks(begin(|begin| {
        begin.nonce = Some("n2".into());
        begin.again = true;
    }));
    let granted = tale.grants_effect(2, "n2");
    tale.decides(call, [granted]);
    tale.is_done(call, tale.told(Decision::Execute, 2, ""));
}

pub(super) fn replayed_with_another_result(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    let outcome = if wrong { "ch_2" } else { "ch_1" };
    tale.replays(1, Status::Succeeded, outcome);
}

pub(super) fn in_progress_though_it_is_over(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    if wrong {
        tale.finishes(1, Status::Succeeded, "ch_1");
    }
    let call = tale.asks(begin(|_| ()));
    tale.decides(call, []);
    tale.is_refused(call, "IN_PROGRESS", "");
}

pub(super) fn another_outcome_is_said_to_be_taken(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::FailedRetryable, "busy");
    let outcome = if wrong { "gone" } else { "busy" };
    let call = tale.asks(finish(tale, 1, Status::FailedRetryable, outcome));
    tale.decides(call, []);
    tale.is_done(call, Reply::Ok);
}

pub(super) fn replayed_to_another_request(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    let call = tale.asks(begin(|begin| begin.request = Some("1300".into())));
    tale.decides(call, []);
    if wrong {
        tale.is_done(call, tale.told(Decision::Replay(Status::Succeeded), 1, "ch_1"))
    } else {
        tale.is_refused(call, "CONFLICT", "")
    }
}

pub(super) fn a_conflict_of_equal_requests(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    let request = if wrong { "1200" } else { "1300" };
    let call = tale.asks(begin(|begin| begin.request = Some(request.into())));
    tale.decides(call, []);
    tale.is_refused(call, "CONFLICT", "");
}

pub(super) fn the_request_of_an_effect_changes(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    let mut known = tale.ends_effect(1, Status::Succeeded, "ch_1");
    if wrong {
        known.request = Some("1300".into());
    }
    let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
    tale.decides(call, [known]);
    tale.is_done(call, Reply::Ok);
}

pub(super) fn forgotten_before_its_time(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    tale.passes(TTL_MS - u64::from(wrong));
    tale.life += 1;
    tale.executes(1);
}

pub(super) fn found_after_its_time(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    tale.passes(TTL_MS - u64::from(!wrong));
    tale.replays(1, Status::Succeeded, "ch_1");
}

pub(super) fn to_be_forgotten_while_its_message_is_open(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    let call = tale.asks(finish(tale, 1, Status::Succeeded, "ch_1"));
    let mut known = tale.ends_effect(1, Status::Succeeded, "ch_1");
    if wrong {
        known.kept_until = Some(tale.now + TTL_MS);
    }
    tale.decides(call, [known]);
    tale.is_done(call, Reply::Ok);
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn told_to_a_message_that_does_not_keep_it(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    tale.under = Some(lease(0, 1));
    let call = tale.asks(begin(|begin| begin.lease = Some(lease(0, 1))));
    let kept = tale.ends_effect(1, Status::Succeeded, "ch_1");
    tale.decides(call, (!wrong).then_some(kept));
    tale.is_done(call, tale.told(Decision::Replay(Status::Succeeded), 1, "ch_1"));
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn told_of_another_tenant(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    let call = tale.asks(begin(|_| ()));
    tale.decides(call, []);
    let mut shown = effect();
    if wrong {
        shown.tenant = "acme".into();
    }
    let right = Box::new(Right { effect: shown, ..right(tale.life, 1) });
    let decision = Decision::Replay(Status::Succeeded);
    tale.is_done(call, Reply::Began { decision, right, outcome: "ch_1".into() });
}

pub(super) fn begun_for_another_tenant(tale: &mut Tale, wrong: bool) {
    let call = tale.asks(begin(|begin| begin.nonce = Some("n1".into())));
    tale.is_lost(call);
    let mut granted = tale.grants_effect(1, "n1");
    if wrong {
        granted.right.effect.tenant = "acme".into();
    }
    tale.decides(call, [granted]);
}

pub(super) fn told_before_it_is_committed(tale: &mut Tale, wrong: bool) {
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    let call = tale.asks(begin(|_| ()));
    let reply = tale.told(Decision::Replay(Status::Succeeded), 1, "ch_1");
    if wrong {
        tale.is_done(call, reply);
        tale.decides(call, []);
    } else {
        tale.decides(call, []);
        tale.is_done(call, reply);
    }
}

/// The message of an outcome was acked, but the time to live of the outcome never starts.
pub(super) fn its_time_never_begins(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    let call = tale.asks_to(Verb::Ack, 0, 1);
    let known = Progress::Known(Status::Succeeded);
    let kept_until = Some(tale.now + TTL_MS);
    let kept = Record { kept_until, ..record(tale, 1, known, "ch_1") };
    let mut facts = vec![ended(0, 1, How::Acked)];
    facts.extend((!wrong).then(|| kept.into_fact()));
    tale.commits(facts);
    tale.is_done(call, Reply::Settled);
    tale.heals();
    tale.commits([]);
    tale.is_over();
}

/// A seek skipped a message with an outcome. The same key, accepted as new, must not have that
/// outcome.
pub(super) fn found_by_a_new_key_after_a_move(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let key = |tale: &Tale| Some(("order-77".into(), tale.now + 1_000));
    let (call, idem) = (tale.sends_keyed(1, "order-77"), key(tale));
    tale.stores(1, |stored| stored.idem = idem);
    tale.is_done(call, produced(0));
    tale.leases(0, 1);
    tale.under = Some(lease(0, 1));
    tale.executes(1);
    tale.finishes(1, Status::Succeeded, "ch_1");
    tale.commits([moved(2, 1)]);
    tale.passes(2_000);
    let (call, idem) = (tale.sends_keyed(2, "order-77"), key(tale));
    tale.stores(2, |stored| stored.idem = idem);
    tale.is_done(call, produced(1));
    let later = Lease { generation: 2, ..lease(1, 1) };
    tale.grants(1, 1, |granted| granted.lease = later.clone());
    tale.delivers(1, 1, |delivery| delivery.lease = later.clone());
    tale.under = Some(later.clone());
    if !wrong {
        tale.life = 2;
        tale.executes(1);
        return;
    }
    let call = tale.asks(begin(|begin| begin.lease = Some(later)));
    let found = record(tale, 1, Progress::Known(Status::Succeeded), "ch_1");
    tale.decides(call, [found]);
    tale.is_done(call, tale.told(Decision::Replay(Status::Succeeded), 1, "ch_1"));
}
