//! Bad histories about dead letters and redrives.

use driftq_checker::history::{DeadLetter, Fact, How, Lease, Reply, Verb, What};

use crate::tale::{
    LEASE_MS, Tale, biller, buried, dead_id, died, ended, id, lease, letter, redrive, stored,
};

pub(super) fn a_dead_letter_is_missing(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    if !wrong {
        tale.happens(What::DeadLetter(letter(0, 0)));
    }
    tale.is_over();
}

pub(super) fn dead_without_a_dead_letter(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.asks_to(Verb::Final, 0, 1);
    let mut facts = vec![ended(0, 1, How::Dead { asked: true })];
    if !wrong {
        facts.extend([died(0, 1, "rejected", 0), buried(1, 0)]);
    }
    tale.commits(facts);
}

pub(super) fn exhausted_too_early(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let max = if wrong { 2 } else { 1 };
    tale.produces_with(1, |stored| stored.retry.max_attempts = Some(max));
    tale.leases(0, 1);
    tale.passes(LEASE_MS);
    let dead = ended(0, 1, How::Dead { asked: false });
    tale.commits([dead, died(0, 1, "exhausted", 0), buried(1, 0)]);
}

pub(super) fn a_dead_letter_counts_wrong(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let mut told = letter(0, 0);
    told.attempts += u32::from(wrong);
    tale.happens(What::DeadLetter(told));
    tale.is_over();
}

pub(super) fn redriven_as_another(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let new = tale.redrives(0, 1);
    let call = tale.asks(redrive(0));
    let new = id(if wrong { 9 } else { new });
    tale.is_done(call, Reply::Redriven { new, already: true });
}

pub(super) fn redriven_twice(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.produces(2);
    tale.leases(0, 1);
    tale.leases(1, 1);
    tale.dies(0, 1, 0);
    tale.dies(1, 1, 1);
    tale.redrives(0, 1);
    tale.process = 2;
    let call = tale.asks(redrive(1));
    tale.is_lost(call);
    if wrong {
        let call = tale.asks(redrive(0));
        let new = id(tale.high);
        tale.is_lost(call);
        tale.stores(1, |stored| stored.for_group = Some("biller".into()));
        let fact = Fact::Redriven { id: dead_id(0), new, group: "biller".into() };
        tale.commits([fact]);
    } else {
        tale.redrives(1, 2);
    }
}

/// Dead-letters a message by a final nack. If `wrong`, `change` alters the dead letter.
fn dies_with(tale: &mut Tale, wrong: bool, change: impl FnOnce(&mut DeadLetter)) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    let mut letter = letter(0, 0);
    if wrong {
        change(&mut letter);
    }
    tale.happens(What::DeadLetter(letter));
    tale.is_over();
}

pub(super) fn a_letter_with_another_body(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.message.body = 2);
}

pub(super) fn a_letter_with_another_origin(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.origin = id(9));
}

pub(super) fn a_letter_of_another_group(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.group = "mailer".into());
}

pub(super) fn a_letter_with_another_reason(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.reason = "deadline".into());
}

pub(super) fn a_letter_without_an_error(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.last_error = "".into());
}

pub(super) fn a_letter_with_another_key(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.idem = Some("order-77".into()));
}

pub(super) fn a_letter_says_redriven(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |letter| letter.redriven = Some(id(1)));
}

pub(super) fn a_letter_of_nobody(tale: &mut Tale, wrong: bool) {
    dies_with(tale, wrong, |_| ());
    if wrong {
        tale.happens(What::DeadLetter(letter(0, 7)));
    }
}

pub(super) fn buried_in_another_commit(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.asks_to(Verb::Final, 0, 1);
    let dead = [ended(0, 1, How::Dead { asked: true }), died(0, 1, "rejected", 0)];
    if wrong {
        tale.commits(dead);
        tale.commits([buried(1, 0)]);
    } else {
        tale.commits([dead.to_vec(), vec![buried(1, 0)]].concat());
    }
}

pub(super) fn buried_with_another_body(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.sends(2);
    tale.leases(0, 1);
    tale.asks_to(Verb::Final, 0, 1);
    let dead = ended(0, 1, How::Dead { asked: true });
    tale.commits([dead, died(0, 1, "rejected", 0), buried(if wrong { 2 } else { 1 }, 0)]);
}

