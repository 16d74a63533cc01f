//! Every cell of `docs/reference/settle-table.md`, by token and by owner. A request that is not done
//! changes nothing, and neither does a repetition.

use std::collections::BTreeMap;

use driftq_core::{LeaseToken, ShardConfig};

use crate::transcript::World;

const PAGE: &str = include_str!("../../../../docs/reference/settle-table.md");
const VERBS: [&str; 3] = ["ack", "nack", "extend"];

/// The commands that lead to a state of the page, and the deliveries that are named in it.
struct Setup {
    the_message_is: &'static str,
    because: &'static [&'static str],
    at: &'static str,
    token: Option<&'static str>,
    owner: Option<&'static str>,
}

const fn setup(
    the_message_is: &'static str,
    because: &'static [&'static str],
    at: &'static str,
    token: &'static str,
    owner: &'static str,
) -> Setup {
    let token = if token.is_empty() { None } else { Some(token) };
    let owner = if owner.is_empty() { None } else { Some(owner) };
    Setup { the_message_is, because, at, token, owner }
}

const TOKEN: &str = "orders/biller 0:0.1";
const SECOND: &str = "orders/biller 0:0.2";
const OWNER: &str = "orders/biller 0:0 owner=w";
const STRANGER: &str = "orders/biller 0:0 owner=stranger";

/// One message, leased to `w` from 100 s to 110 s.
const LEASED: [&str; 3] = [
    "100s topic orders 1 lease=10s retry=3,1m,1m",
    "100s produce orders hello",
    "100s join a orders/biller owner=w",
];
/// The same with one attempt in all.
const LAST: [&str; 3] = ["100s topic orders 1 lease=10s retry=1,1m,1m", LEASED[1], LEASED[2]];

macro_rules! after {
    ($start:ident $(, $line:literal)* $(,)?) => {
        &[$start[0], $start[1], $start[2], $($line),*]
    };
}

