//! What ack, nack and extend answer, by what the shard knows of the message in that group: the table of
//! the reference, cell by cell, by token and by owner. A refusal changes nothing, and neither does a
//! repeat.

use driftq_core::{LeaseToken, ShardConfig};

use crate::transcript::World;

/// One row: how the message came to be what it is, and what is asked then.
struct Row {
    the_message_is: &'static str,
    because: &'static [&'static str],
    at: &'static str,
    /// The delivery that is meant, by token.
    token: Option<&'static str>,
    /// … and by owner.
    owner: Option<&'static str>,
    /// Answers to ack, nack and extend by token.
    by_token: [&'static str; 3],
    /// … and by owner, where that form exists.
    by_owner: [&'static str; 3],
}

const VERBS: [&str; 3] = ["ack", "nack", "extend"];
const NONE: [&str; 3] = [""; 3];

const TOKEN: &str = "orders/biller 0:0.1";
const OWNER: &str = "orders/biller 0:0 owner=w";

/// One message, leased to `w` from 100 s to 110 s.
const LEASED: [&str; 3] = [
    "100s topic orders 1 lease=10s retry=3,1m,1m",
    "100s produce orders hello",
    "100s join a orders/biller owner=w",
];

macro_rules! after {
    ($($line:literal),* $(,)?) => {
        &[LEASED[0], LEASED[1], LEASED[2], $($line),*]
    };
}

const TABLE: &[Row] = &[
    Row {
        the_message_is: "leased to this attempt",
        because: after![],
        at: "105s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "ok", "extended until 115s"],
        by_owner: ["ok", "ok", "extended until 115s"],
    },
    Row {
        the_message_is: "leased to this attempt, past its time, not yet noticed",
        because: after![],
        at: "@120s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "ok", "extended until 130s"],
        by_owner: ["ok", "ok", "extended until 130s"],
    },
    Row {
        the_message_is: "leased to somebody else",
        because: after![],
        at: "105s",
        token: None,
        owner: Some("orders/biller 0:0 owner=stranger"),
        by_token: NONE,
        by_owner: ["refused: not owner"; 3],
    },
    Row {
        the_message_is: "leased in a topic that requires tokens",
        because: &[
            "100s topic orders 1 lease=10s require_token",
            "100s produce orders hello",
            "100s join a orders/biller owner=w",
        ],
        at: "105s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "ok", "extended until 115s"],
        by_owner: ["refused: this topic settles by token only"; 3],
    },
    Row {
        the_message_is: "expired, waiting for retry, not delivered again",
        because: after!["111s wait"],
        at: "112s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "ok", "stale: waiting"],
        by_owner: ["ok", "ok", "stale: waiting"],
    },
    Row {
        the_message_is: "expired in the hands of somebody else",
        because: after!["111s wait"],
        at: "112s",
        token: None,
        owner: Some("orders/biller 0:0 owner=stranger"),
        by_token: NONE,
        by_owner: ["refused: not owner"; 3],
    },
    Row {
        the_message_is: "nacked by this attempt",
        because: after!["101s nack orders/biller 0:0.1 delay=1h"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: waiting", "ok", "stale: waiting"],
        by_owner: ["stale: waiting", "ok", "stale: waiting"],
    },
    Row {
        the_message_is: "released by this attempt",
        because: after!["101s release orders/biller 0:0.1 delay=1h"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: waiting", "ok", "stale: waiting"],
        by_owner: ["stale: waiting", "ok", "stale: waiting"],
    },
    Row {
        the_message_is: "given back for this attempt",
        because: after!["101s leave a", "101s giveback orders/biller 0:0.1"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: waiting", "ok", "stale: waiting"],
        by_owner: ["stale: waiting", "ok", "stale: waiting"],
    },
    Row {
        the_message_is: "leased to a later attempt of the same owner",
        because: after!["101s nack orders/biller 0:0.1 delay=1s", "103s wait"],
        at: "104s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: leased"; 3],
        by_owner: ["ok", "ok", "extended until 114s"],
    },
    Row {
        the_message_is: "leased to a later attempt of another owner",
        because: after![
            "101s nack orders/biller 0:0.1 delay=1s + leave a",
            "103s join b orders/biller owner=v",
        ],
        at: "104s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: leased"; 3],
        by_owner: ["refused: not owner"; 3],
    },
    Row {
        the_message_is: "waiting after a later attempt",
        because: after![
            "101s nack orders/biller 0:0.1 delay=1s",
            "103s nack orders/biller 0:0.2 delay=1h",
        ],
        at: "104s",
        token: Some(TOKEN),
        owner: None,
        by_token: ["stale: waiting"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "acked by this attempt, the first",
        because: after!["101s ack orders/biller 0:0.1"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "stale: settled", "stale: settled"],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "acked by this attempt, the second",
        because: after!["101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2",],
        at: "104s",
        token: Some("orders/biller 0:0.2"),
        owner: Some(OWNER),
        by_token: ["ok", "stale: settled", "stale: settled"],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "acked by this attempt, late, and long ago",
        because: after![
            "101s extend orders/biller 0:0.1 lease=12h",
            "43000s extend orders/biller 0:0.1 lease=12h",
            "86000s extend orders/biller 0:0.1 lease=12h",
            "129000s extend orders/biller 0:0.1 lease=12h",
            "172000s extend orders/biller 0:0.1 lease=12h",
            "215000s extend orders/biller 0:0.1 lease=12h",
            "258000s extend orders/biller 0:0.1 lease=12h",
            "301000s extend orders/biller 0:0.1 lease=12h",
            "303000s ack orders/biller 0:0.1",
        ],
        at: "8d",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "stale: settled", "stale: settled"],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "acked by a later attempt",
        because: after!["101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2",],
        at: "104s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: settled"; 3],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "dead by the last failure of this attempt",
        because: &[
            "100s topic orders 1 lease=10s retry=1,1m,1m",
            "100s produce orders hello",
            "100s join a orders/biller owner=w",
            "101s nack orders/biller 0:0.1",
        ],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: dead"; 3],
        by_owner: ["stale: dead"; 3],
    },
    Row {
        the_message_is: "dead because the last lease ran out",
        because: &[
            "100s topic orders 1 lease=10s retry=1,1m,1m",
            "100s produce orders hello",
            "100s join a orders/biller owner=w",
            "111s wait",
        ],
        at: "112s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: dead"; 3],
        by_owner: ["stale: dead"; 3],
    },
    Row {
        the_message_is: "dead by the final nack of this attempt",
        because: after!["101s bury orders/biller 0:0.1"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: dead", "ok", "stale: dead"],
        // An owner cannot prove that it was this attempt.
        by_owner: ["stale: dead"; 3],
    },
    Row {
        the_message_is: "dead by the final nack of a later attempt",
        because: after!["101s nack orders/biller 0:0.1 delay=1s", "103s bury orders/biller 0:0.2",],
        at: "104s",
        token: Some(TOKEN),
        owner: None,
        by_token: ["stale: dead"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "dead, and redriven since",
        because: after!["101s bury orders/biller 0:0.1", "102s redrive orders 0:0"],
        at: "103s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: dead", "ok", "stale: dead"],
        by_owner: ["stale: dead"; 3],
    },
    Row {
        the_message_is: "dead without ever having been delivered",
        because: &[
            "100s topic orders 1",
            "100s produce orders hello deadline=101s",
            "102s join a orders/biller owner=w",
        ],
        at: "103s",
        token: None,
        owner: Some(OWNER),
        by_token: NONE,
        by_owner: ["stale: dead"; 3],
    },
    Row {
        the_message_is: "past its deadline and leased to this attempt",
        because: &[
            "100s topic orders 1 lease=10s",
            "100s produce orders hello deadline=102s",
            "100s join a orders/biller owner=w",
        ],
        at: "105s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "ok", "extended until 115s"],
        by_owner: ["ok", "ok", "extended until 115s"],
    },
    Row {
        the_message_is: "not delivered yet",
        because: &[
            "100s topic orders 1 lease=10s",
            "100s produce orders hello + produce orders more",
            "100s join a orders/biller owner=w credit=1",
        ],
        at: "105s",
        token: Some("the next"),
        owner: Some("orders/biller 0:1 owner=w"),
        by_token: ["refused: not delivered"; 3],
        by_owner: ["refused: not delivered"; 3],
    },
    Row {
        the_message_is: "beyond the end",
        because: after![],
        at: "105s",
        token: Some("the next"),
        owner: Some("orders/biller 0:7 owner=w"),
        by_token: ["refused: not delivered"; 3],
        by_owner: ["refused: not delivered"; 3],
    },
    Row {
        the_message_is: "settled without a trace; the token is recent, of the first attempt",
        because: after!["101s ack orders/biller 0:0.1"],
        // Granted at 100 s; remembered for 7 d.
        at: "604899999ms",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["ok", "stale: settled", "stale: settled"],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "settled without a trace; the token is recent, of a later attempt",
        because: after!["101s ack orders/biller 0:0.1"],
        at: "102s",
        token: Some("a later attempt"),
        owner: None,
        by_token: ["stale: gone"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "settled without a trace; the token is old",
        because: after!["101s ack orders/biller 0:0.1"],
        at: "604900s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["stale: gone"; 3],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "settled by a later attempt, and even that is forgotten",
        because: after!["101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2",],
        at: "604903s",
        token: Some("orders/biller 0:0.2"),
        owner: Some(OWNER),
        by_token: ["stale: gone"; 3],
        by_owner: ["ok", "stale: settled", "stale: settled"],
    },
    Row {
        the_message_is: "gone with its topic",
        because: after!["101s delete orders"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["refused: no such topic"; 3],
        by_owner: ["refused: no such topic"; 3],
    },
    Row {
        the_message_is: "gone with its topic, of which there is another",
        because: after![
            "101s keep orders/biller 0:0.1 as old",
            "101s delete orders",
            "101s topic orders 1",
            "101s produce orders hello",
            "101s join b orders/biller owner=w",
        ],
        at: "102s",
        token: Some("old"),
        owner: None,
        by_token: ["refused: no such topic"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "unknown to a group that is gone",
        because: after!["101s delete orders/biller"],
        at: "102s",
        token: Some(TOKEN),
        owner: Some(OWNER),
        by_token: ["refused: no such group"; 3],
        by_owner: ["refused: no such group"; 3],
    },
    Row {
        the_message_is: "of an older generation, and leased again",
        because: after![
            "101s keep orders/biller 0:0.1 as old",
            "101s pause orders/biller",
            "101s seek orders/biller earliest",
            "101s resume orders/biller",
        ],
        at: "102s",
        token: Some("old"),
        owner: None,
        by_token: ["stale: generation"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "of before a restore",
        because: after![],
        at: "102s",
        token: Some("before a restore"),
        owner: None,
        by_token: ["stale: generation"; 3],
        by_owner: NONE,
    },
    Row {
        the_message_is: "leased to a worker of another namespace",
        because: after![],
        at: "102s",
        token: Some("another namespace"),
        owner: None,
        by_token: ["refused: no such topic"; 3],
        by_owner: NONE,
    },
];

/// A world in which the row is true, and what is claimed in it.
fn play(row: &Row) -> World {
    let mut world = World::new(ShardConfig::default());
    for line in row.because {
        world.play(line);
    }
    if row.token.is_some_and(|name| !name.contains('/') && name != "old") {
        let token = world.token(TOKEN).clone();
        world.forge("the next", LeaseToken { offset: token.offset + 1, ..token.clone() });
        world.forge("a later attempt", LeaseToken { attempt: 2, ..token.clone() });
        world.forge("before a restore", LeaseToken { restore: token.restore + 1, ..token.clone() });
        world.forge("another namespace", LeaseToken { namespace: "other".into(), ..token });
    }
    world
}

/// An answer without what is only for people.
fn plain(said: &str) -> &str {
    said.split(", attempt").next().unwrap_or(said)
}

#[test]
fn every_cell_of_the_table_holds() {
    let mut wrong = Vec::new();
    let mut cells = 0;
    for row in TABLE {
        let forms = [
            (row.token.map(|name| format!("\"token={name}\"")), row.by_token, "token"),
            (row.owner.map(str::to_owned), row.by_owner, "owner"),
        ];
        for (claim, answers, form) in forms {
            let Some(claim) = claim else { continue };
            for (verb, expected) in VERBS.into_iter().zip(answers) {
                cells += 1;
                let cell = format!("{} × {verb} by {form}", row.the_message_is);
                let mut world = play(row);
                if !row.at.starts_with('@') {
                    world.play(&format!("{} wait", row.at));
                }
                let before = world.shard().image();
                let said = world.ask(&format!("{} {verb} {claim}", row.at));
                if plain(&said) != expected {
                    wrong.push(format!("{cell}: `{said}`, not `{expected}`"));
                }
                let is_open = ["leased to", "leased in", "expired", "past"]
                    .iter()
                    .any(|word| row.the_message_is.starts_with(word));
                if !(said == "ok" || said.starts_with("extended")) || !is_open {
                    let after = world.shard().image();
                    if after != before {
                        wrong.push(format!("{cell}: `{said}`, and something changed"));
                    }
                }
                world.check();
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells} cells are wrong:\n{}", wrong.join("\n"));
    assert!(cells >= 150, "{cells} cells");
}

#[test]
fn a_late_ack_by_the_current_attempt_ends_the_message() {
    let mut world = World::new(ShardConfig::default());
    for line in LEASED {
        world.play(line);
    }
    world.play("111s wait");
    assert_eq!(world.shard().open_entries(), 1);
    assert_eq!(world.ask("112s ack orders/biller 0:0.1"), "ok");
    assert_eq!(world.shard().open_entries(), 0);
}

#[test]
fn a_nack_after_the_deadline_makes_a_dead_letter_of_that_reason() {
    let mut world = World::new(ShardConfig::default());
    world.play("100s topic orders 1 lease=10s");
    world.play("100s produce orders hello deadline=102s");
    world.play("100s join a orders/biller owner=w");
    assert_eq!(world.ask("105s nack orders/biller 0:0.1"), "ok");
    let death = world.letter("orders 0:0").death.as_ref().expect("it is dead");
    assert_eq!(death.reason, driftq_core::DeathReason::Deadline);
}
