//! Histories: a readable history is unchanged when it is written again, and the checker always
//! terminates.
#![no_main]

use driftq_checker::{check, read_lines};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| bounded(|| {
    let Ok(events) = read_lines(file) else { return };
    let lines = events.iter().map(|event| serde_json::to_string(event).expect("events are valid"));
    let written = lines.collect::<Vec<_>>().join("\n");
    let again = read_lines(written.as_bytes()).expect("written events can be read");
    assert_eq!(again, events);
    assert_eq!(format!("{:?}", check(&events)), format!("{:?}", check(&again)), "two reports");
}));
