//! Bad histories of commits: their atomicity and their messages to another shard.

use driftq_checker::history::{Commit, Fact, Finish, Status, What};

use crate::tale::{Tale, buried, dead_id, id, stored};
use crate::tale_of_commits::{KEPT_MS, arrived_there, came_back, commit, committed, next};
use crate::tale_of_effects::right;

pub(super) fn committed_without_its_message(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(50, "orders"), (51, "orders")]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| {
        if wrong {
            facts.remove(2);
        }
    });
    tale.is_lost(call);
}

pub(super) fn committed_and_not_ended(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(50, "orders")]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| {
        if wrong {
            facts.remove(0);
        }
    });
    tale.is_lost(call);
}

pub(super) fn a_message_of_a_commit_that_is_not(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(50, "orders")]);
    let call = tale.asks_to_commit(&asked);
    if wrong {
        tale.commits([Fact::Stored(stored(50, 1))])
    } else {
        tale.is_committed(call, &asked, |_| ())
    }
    tale.is_lost(call);
}

pub(super) fn stored_though_its_commit_is_refused(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let call = tale.asks_to_commit(&commit([(50, "orders"), (51, "nowhere")]));
    let mut facts = vec![Fact::Decided { calls: vec![call] }];
    if wrong {
        facts.push(Fact::Stored(stored(50, 1)));
    }
    tale.commits(facts);
    tale.is_refused(call, "NOT_FOUND", "");
}

pub(super) fn told_committed_and_is_not(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |_| ());
    tale.is_lost(call);
    let other = Commit { produce: commit([(50, "orders")]).produce, ..asked.clone() };
    let call = tale.asks_to_commit(if wrong { &other } else { &asked });
    tale.decides(call, []);
    if wrong {
        tale.is_done(call, committed([next()], true))
    } else {
        tale.is_done(call, committed([], true))
    }
}

pub(super) fn a_repeated_commit_is_refused(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |_| ());
    tale.is_lost(call);
    tale.passes(KEPT_MS - u64::from(wrong));
    let call = tale.asks_to_commit(&asked);
    tale.decides(call, []);
    tale.is_refused(call, "STALE_LEASE", "settled");
}

pub(super) fn a_repeat_is_told_otherwise(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(50, "orders")]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |_| ());
    tale.is_done(call, committed([next()], false));
    let call = tale.asks_to_commit(&asked);
    tale.decides(call, []);
    tale.is_done(call, committed([Some(id(if wrong { 0 } else { 1 }))], true));
}

pub(super) fn a_commit_is_answered_before_it_is_one(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([]);
    let call = tale.asks_to_commit(&asked);
    if wrong {
        tale.is_refused(call, "CONFLICT", "");
        tale.decides(call, []);
    } else {
        tale.decides(call, []);
        tale.is_refused(call, "CONFLICT", "");
    }
}

pub(super) fn committed_without_an_outcome(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    tale.executes(1);
    let right = right(tale.life, 1);
    let finish = Finish { right, status: Status::Succeeded, outcome: "ch_1".into() };
    let asked = Commit { finishes: vec![finish], ..commit([]) };
    let call = tale.asks_to_commit(&asked);
    let ended = tale.ends_effect(1, Status::Succeeded, "ch_1");
    tale.is_committed(call, &asked, |facts| {
        if !wrong {
            facts.insert(0, Fact::Recorded(Box::new(ended)));
        }
    });
    tale.is_done(call, committed([], false));
}

pub(super) fn arrives_twice(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    let arrived = |through| Fact::Arrived { from: 0, through };
    tale.commits_there([arrived_there(60, 0), arrived(1)]);
    let again = if wrong { 60 } else { 61 };
    tale.commits_there([arrived_there(again, 1), arrived(if wrong { 1 } else { 2 })]);
    if wrong {
        tale.commits_there([arrived_there(61, 2), arrived(2)]);
    }
}

pub(super) fn a_commit_is_done_twice(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| {
        if wrong {
            facts.push(facts[2].clone());
        }
    });
    tale.is_lost(call);
}

