//! The simulator itself: one seed gives one run, byte for byte.

mod cluster;

use driftq_sim::run;

fn history(seed: u64) -> String {
    let outcome = run(seed, true);
    let lines: Vec<String> = outcome
        .history
        .iter()
        .map(|event| serde_json::to_string(event).expect("an event can be written"))
        .collect();
    lines.join("\n")
}

#[test]
fn the_same_seed_twice_gives_the_same_bytes() {
    for seed in [1, 78] {
        let (first, second) = (history(seed), history(seed));
        assert!(first.len() > 1_000_000, "seed {seed} has events");
        assert!(first == second, "seed {seed} gives two histories");
    }
}

#[test]
fn another_seed_gives_another_history() {
    assert!(history(1) != history(2));
}
