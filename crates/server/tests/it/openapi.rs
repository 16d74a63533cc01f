//! The OpenAPI document equals the committed one and has the limits of the core.

use driftq_api::limits as sent;
use driftq_api::number::{
    DelayMs, LeaseMs, Limit, MaxAttempts, PartitionCount, PartitionNumber, Prefetch,
};
use driftq_core::{Settings, limits};
use driftq_server::http::document;
use expect_test::expect_file;
use serde_json::{Value, json};

#[test]
fn the_committed_document_equals_the_generated_one() {
    let mut document = serde_json::to_string_pretty(&document()).expect("plain JSON");
    document.push('\n');
    expect_file!["../../../../docs/reference/openapi.json"].assert_eq(&document);
}

#[test]
fn every_reference_resolves_and_every_schema_is_used() {
    let document = document();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for name in schemas.keys() {
        let is_used = text.contains(&format!("\"#/components/schemas/{name}\""));
        // No route refers to it: every path may reject a method.
        assert!(is_used || name == "MethodNotAllowed", "nothing refers to {name}");
    }
    for used in text.split("\"#/").skip(1) {
        let (place, _) = used.split_once('"').expect("a string");
        assert!(document.pointer(&format!("/{place}")).is_some(), "{place} does not exist");
    }
}

#[test]
fn operation_ids_are_unique() {
    let document = document();
    let paths = document["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|path| path.as_object().expect("operations").values());
    let mut names: Vec<&str> =
        operations.map(|of| of["operationId"].as_str().expect("a name")).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

#[test]
fn its_settings_and_defaults_equal_those_of_the_core() {
    let mut of_core = serde_json::to_value(Settings::default()).expect("plain");
    // Two settings are stored under other names.
    let stored = of_core.as_object_mut().expect("settings");
    assert_eq!(stored.remove("keyless"), Some(json!("partition_0")));
    assert_eq!(stored.remove("groups"), Some(json!("open")));
    stored.insert("unkeyed".to_owned(), json!("first"));
    stored.insert("auto_create_groups".to_owned(), json!(true));
    let document = document();
    let schemas = &document["components"]["schemas"];
    let properties = schemas["Settings"]["properties"].as_object().expect("settings");
    let names: Vec<&String> = properties.keys().collect();
    let mut expected: Vec<&String> = of_core.as_object().expect("settings").keys().collect();
    expected.sort();
    assert_eq!(names, expected);
    let sent = schemas["SettingsPatch"]["properties"].as_object().expect("settings");
    assert_eq!(sent.keys().collect::<Vec<_>>(), names);
    for (name, property) in properties {
        assert_eq!(property["default"], of_core[name], "{name}");
    }
}

#[test]
fn its_limits_equal_those_of_the_core() {
    let document = document();
    let schema = |name: &str| -> &Value { &document["components"]["schemas"][name] };
    let bounds = [
        ("NewTopicName", "/maxLength", limits::TOPIC_BYTES_MAX),
        ("TopicName", "/maxLength", "dlq.".len() + limits::TOPIC_BYTES_MAX),
        ("GroupName", "/maxLength", limits::GROUP_BYTES_MAX),
        ("Owner", "/maxLength", limits::OWNER_BYTES_MAX),
        ("Tenant", "/maxLength", limits::TENANT_BYTES_MAX),
        ("IdempotencyKey", "/maxLength", limits::IDEMPOTENCY_KEY_BYTES_MAX),
        ("MessageKey", "/maxLength", limits::KEY_BYTES_MAX),
        ("EnvelopeText", "/maxLength", limits::ENVELOPE_TEXT_BYTES_MAX),
        ("Labels", "/maxProperties", limits::LABELS_MAX),
        ("Headers", "/maxProperties", limits::HEADERS_MAX),
        ("Produce", "/properties/value/maxLength", limits::VALUE_BYTES_DEFAULT),
        ("Base64", "/maxLength", limits::VALUE_BYTES_DEFAULT.div_ceil(3) * 4),
        ("Redrive", "/properties/ids/maxItems", limits::REDRIVE_MAX),
        ("SettleMany", "/properties/items/maxItems", sent::ITEMS_MAX),
        ("ProduceBatch", "/properties/messages/maxItems", sent::ITEMS_MAX),
        ("Redrive", "/properties/ids/maxItems", sent::ITEMS_MAX),
        ("Commit", "/properties/effects/maxItems", sent::COMMIT_EFFECTS_MAX),
        ("Commit", "/properties/produce/maxItems", sent::COMMIT_MESSAGES_MAX),
        ("Commit", "/properties/pointers/maxItems", sent::COMMIT_POINTERS_MAX),
        ("Commit", "/properties/effects/maxItems", usize::from(limits::EFFECTS_MAX)),
        ("Commit", "/properties/produce/maxItems", limits::PRODUCES_MAX),
        ("Commit", "/properties/pointers/maxItems", limits::POINTERS_MAX),
    ];
    for (name, place, bound) in bounds {
        assert_eq!(schema(name).pointer(place), Some(&json!(bound)), "{name}{place}");
    }
    assert_eq!(LeaseMs::RANGE, limits::LEASE_MS_MIN..=limits::LEASE_MS_MAX);
    assert_eq!(DelayMs::RANGE, 0..=limits::DELAY_MS_MAX);
    assert_eq!(Prefetch::RANGE, 1..=limits::CREDIT_MAX);
    assert_eq!(MaxAttempts::RANGE, 1..=limits::ATTEMPTS_MAX);
    assert_eq!(PartitionCount::RANGE, 0..=limits::PARTITIONS_MAX);
    assert_eq!(PartitionNumber::RANGE, 0..=limits::PARTITIONS_MAX - 1);
    assert_eq!(*Limit::RANGE.end() as usize, limits::REDRIVE_MAX);
}
