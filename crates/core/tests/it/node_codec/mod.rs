//! What is said to another node is understood there, as far as its release can.

pub(crate) mod round_trip;
mod sample;

use bytes::Bytes;
use driftq_core::node_codec::{DecodeError, NODE_CODEC_VERSION, open_answer, open_call, pack_call};
use driftq_core::{Command, Envelope, Rejection, Reply};
use expect_test::{Expect, expect, expect_file};
use serde::Serialize;

use crate::held::produce_with;
use sample::{every, some};

/// Names are what peers of other releases read by: whoever changes one breaks their word, and whoever adds
/// one looks at the rules of decision record 0016.
#[test]
fn every_command_answer_and_delivery_travels_and_names_stay() {
    let mut names = every(|command: Command| drop(round_trip::call(&command)));
    names.extend(every(|reply: Reply| drop(round_trip::answer(&Ok(reply)))));
    names.extend(every(|rejection: Rejection| drop(round_trip::answer(&Err(rejection)))));
    names.extend(some(|delivery| round_trip::deliveries(&[delivery])));
    let line = |(name, parts): &(String, &[&str])| format!("{name}: {}\n", parts.join(" "));
    expect_file!["names.txt"].assert_eq(&names.iter().map(line).collect::<String>());
}

#[test]
fn bytes_stay_bytes() {
    let Command::Produce(mut produce) = produce_with("m", Envelope::default()) else {
        panic!("it is one")
    };
    produce.value = Bytes::from(vec![0xff; 60_000]);
    let packed = pack_call(&Command::Produce(produce));
    assert!(packed.len() < 60_500, "{} bytes", packed.len());
}

/// Commands of another release. What is not in them is as it is here.
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
    bytes.extend(rmp_serde::to_vec_named(theirs).expect("it can be written"));
    read.assert_eq(&match open_call(&bytes) {
        Ok(command) => format!("{command:?}"),
        Err(refused) => {
            // Without the list of all commands there are.
            refused.to_string().split(", expected").next().expect("a text").to_owned()
        }
    });
}

#[test]
fn a_field_of_a_later_release_is_passed_over() {
    check(
        NODE_CODEC_VERSION,
        &Theirs::Resume(group()),
        expect![[
            r#"Resume(GroupName { topic: TopicName { namespace: "default", topic: "orders" }, group: "biller" })"#
        ]],
    );
}

#[test]
fn a_field_that_an_earlier_release_does_not_have_is_absent() {
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
fn what_cannot_be_understood_is_refused() {
    check(
        NODE_CODEC_VERSION,
        &Theirs::Extend(Extend { lease_ms: 1 }),
        expect!["not what was expected: missing field `claim`"],
    );
    check(
        NODE_CODEC_VERSION,
        &Theirs::Dance(3),
        expect!["not what was expected: unknown variant `Dance`"],
    );
    check(
        NODE_CODEC_VERSION + 1,
        &Theirs::Resume(group()),
        expect!["version 2 is not known here: up to 1 is"],
    );
}

#[test]
fn what_is_cut_short_or_deeper_than_anything_is_refused() {
    let packed = pack_call(&produce_with("m", Envelope::default()));
    for end in 0..packed.len() {
        assert!(open_call(&packed[..end]).is_err(), "{end} bytes of {}", packed.len());
    }
    // Rejections within rejections: {"Err": {"InPart": [part, index, {"InPart": …
    let mut deep = NODE_CODEC_VERSION.to_le_bytes().to_vec();
    deep.extend(b"\x81\xa3Err");
    deep.extend(b"\x81\xa6InPart\x93\xa7Produce\x00".repeat(100_000));
    let refused = open_answer(&deep).expect_err("no stack is so large");
    assert_eq!(refused, DecodeError::Content("depth limit exceeded".into()));
}
