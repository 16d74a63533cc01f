//! Messages between nodes are decoded as far as the release of the receiver knows them.

pub(crate) mod round_trip;
mod sample;

use std::collections::BTreeMap;

use bytes::Bytes;
use driftq_core::node_codec::{DecodeError, NODE_CODEC_VERSION, open_answer, open_call, pack_call};
use driftq_core::{CallError, Command, Envelope, Extension, Format, Rejection, Reply};
use expect_test::{Expect, expect, expect_file};
use serde::Serialize;

use crate::held::produce_with;
use sample::{every, some};

/// Nodes of other releases decode fields by name, so changing a name breaks them. Adding one must
/// follow the rules of decision record 0016.
#[test]
fn every_message_between_nodes_round_trips_and_keeps_its_names() {
    let mut names = every(|command: Command| drop(round_trip::call(&command)));
    names.extend(every(|reply: Reply| drop(round_trip::answer(&Ok(reply)))));
    names.extend(every(|rejection: Rejection| drop(round_trip::answer(&Err(rejection)))));
    names.extend(some(|delivery| round_trip::deliveries(&[delivery])));
    let line = |(name, parts): &(String, &[&str])| format!("{name}: {}\n", parts.join(" "));
    expect_file!["names.txt"].assert_eq(&names.iter().map(line).collect::<String>());
}

#[test]
fn values_are_encoded_as_bytes() {
    let Command::Produce(mut produce) = produce_with("m", Envelope::default()) else {
        panic!("it is one")
    };
    produce.value = Bytes::from(vec![0xff; 60_000]);
    let packed = pack_call(&Command::Produce(produce));
    assert!(packed.len() < 60_500, "{} bytes", packed.len());
}

/// Commands as another release defines them. Omitted fields are the same as here.
#[derive(Serialize)]
enum Theirs {
    Resume(Group),
    Pause { name: Group, by: &'static str, reason: &'static str },
    Extend(Extend),
    Dance(u32),
}

#[derive(Serialize)]
struct Group {
    topic: Topic,
    colour: Option<Vec<u32>>,
    group: &'static str,
}

#[derive(Serialize)]
struct Topic {
    namespace: &'static str,
    topic: &'static str,
}

#[derive(Serialize)]
struct Extend {
    lease_ms: u64,
}

fn group() -> Group {
    let topic = Topic { namespace: "default", topic: "orders" };
    Group { topic, colour: Some(vec![1, 2]), group: "biller" }
}

#[track_caller]
fn check(version: u32, theirs: &Theirs, read: Expect) {
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(rmp_serde::to_vec_named(theirs).expect("the command can be encoded"));
    read.assert_eq(&match open_call(&bytes) {
        Ok(command) => format!("{command:?}"),
        Err(refused) => {
            // Without the list of all known commands.
            refused.to_string().split(", expected").next().expect("a text").to_owned()
        }
    });
}

#[test]
fn an_unknown_field_of_a_later_release_is_ignored() {
    check(
        NODE_CODEC_VERSION,
        &Theirs::Resume(group()),
        expect![[
            r#"Resume(GroupName { topic: TopicName { namespace: "default", topic: "orders" }, group: "biller" })"#
        ]],
    );
}

#[test]
fn a_field_missing_from_an_earlier_release_gets_its_default() {
    let (by, reason) = ("ops", "late");
    check(
        NODE_CODEC_VERSION,
        &Theirs::Pause { name: group(), by, reason },
        expect![[
            r#"Pause(Pause { name: GroupName { topic: TopicName { namespace: "default", topic: "orders" }, group: "biller" }, by: "ops", reason: "late", until: None })"#
        ]],
    );
}

#[test]
fn an_unknown_command_or_version_is_rejected() {
    check(
        NODE_CODEC_VERSION,
        &Theirs::Extend(Extend { lease_ms: 1 }),
        expect!["invalid content: missing field `claim`"],
    );
    check(
        NODE_CODEC_VERSION,
        &Theirs::Dance(3),
        expect!["invalid content: unknown variant `Dance`"],
    );
    check(
        NODE_CODEC_VERSION + 1,
        &Theirs::Resume(group()),
        expect!["unsupported version 3 (supported: up to 2)"],
    );
}

#[test]
fn truncated_or_too_deeply_nested_messages_are_rejected() {
    let packed = pack_call(&produce_with("m", Envelope::default()));
    for end in 0..packed.len() {
        assert!(open_call(&packed[..end]).is_err(), "{end} bytes of {}", packed.len());
    }
    // Rejections within rejections: {"Err": {"InPart": [part, index, {"InPart": …
    let mut deep = NODE_CODEC_VERSION.to_le_bytes().to_vec();
    deep.extend(b"\x81\xa3Err");
    deep.extend(b"\x81\xa6InPart\x93\xa7Produce\x00".repeat(100_000));
    let refused = open_answer(&deep).expect_err("the nesting limit rejects it");
    assert_eq!(refused, DecodeError::Content("depth limit exceeded".into()));
}

#[test]
fn a_command_with_labels_requires_format_2() {
    let labels = [("model".into(), "large".into())].into();
    let extension = Extension::of(labels, BTreeMap::new());
    let labelled = produce_with("m", Envelope { extension, ..Envelope::default() });
    let plain = produce_with("m", Envelope::default());
    for (command, format) in [(plain, Format::V1), (labelled, Format::V2)] {
        assert_eq!(command.format(), format);
        assert_eq!(pack_call(&command)[..4], (format as u32).to_le_bytes());
        assert_eq!(command.check_format(Some(format)), Ok(Ok(())));
        let is_for_all = command.check_format(Some(Format::V1)) == Ok(Ok(()));
        assert_eq!(is_for_all, format == Format::V1);
        // Until the format is known, it waits.
        let waits = command.check_format(None) == Err(CallError::NotServing);
        assert_eq!(waits, format != Format::V1);
    }
}