pub(super) fn arrives_out_of_order(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    let (first, second) = if wrong { (61, 60) } else { (60, 61) };
    let arrived = Fact::Arrived { from: 0, through: 2 };
    tale.commits_there([arrived_there(first, 0), arrived_there(second, 1), arrived]);
}

pub(super) fn said_to_have_arrived(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    let mut facts = vec![Fact::Arrived { from: 0, through: 1 }];
    if !wrong {
        facts.push(arrived_there(60, 0));
    }
    tale.commits_there(facts);
}

pub(super) fn given_up_before_it_arrives(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    tale.commits_there([arrived_there(60, 0), Fact::Arrived { from: 0, through: 1 }]);
    tale.commits([Fact::Left { to: 1, number: u64::from(wrong) }]);
}

pub(super) fn more_arrives_than_was_sent(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    let through = if wrong { 3 } else { 2 };
    let arrived = Fact::Arrived { from: 0, through };
    tale.commits_there([arrived_there(60, 0), arrived_there(61, 1), arrived]);
}

pub(super) fn a_number_goes_out_twice(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(60, "receipts"), (61, "receipts")]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |facts| {
        if let (true, Fact::Sent { number, .. }) = (wrong, &mut facts[2]) {
            *number = 0;
        }
    });
    tale.is_lost(call);
}

pub(super) fn on_its_way_for_ever(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    let mut facts = vec![arrived_there(60, 0), Fact::Arrived { from: 0, through: 1 }];
    if !wrong {
        facts = vec![facts.remove(0), arrived_there(61, 1), Fact::Arrived { from: 0, through: 2 }];
    }
    tale.commits_there(facts);
    tale.commits([Fact::Left { to: 1, number: 0 }]);
    if !wrong {
        tale.commits([Fact::Left { to: 1, number: 1 }]);
    }
    tale.is_over();
}

/// The other shard rejects both messages, and they become dead letters.
fn is_turned_away(tale: &mut Tale, change: impl FnOnce(&mut Vec<Fact>)) {
    tale.sends_two();
    for number in [0, 1] {
        tale.commits_there([
            Fact::Arrived { from: 0, through: number },
            Fact::TurnedAway { from: 0, number },
        ]);
    }
    let mut facts = Vec::new();
    for (number, body) in [(0, 60), (1, 61)] {
        facts.push(buried(body, number));
        facts.push(Fact::CameBack { id: dead_id(number) });
        facts.push(Fact::Left { to: 1, number });
    }
    change(&mut facts);
    tale.commits(facts);
}

pub(super) fn turned_away_and_gone(tale: &mut Tale, wrong: bool) {
    is_turned_away(tale, |facts| {
        if wrong {
            facts.drain(3..5);
        }
    });
}

pub(super) fn came_back_though_nobody_said_so(tale: &mut Tale, wrong: bool) {
    tale.sends_two();
    if !wrong {
        tale.commits_there([Fact::TurnedAway { from: 0, number: 0 }]);
    }
    tale.commits([buried(60, 0), Fact::CameBack { id: dead_id(0) }]);
}

pub(super) fn came_back_and_is_not_there(tale: &mut Tale, wrong: bool) {
    is_turned_away(tale, |_| ());
    tale.happens(What::DeadLetter(came_back(60, 0)));
    if !wrong {
        tale.happens(What::DeadLetter(came_back(61, 1)));
    }
    tale.is_over();
}

pub(super) fn came_back_to_another(tale: &mut Tale, wrong: bool) {
    is_turned_away(tale, |_| ());
    let mut letter = came_back(60, 0);
    letter.offset += u64::from(wrong);
    tale.happens(What::DeadLetter(letter));
}

pub(super) fn the_next_step_is_never_granted(tale: &mut Tale, wrong: bool) {
    tale.has_something_to_commit();
    let asked = commit([(50, "orders")]);
    let call = tale.asks_to_commit(&asked);
    tale.is_committed(call, &asked, |_| ());
    tale.is_done(call, committed([next()], false));
    if !wrong {
        tale.reads_the_next(50);
    }
    tale.is_over();
}
