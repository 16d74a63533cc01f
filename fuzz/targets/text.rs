//! Short texts of the API: times, base64, message ids.
#![no_main]

use data_encoding::BASE64;
use driftq_api::{Time, from_base64};
use driftq_core::MessageId;
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

/// The last time that can be written, and the length of every time.
const LAST_MS: u64 = 253_402_207_200_999;
const TIME_CHARS: usize = "2026-11-14T12:00:00.250Z".len();

fuzz_target!(|text: &str| bounded(|| {
    let time = text.parse::<Time>();
    let quoted = serde_json::Value::from(text);
    assert_eq!(serde_json::from_value(quoted).ok(), time.clone().ok(), "bare and in JSON");
    if let Ok(time) = time {
        assert!(time.0 <= LAST_MS, "{}", time.0);
        let written = time.to_string();
        assert_eq!(written.len(), TIME_CHARS, "{written}");
        assert_eq!(written.parse(), Ok(time), "{written}");
    }
    if let Ok(id) = text.parse::<MessageId>() {
        let written = id.to_string();
        assert!(written.len() <= text.len().min(64), "{written}");
        assert_eq!(written.parse(), Ok(id), "{written}");
    }
    if let Some(bytes) = from_base64(text) {
        assert_eq!(BASE64.encode(&bytes), text, "two texts for one value");
    }
}));
