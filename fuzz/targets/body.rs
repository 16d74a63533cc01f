//! Request bodies of every kind: each valid request has exactly one form.
#![no_main]

use std::fmt::Debug;

use driftq_api::Object;
use driftq_api::commit::Commit;
use driftq_api::dlq::{Purge, Redrive};
use driftq_api::effect::{Begin, Extend, Finish, Reacquire, Resolve};
use driftq_api::group::{CreateGroup, Pause, Resume, Seek};
use driftq_api::message::{Consume, Produce, ProduceBatch, Receive};
use driftq_api::settle::{Settle, SettleMany};
use driftq_api::topic::{CreateTopic, PatchTopic};
use driftq_core::SettingsPatch;
use driftq_fuzz::{bounded, choice};
use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Parses a body and returns its debug text for comparison.
type Read = fn(&[u8]) -> Option<String>;

fn read<T: DeserializeOwned + Debug>(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<Object<T>>(body).ok().map(|Object(asked)| format!("{asked:?}"))
}

const REQUESTS: [Read; 21] = [
    read::<Produce>,
    read::<ProduceBatch>,
    read::<Consume>,
    read::<Receive>,
    read::<Settle>,
    read::<SettleMany>,
    read::<CreateTopic>,
    read::<PatchTopic>,
    read::<CreateGroup>,
    read::<Pause>,
    read::<Resume>,
    read::<Seek>,
    read::<Redrive>,
    read::<Purge>,
    read::<SettingsPatch>,
    read::<Begin>,
    read::<Reacquire>,
    read::<Finish>,
    read::<Extend>,
    read::<Resolve>,
    read::<Commit>,
];

fuzz_target!(|input: &[u8]| bounded(|| {
    let Some((chosen, body)) = choice(input, REQUESTS.len()) else { return };
    let read = REQUESTS[chosen];
    if let Ok(patch) = serde_json::from_slice::<SettingsPatch>(body) {
        let written = serde_json::to_vec(&patch).expect("settings can be serialized");
        assert_eq!(serde_json::from_slice(&written).ok(), Some(patch), "settings changed");
    }
    let Some(heard) = read(body) else { return };
    // Settings are stored as raw JSON until they are parsed, which is checked above.
    let is_raw = heard.contains("RawValue(");
    let fields = match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => fields,
        // They may contain a number that no type can represent.
        Err(_) if is_raw => return,
        Ok(_) | Err(_) => panic!("a request must be an object"),
    };
    if !is_raw {
        let again = Value::from(fields.clone()).to_string();
        assert_eq!(read(again.as_bytes()), Some(heard), "the content changed");
    }
    let list = Value::from_iter(fields.values().cloned());
    assert_eq!(read(list.to_string().as_bytes()), None, "a list is accepted as an object");
    assert_eq!(read(&with(&fields, "no_such_field")), None, "an unknown field is accepted");
    if let Some(name) = fields.keys().next() {
        assert_eq!(read(&with(&fields, name)), None, "duplicate {name} is accepted");
    }
}));

/// Returns the object with one more field, which may be a duplicate.
fn with(fields: &Map<String, Value>, name: &str) -> Vec<u8> {
    let value = fields.get(name).cloned().unwrap_or_default();
    let written = |(name, value): (&String, &Value)| format!("{}:{value}", Value::from(&**name));
    let mut written: Vec<_> = fields.iter().map(written).collect();
    written.push(format!("{}:{value}", Value::from(name)));
    format!("{{{}}}", written.join(",")).into_bytes()
}
