//! `repro DRIFTQ [--expect-failures] [NAME…]`: regression scenarios for guarantees that were once
//! broken, run against the real binary.
//!
//! With `--expect-failures` the binary is one from before the fixes, and every scenario must find
//! its guarantee broken.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod database_outage_leaves_few_log_lines;
mod expired_group_leaves_other_topics_served;
mod forward_jump_of_the_clock_is_held_back;
mod forward_jump_of_the_database_is_held_back;
mod freed_open_limit_wakes_every_partition;
mod groups_are_limited;
mod idle_group_keeps_trimmed_offsets;
mod key_used_again_is_a_new_effect;
mod log_line_cannot_be_forged;
mod oversized_list_costs_no_memory;
mod raw;
mod read_ahead_stays_within_memory;
mod rejected_route_leaves_no_pin;
mod restored_id_names_no_other_dead_letter;
mod scene;
mod silent_sockets_do_not_lock_clients_out;
mod stalled_stream_costs_no_attempt;
mod stalled_stream_costs_no_memory;
mod tables_escape_control_characters;
mod unfinished_bodies_stay_within_memory;
mod web_page_cannot_consume;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use scene::Seen;

const USAGE: &str = "usage: repro DRIFTQ [--expect-failures] [NAME...]";
/// Time limit of a scenario.
const SCENARIO_WITHIN: Duration = Duration::from_secs(120);

/// Runs the scenario of each module. The module name states the guarantee.
macro_rules! scenarios {
    ($driftq:expr, $chosen:expr, $visit:expr, [$($name:ident),* $(,)?]) => {
        $(if $chosen(stringify!($name)) {
            let began = Instant::now();
            let seen = tokio::time::timeout(SCENARIO_WITHIN, $name::run($driftq)).await;
            let seen = seen.unwrap_or_else(|_| Err(anyhow::anyhow!("timed out")));
            $visit(stringify!($name), seen, began.elapsed());
        })*
    };
}

/// The results of all scenarios.
#[derive(Default)]
struct Tally {
    kept: usize,
    broken: usize,
    /// Scenarios that failed before they could check their guarantee.
    failed_to_run: usize,
}

impl Tally {
    fn add(&mut self, name: &str, seen: anyhow::Result<Seen>, took: Duration) {
        let took = took.as_secs_f64();
        match seen {
            Ok(Seen::Kept) => {
                println!("ok {name} ({took:.1} s)");
                self.kept += 1;
            }
            Ok(Seen::Broken(what)) => {
                println!("FAILED {name}: {what} ({took:.1} s)");
                self.broken += 1;
            }
            Err(error) => {
                println!("NOT RUN {name}: {error:#} ({took:.1} s)");
                self.failed_to_run += 1;
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = arguments.len();
    arguments.retain(|argument| argument != "--expect-failures");
    let expects_failures = arguments.len() < all;
    anyhow::ensure!(!arguments.is_empty(), USAGE);
    let driftq = arguments.remove(0);
    let driftq = std::fs::canonicalize(&driftq).with_context(|| driftq)?;
    let driftq = driftq.to_str().context("the path of the binary is not UTF-8")?;
    let began = Instant::now();
    let mut tally = Tally::default();
    let chosen = |name: &str| arguments.is_empty() || arguments.iter().any(|one| one == name);
    let visit = |name: &str, seen, took| tally.add(name, seen, took);
    run_all(driftq, chosen, visit).await;
    let Tally { kept, broken, failed_to_run } = tally;
    let took = began.elapsed().as_secs_f64();
    println!("repro: {kept} kept, {broken} broken, {failed_to_run} not run, {took:.0} s");
    anyhow::ensure!(kept + broken > 0 && failed_to_run == 0, "not every scenario ran");
    if expects_failures {
        anyhow::ensure!(kept == 0, "a scenario passed on a binary from before its fix")
    } else {
        anyhow::ensure!(broken == 0, "a guarantee is broken")
    }
    Ok(())
}

async fn run_all(
    driftq: &str,
    chosen: impl Fn(&str) -> bool,
    mut visit: impl FnMut(&str, anyhow::Result<Seen>, Duration),
) {
    scenarios!(
        driftq,
        chosen,
        visit,
        [
            idle_group_keeps_trimmed_offsets,
            expired_group_leaves_other_topics_served,
            key_used_again_is_a_new_effect,
            stalled_stream_costs_no_attempt,
            stalled_stream_costs_no_memory,
            restored_id_names_no_other_dead_letter,
            freed_open_limit_wakes_every_partition,
            rejected_route_leaves_no_pin,
            read_ahead_stays_within_memory,
            unfinished_bodies_stay_within_memory,
            groups_are_limited,
            web_page_cannot_consume,
            silent_sockets_do_not_lock_clients_out,
            oversized_list_costs_no_memory,
            log_line_cannot_be_forged,
            tables_escape_control_characters,
            forward_jump_of_the_clock_is_held_back,
            forward_jump_of_the_database_is_held_back,
            database_outage_leaves_few_log_lines,
        ]
    );
}
