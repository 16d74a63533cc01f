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
fn a_seed_gives_the_same_bytes_each_time_and_another_seed_others() {
    let [first, other] = [1, 78].map(|seed| {
        let (first, second) = (history(seed), history(seed));
        assert!(first.len() > 1_000_000, "seed {seed} has events");
        assert!(first == second, "seed {seed} gives two histories");
        first
    });
    assert!(first != other);
}
