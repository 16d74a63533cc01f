//! Histories as files.

use driftq_checker::{ReadError, read_lines};

use crate::good::everything;
use crate::tale::Tale;

#[test]
fn a_history_round_trips_through_a_file() {
    let mut tale = Tale::new();
    everything(&mut tale);
    let mut file = String::new();
    for event in &tale.events {
        file += &serde_json::to_string(event).unwrap();
        file += "\n\n";
    }
    assert_eq!(read_lines(file.as_bytes()).unwrap(), tale.events);
}

#[test]
fn an_invalid_line_is_reported_with_its_number() {
    let mut tale = Tale::new();
    tale.is_over();
    let good = serde_json::to_string(&tale.events[0]).unwrap();
    let file = format!("{good}\n{{\"seq\": 2}}\n");
    let error = read_lines(file.as_bytes()).unwrap_err();
    assert!(matches!(error, ReadError::NotAnEvent { line: 2, .. }), "{error}");
    assert_eq!(error.to_string(), "line 2 is not an event");
}
