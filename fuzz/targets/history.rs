//! Histories: what is read is the same when it is written again, and judging it always comes to an end.
#![no_main]

use driftq_checker::{check, read_lines};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| bounded(|| {
    let Ok(events) = read_lines(file) else { return };
    let lines = events.iter().map(|event| serde_json::to_string(event).expect("events are plain"));
    let written = lines.collect::<Vec<_>>().join("\n");
    let again = read_lines(written.as_bytes()).expect("what was written can be read");
    assert_eq!(again, events);
    assert_eq!(format!("{:?}", check(&events)), format!("{:?}", check(&again)), "two judgements");
}));