const SETUPS: &[Setup] = &[
    setup("leased to this attempt", after![LEASED], "105s", TOKEN, OWNER),
    setup(
        "leased to this attempt, past the end of the lease, but its expiry is not recorded yet",
        after![LEASED],
        "@120s",
        TOKEN,
        OWNER,
    ),
    setup(
        "leased to this attempt, and past its deadline",
        &[
            "100s topic orders 1 lease=10s",
            "100s produce orders hello deadline=102s",
            "100s join a orders/biller owner=w",
        ],
        "105s",
        TOKEN,
        OWNER,
    ),
    setup("leased to another owner", after![LEASED], "105s", "", STRANGER),
    setup(
        "leased in a topic that requires tokens",
        &[
            "100s topic orders 1 lease=10s require_token",
            "100s produce orders hello",
            "100s join a orders/biller owner=w",
        ],
        "105s",
        TOKEN,
        OWNER,
    ),
    setup("expired and waiting for its retry", after![LEASED, "111s wait"], "112s", TOKEN, OWNER),
    setup(
        "expired and waiting, and was leased to another owner",
        after![LEASED, "111s wait"],
        "112s",
        "",
        STRANGER,
    ),
    setup(
        "nacked by this attempt and waiting",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1h"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "released by this attempt and waiting",
        after![LEASED, "101s release orders/biller 0:0.1 delay=1h"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "returned by the server because its client disconnected",
        after![LEASED, "101s leave a", "101s giveback orders/biller 0:0.1"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "leased to a later attempt of the same owner",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1s", "103s wait"],
        "104s",
        TOKEN,
        OWNER,
    ),
    setup(
        "leased to a later attempt of another owner",
        after![
            LEASED,
            "101s nack orders/biller 0:0.1 delay=1s + leave a",
            "103s join b orders/biller owner=v",
        ],
        "104s",
        TOKEN,
        OWNER,
    ),
    setup(
        "waiting after a later attempt",
        after![
            LEASED,
            "101s nack orders/biller 0:0.1 delay=1s",
            "103s nack orders/biller 0:0.2 delay=1h",
        ],
        "104s",
        TOKEN,
        "",
    ),
    setup(
        "acked by this attempt, which is attempt 1",
        after![LEASED, "101s ack orders/biller 0:0.1"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "acked by this attempt, which is attempt 2",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2"],
        "104s",
        SECOND,
        OWNER,
    ),
    setup(
        "acked by this attempt, which is attempt 1, long after its delivery",
        after![
            LEASED,
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
        "8d",
        TOKEN,
        OWNER,
    ),
    setup(
        "acked by a later attempt",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2"],
        "104s",
        TOKEN,
        OWNER,
    ),
    setup(
        "dead-lettered because this attempt failed and was the last",
        after![LAST, "101s nack orders/biller 0:0.1"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "dead-lettered because the lease of the last attempt expired",
        after![LAST, "111s wait"],
        "112s",
        TOKEN,
        OWNER,
    ),
    setup(
        "dead-lettered by this attempt's nack with `dead_letter`",
        after![LEASED, "101s bury orders/biller 0:0.1"],
        "102s",
        TOKEN,
        OWNER,
    ),
    setup(
        "dead-lettered by a later attempt's nack with `dead_letter`",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1s", "103s bury orders/biller 0:0.2"],
        "104s",
        TOKEN,
        "",
    ),
    setup(
        "dead-lettered by this attempt's nack, and redriven",
        after![LEASED, "101s bury orders/biller 0:0.1", "102s redrive orders 0:0"],
        "103s",
        TOKEN,
        OWNER,
    ),
    setup(
        "dead-lettered without a delivery",
        &[
            "100s topic orders 1",
            "100s produce orders hello deadline=101s",
            "102s join a orders/biller owner=w",
        ],
        "103s",
        "",
        OWNER,
    ),
    setup(
        "not delivered yet",
        &[
            "100s topic orders 1 lease=10s",
            "100s produce orders hello + produce orders more",
            "100s join a orders/biller owner=w credit=1",
        ],
        "105s",
        "the next",
        "orders/biller 0:1 owner=w",
    ),
    setup(
        "beyond the end of the partition",
        after![LEASED],
        "105s",
        "the next",
        "orders/biller 0:7 owner=w",
    ),
    // Granted at 100 s, and recent for 7 days.
    setup(
        "settled without a record, with a recent token of attempt 1",
        after![LEASED, "101s ack orders/biller 0:0.1"],
        "604899999ms",
        TOKEN,
        "",
    ),
    setup(
        "settled without a record, with a recent token of attempt 2 or higher",
        after![LEASED, "101s ack orders/biller 0:0.1"],
        "102s",
        "a later attempt",
        "",
    ),
    setup(
        "settled without a record, with an old token",
        after![LEASED, "101s ack orders/biller 0:0.1"],
        "604900s",
        TOKEN,
        "",
    ),
    setup(
        "settled without a record",
        after![LEASED, "101s ack orders/biller 0:0.1"],
        "604900s",
        "",
        OWNER,
    ),
    setup(
        "settled by a later attempt whose record has expired",
        after![LEASED, "101s nack orders/biller 0:0.1 delay=1s", "103s ack orders/biller 0:0.2"],
        "604903s",
        SECOND,
        OWNER,
    ),
    setup("in a deleted topic", after![LEASED, "101s delete orders"], "102s", TOKEN, OWNER),
    setup(
        "in a topic that was deleted and created again",
        after![
            LEASED,
            "101s keep orders/biller 0:0.1 as old",
            "101s delete orders",
            "101s topic orders 1",
            "101s produce orders hello",
            "101s join b orders/biller owner=w",
        ],
        "102s",
        "old",
        "",
    ),
    setup("in a deleted group", after![LEASED, "101s delete orders/biller"], "102s", TOKEN, OWNER),
    setup(
        "delivered before a seek",
        after![
            LEASED,
            "101s keep orders/biller 0:0.1 as old",
            "101s pause orders/biller",
            "101s seek orders/biller earliest",
            "101s resume orders/biller",
        ],
        "102s",
        "old",
        "",
    ),
    setup("delivered before a restore", after![LEASED], "102s", "before a restore", ""),
    setup("in another namespace", after![LEASED], "102s", "another namespace", ""),
];

/// The cells of the page by state and by the way in which the delivery is named.
fn cells() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut cells = BTreeMap::new();
    for line in PAGE.lines().skip_while(|line| !line.starts_with("| the message is")).skip(2) {
        let row: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [state, named_by, answers @ ..] = &row[..] {
            for form in named_by.split(", ") {
                let is_new = cells.insert((*state, form), answers.to_vec()).is_none();
                assert!(is_new, "{state} by {form} is on the page twice");
            }
        }
    }
    cells
}

fn play(setup: &Setup) -> World {
    let mut world = World::new(ShardConfig::default());
    for line in setup.because {
        world.play(line);
    }
    if setup.token.is_some_and(|name| !name.contains('/') && name != "old") {
        let token = world.token(TOKEN).clone();
        world.forge("the next", LeaseToken { offset: token.offset + 1, ..token.clone() });
        world.forge("a later attempt", LeaseToken { attempt: 2, ..token.clone() });
        world.forge("before a restore", LeaseToken { restore: token.restore + 1, ..token.clone() });
        world.forge("another namespace", LeaseToken { namespace: "other".into(), ..token });
    }
    world
}

/// The cell that a reply of the transcript belongs to.
fn cell(reply: &str) -> &str {
    let reply = reply.split(", attempt").next().unwrap_or(reply);
    match reply.strip_prefix("refused: ") {
        Some(rejection) if rejection.contains("requires the lease token") => "token required",
        Some(rejection) => rejection,
        None if reply == "ok" || reply.starts_with("extended until") => "done",
        None => reply,
    }
}

#[test]
fn every_cell_of_the_settle_table_holds() {
    let mut page = cells();
    let mut wrong = Vec::new();
    let mut count = 0;
    for setup in SETUPS {
        let state = setup.the_message_is;
        let forms = [
            (setup.token.map(|name| format!("\"token={name}\"")), "token"),
            (setup.owner.map(str::to_owned), "owner"),
        ];
        for (claim, form) in forms {
            let Some(claim) = claim else { continue };
            let expected = page.remove(&(state, form));
            let expected = expected.unwrap_or_else(|| panic!("the page lacks {state} by {form}"));
            for (verb, expected) in VERBS.into_iter().zip(expected) {
                count += 1;
                let mut world = play(setup);
                if !setup.at.starts_with('@') {
                    world.play(&format!("{} wait", setup.at));
                }
                let before = world.shard().image();
                let reply = world.ask(&format!("{} {verb} {claim}", setup.at));
                if cell(&reply) != expected {
                    wrong.push(format!("{state}, {verb} by {form}: `{reply}`, not `{expected}`"));
                }
                let is_open = state.starts_with("leased") || state.starts_with("expired");
                if !(is_open && expected == "done") && world.shard().image() != before {
                    wrong.push(format!("{state}, {verb} by {form}: `{reply}`, and a change"));
                }
                world.check();
            }
        }
    }
    assert!(page.is_empty(), "the core does not reach these rows of the page: {:?}", page.keys());
    assert!(wrong.is_empty(), "{} of {count} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_late_ack_of_the_current_attempt_settles_the_message() {
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
fn a_nack_after_the_deadline_makes_a_dead_letter() {
    let mut world = World::new(ShardConfig::default());
    world.play("100s topic orders 1 lease=10s");
    world.play("100s produce orders hello deadline=102s");
    world.play("100s join a orders/biller owner=w");
    assert_eq!(world.ask("105s nack orders/biller 0:0.1"), "ok");
    let death = world.letter("orders 0:0").death.as_ref().expect("the message is dead-lettered");
    assert_eq!(death.reason, driftq_core::DeathReason::Deadline);
}
