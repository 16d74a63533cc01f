//! `tell SEED WORDS…`: prints the events of a run that mention every word. For hunting.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

fn main() {
    let mut words = std::env::args().skip(1);
    let seed: u64 = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
    let words: Vec<String> = words.collect();
    let outcome = driftq_sim::run(seed, false);
    for event in &outcome.history {
        let text = format!("{event:?}");
        if words.iter().all(|word| text.contains(word.as_str())) {
            println!("{text}");
        }
    }
}