pub(super) fn died_while_still_leased(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.asks_to(Verb::Final, 0, 1);
    let mut facts = vec![ended(0, 1, How::Dead { asked: true })];
    if wrong {
        facts.clear();
    }
    facts.extend([died(0, 1, "rejected", 0), buried(1, 0)]);
    // Without the end of the lease, the final nack itself is not the only violation.
    tale.commits(facts);
}

pub(super) fn exhausted_before_its_time(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces_with(1, |stored| stored.retry.max_attempts = Some(1));
    tale.leases(0, 1);
    tale.passes(LEASE_MS - u64::from(wrong));
    let dead = ended(0, 1, How::Dead { asked: false });
    tale.commits([dead, died(0, 1, "exhausted", 0), buried(1, 0)]);
}

pub(super) fn final_though_nobody_said_so(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    if !wrong {
        tale.asks_to(Verb::Final, 0, 1);
    }
    let dead = ended(0, 1, How::Dead { asked: true });
    tale.commits([dead, died(0, 1, "rejected", 0), buried(1, 0)]);
}

pub(super) fn dead_before_its_deadline(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let deadline = tale.now + 10;
    tale.produces_with(1, |stored| stored.deadline = Some(deadline));
    tale.passes(10 - u64::from(wrong));
    tale.commits([died(0, 0, "deadline", 0), buried(1, 0)]);
}

/// Redrives a dead letter. `change` alters how the new message is stored.
fn comes_back(tale: &mut Tale, wrong: bool, change: impl FnOnce(&mut Fact, &mut Fact)) {
    tale.makes_group();
    tale.produces(1);
    tale.leases(0, 1);
    tale.dies(0, 1, 0);
    tale.sends(2);
    let mut copy = stored(1, 1);
    copy.for_group = Some(biller());
    let mut copy = Fact::Stored(copy);
    let mut redriven = Fact::Redriven { id: dead_id(0), new: id(1), group: biller() };
    if wrong {
        change(&mut copy, &mut redriven);
    }
    tale.commits([copy, redriven]);
}

pub(super) fn redriven_with_another_body(tale: &mut Tale, wrong: bool) {
    comes_back(tale, wrong, |copy, _| {
        let Fact::Stored(stored) = copy else { return };
        stored.message.body = 2;
    });
}

pub(super) fn redriven_for_another_group(tale: &mut Tale, wrong: bool) {
    comes_back(tale, wrong, |copy, _| {
        let Fact::Stored(stored) = copy else { return };
        stored.for_group = Some("mailer".into());
    });
}

pub(super) fn redriven_from_no_dead_letter(tale: &mut Tale, wrong: bool) {
    comes_back(tale, wrong, |_, redriven| {
        *redriven = Fact::Redriven { id: id(0), new: id(1), group: biller() };
    });
}

pub(super) fn redriven_and_granted_to_another_group(tale: &mut Tale, wrong: bool) {
    comes_back(tale, false, |_, _| ());
    let mailer = "mailer".into();
    let group = if wrong { mailer } else { biller() };
    let generation = if wrong { 2 } else { 1 };
    if wrong {
        let (topic, group) = ("orders".into(), group.clone());
        tale.commits([Fact::GroupMade { topic, group, cursors: vec![(2, 1)] }]);
    }
    let lease = Lease { group, generation, ..lease(1, 1) };
    tale.grants(1, 1, |granted| granted.lease = lease);
}

pub(super) fn exhausted_by_an_attempt_nobody_was_shown(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    for attempt in 1..=3 {
        tale.grants(0, attempt, |_| ());
        if attempt != 2 || !wrong {
            tale.happens(What::Written { lease: lease(0, attempt) });
        }
        if attempt < 3 {
            tale.expires(0, attempt);
            tale.passes(8_000);
        }
    }
    tale.passes(LEASE_MS);
    tale.commits([
        ended(0, 3, How::Dead { asked: false }),
        died(0, 3, "exhausted", 0),
        buried(1, 0),
    ]);
    let reason = "exhausted".into();
    tale.happens(What::DeadLetter(DeadLetter { reason, attempts: 3, ..letter(0, 0) }));
    tale.is_over();
}
