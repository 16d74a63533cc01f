//! Every cell of `docs/reference/effect-table.md`. A request that is rejected or replayed changes nothing.

use std::collections::BTreeMap;

use driftq_core::ShardConfig;

use crate::transcript::World;

const PAGE: &str = include_str!("../../../../../docs/reference/effect-table.md");
const VERBS: [&str; 6] = ["begin", "begin-under", "again", "finish", "extend-effect", "resolve"];

/// How the effect reaches a state of the page.
struct Setup {
    the_effect_is: &'static str,
    /// Leases of a begin at 1 s end at 31 s. `E` stands for the effect, `BEGIN` for the begin of an execution.
    because: &'static [&'static str],
    /// The attempt that holds the message after that.
    attempt: u32,
    at: &'static str,
}

const fn setup(
    the_effect_is: &'static str,
    because: &'static [&'static str],
    at: &'static str,
) -> Setup {
    Setup { the_effect_is, because, attempt: 1, at }
}

const SETUPS: &[Setup] = &[
    setup("in progress", &["1s BEGIN"], "5s"),
    setup("succeeded", &["1s BEGIN", "2s finish E.1 succeeded"], "5s"),
    setup("failed for good", &["1s BEGIN", "2s finish E.1 failed"], "5s"),
    setup("failed, may be executed again", &["1s BEGIN", "2s finish E.1 retryable"], "5s"),
    setup("finished as unknown", &["1s BEGIN", "2s finish E.1 unknown"], "5s"),
    Setup {
        the_effect_is: "in doubt because its lease expired",
        because: &["1s BEGIN", "32s wait"],
        attempt: 2,
        at: "33s",
    },
    setup(
        "finished as unknown, past the provider window",
        &["1s BEGIN window=2s", "2s finish E.1 unknown", "4s wait"],
        "5s",
    ),
    setup(
        "executed again, and held by a later fence",
        &["1s BEGIN", "2s finish E.1 unknown", "3s BEGIN"],
        "5s",
    ),
    setup(
        "executed again, and succeeded under a later fence",
        &["1s BEGIN", "2s finish E.1 unknown", "3s BEGIN", "4s finish E.2 succeeded"],
        "5s",
    ),
    setup("not in the ledger", &[], "5s"),
];

/// The cells of the page by state and policy.
fn cells() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut cells = BTreeMap::new();
    for line in PAGE.lines().skip_while(|line| !line.starts_with("| the effect is")).skip(2) {
        let row: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [state, policy, replies @ ..] = &row[..] else { panic!("no row: {line}") };
        assert_eq!(replies.len(), VERBS.len(), "{line}");
        let is_new = cells.insert((*state, *policy), replies.to_vec()).is_none();
        assert!(is_new, "{state}, {policy} is on the page twice");
    }
    cells
}

/// The cell that a reply of the transcript belongs to.
fn cell(reply: &str) -> &str {
    let first = reply.lines().next().unwrap_or(reply);
    match first.split_once(": ") {
        Some(("EXECUTE", rest)) if rest.contains("in doubt") => "execute, in doubt",
        Some(("EXECUTE", _)) => "execute",
        Some(("probe", _)) => "probe",
        Some(("REPLAY", _)) => "replay",
        Some(("RETRYABLE", _)) => "retryable",
        Some(("IN_PROGRESS", _)) => "in progress",
        Some(("park", _)) => "parked",
        Some(("refused", why)) if why.contains("only an effect in doubt") => "not in doubt",
        Some(("refused", "no such effect")) => "no such effect",
        Some(("refused", why)) if why.contains("is not current") => "stale",
        Some(("refused", why)) if why.contains("with a different outcome") => "conflict",
        Some(("refused", _)) => first,
        _ => "done",
    }
}

/// Begins the effect alone, or under the first delivery of a message whose retries are not delayed.
fn reach(setup: &Setup, policy: &str, is_under: bool) -> World {
    let mut world = World::new(ShardConfig::default());
    world.play("0s topic orders 1 retry=9,0s,0s");
    world.play("0s produce orders hello");
    world.play("1s join a orders/biller lease=30s credit=1");
    let (effect, begin) = if is_under {
        ("effect/orders/biller k", "begin-under orders/biller 0:0.1 key=k")
    } else {
        ("op/charge k", "begin op/charge k")
    };
    let begin = format!("{begin} on={policy}");
    for step in setup.because {
        world.play(&step.replace("E.", &format!("{effect}.")).replace("BEGIN", &begin));
    }
    world.play(&format!("{} wait", setup.at));
    world
}

#[test]
fn every_cell_of_the_effect_table_holds() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let page = cells();
    for setup in SETUPS {
        let is_on_page = page.keys().any(|(state, _)| *state == setup.the_effect_is);
        assert!(is_on_page, "the page lacks {}", setup.the_effect_is);
    }
    for ((state, policy), expected) in page {
        let setup = SETUPS.iter().find(|setup| setup.the_effect_is == state);
        let setup = setup.unwrap_or_else(|| panic!("the core does not reach {state}"));
        for (verb, expected) in VERBS.into_iter().zip(expected).filter(|cell| !cell.1.is_empty()) {
            count += 1;
            let mut world = reach(setup, policy, verb == "begin-under");
            let Setup { attempt, at, .. } = setup;
            let before = world.shard().image();
            let reply = world.ask(&match verb {
                "begin" => format!("{at} begin op/charge k on={policy}"),
                "begin-under" => {
                    format!("{at} begin-under orders/biller 0:0.{attempt} key=k on={policy}")
                }
                "again" => format!("{at} again op/charge k"),
                "resolve" => format!("{at} resolve op/charge k.1 as=succeeded"),
                "finish" => format!("{at} finish op/charge k.1 succeeded"),
                _ => format!("{at} {verb} op/charge k.1"),
            });
            if cell(&reply) != expected {
                wrong.push(format!("{state}, {policy}, {verb}: `{reply}`, not `{expected}`"));
            }
            let changes = ["execute", "execute, in doubt", "probe", "done"].contains(&expected);
            if !changes && world.shard().image() != before {
                wrong.push(format!("{state}, {policy}, {verb}: `{reply}`, and a change"));
            }
            world.check();
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
