//! Golden bytes: the encoding of fixed values. A change here is a change of the format on disk. It
//! needs a new version, and these bytes must stay readable.

mod json_rows;

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use expect_test::{Expect, expect};
use serde::de::DeserializeOwned;

use super::audit::{AuditBody, audit_rows};
use super::block::block_row;
use super::page::pages;
use super::*;
use crate::act::{Act, ActRecord};
use crate::audit::{
    Accepted, AuditDelivery, AuditRecord, ChainHash, ChainRecord, Link, Tip, chain_of_acts,
};
use crate::change::{Entry, EntryState, Garbage, LaneMark, LaneState, LastError};
use crate::command::{Outgoing, Sender};
use crate::effect::EffectState;
use crate::id::{BatchNo, Generation, GroupId, Lane, MessageId, OwnerId, ShardId, TopicId};
use crate::message::{Death, DeathReason, Envelope, Extension, Message, Routing, Trace};
use crate::retry::{RetryPolicy, RetryRequest};
use crate::row::MarkKind;
use crate::shard::{Open, OpenEntries};
use crate::time::Timestamp;

/// Returns bytes as hex, 32 per line.
fn hex(body: &[u8]) -> String {
    body.chunks(32).map(|chunk| HEXLOWER.encode(chunk) + "\n").collect()
}

/// Checks the row's bytes, and that a change of any byte is detected.
fn check_bytes<T: DeserializeOwned>(row: &Row, golden: &Expect) {
    golden.assert_eq(&hex(&row.body));
    assert_eq!(verify(row), Ok(()));
    for at in 0..row.body.len() {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut body = row.body.to_vec();
            body[at] ^= flip;
            let damaged = Row { body: body.into(), ..row.clone() };
            assert!(verify(&damaged).is_err(), "byte {at} ^ {flip:#x} is not detected");
            assert!(open::<T>(&damaged).is_err(), "byte {at} ^ {flip:#x} is read");
        }
        let cut = Row { body: row.body.slice(..at), ..row.clone() };
        assert!(verify(&cut).is_err(), "the first {at} bytes are accepted");
    }
}

/// Checks the bytes of a packed value, and that it unpacks to the same value.
fn check_value<T: DeserializeOwned + Serialize + PartialEq + Debug>(
    key: Key,
    value: &T,
    golden: &Expect,
) {
    let row = plain(key, seal(value));
    check_bytes::<T>(&row, golden);
    assert_eq!(open::<T>(&row).as_ref(), Ok(value));
}

fn id(offset: u64) -> MessageId {
    MessageId { restore: 1, shard: ShardId(2), topic: TopicId(300), lane: Lane(4), offset }
}

/// A message with every field set.
fn full() -> Message {
    Message {
        restore: 3,
        produced_at: Timestamp(1_800_000_000_000),
        key: Bytes::from_static(b"cust-9"),
        value: Bytes::from_static(b"{\"order\":77}"),
        envelope: Envelope {
            run_id: Some("run_1".into()),
            step_id: Some("charge".into()),
            parent_step_id: Some("cart".into()),
            tenant_id: Some("acme".into()),
            idempotency_key: Some("order-77".into()),
            target_topic: Some("orders.eu".into()),
            partition_override: Some(4),
            deadline: Some(Timestamp(1_800_000_060_000)),
            retry_policy: Some(RetryRequest {
                max_attempts: -1,
                backoff_ms: Some(250),
                max_backoff_ms: Some(5_000),
            }),
            extension: None,
        },
        routing: Some(Box::new(Routing {
            label: "eu".into(),
            target_topic: Some("orders.eu".into()),
            partition_override: None,
            meta: BTreeMap::from([("source".into(), "rules".into())]),
        })),
        trace: Some(Box::new(Trace { parent: "00-ab".into(), state: Some("x=1".into()) })),
        origin: Some(id(12)),
        redriven: 2,
        for_group: Some("biller".into()),
        death: Some(Box::new(Death {
            seq: 9,
            topic: "orders".into(),
            id: id(13),
            group: "biller".into(),
            reason: DeathReason::Exhausted,
            attempts: 20,
            last_error: "card declined".into(),
            last_owner: "worker-a".into(),
            first_delivered_at: Some(Timestamp(1_800_000_001_000)),
            at: Timestamp(1_800_000_002_000),
            had_effects: true,
        })),
    }
}

/// A message with nothing but a value.
fn bare() -> Message {
    Message {
        restore: 0,
        produced_at: Timestamp(1_800_000_000_001),
        key: Bytes::new(),
        value: Bytes::from_static(b"x"),
        envelope: Envelope::default(),
        routing: None,
        trace: None,
        origin: None,
        redriven: 0,
        for_group: None,
        death: None,
    }
}

/// A message with labels, headers and a field of a later release.
fn extended() -> Message {
    let map = |name: &str, value: &str| BTreeMap::from([(name.into(), value.into())]);
    let extension = Extension {
        labels: map("model", "large"),
        headers: map("content-type", "text/plain"),
        unknown: BTreeMap::from([(900, Bytes::from_static(b"later"))]),
    };
    let envelope = Envelope { extension: Some(Box::new(extension)), ..Envelope::default() };
    Message { envelope, ..bare() }
}

#[test]
fn a_page_with_an_extension_has_version_2() {
    let messages = [bare(), extended()];
    let messages: Vec<&Message> = messages.iter().collect();
    let rows = pages(TopicId(300), Lane(4), 128, 1_000, Timestamp(2), &messages, false);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    check_bytes::<()>(
        row,
        &expect![[r#"
        02e807020081a0f1c2b1340001780000000000000000000000000000000081a0
        f1c2b134000178000000000000000000000000000000010103010d01056d6f64
        656c056c617267650219010c636f6e74656e742d747970650a746578742f706c
        61696e8407056c617465720fa0e452
    "#]],
    );
    let page = open_page(row).expect("the page is valid");
    let read: Vec<&Message> = page.messages.iter().map(|kept| &*kept.message).collect();
    assert_eq!(read, messages);
    let (version, packed) = unseal(&row.body).expect("the page is valid");
    assert_eq!(version, V2);
    let plain = pages(TopicId(300), Lane(4), 128, 1_000, Timestamp(2), &[&bare(), &bare()], false);
    let (_, plain) = unseal(&plain[0].body).expect("the page is valid");
    assert!(packed.starts_with(plain), "version 2 begins with version 1");
    let beyond = BTreeMap::from([(1, BTreeMap::<u32, Bytes>::new())]);
    let body = seal_as(V2, &(1_000_u64, vec![bare()], beyond));
    let rejected = message::open_messages(&body).expect_err("there is one message");
    assert_eq!(rejected, "it has an extension without a message");
}

#[test]
fn an_outbox_row_with_an_extension_has_version_2() {
    let mut outgoing = Outgoing {
        namespace: "default".into(),
        topic: "receipts".into(),
        key: Bytes::new(),
        value: Bytes::from_static(b"x"),
        envelope: Envelope::default(),
        routing: None,
        trace: None,
        sender: Sender {
            topic: TopicId(300),
            group: Some(GroupId(40)),
            lane: Lane(4),
            message: id(12),
        },
        routed: None,
    };
    let row = |outgoing: &Outgoing| {
        plain(Key::Outbox { target: ShardId(1), seq: 7 }, message::seal_outgoing(outgoing))
    };
    assert_eq!(row(&outgoing).body, seal(&outgoing), "without an extension, version 1");
    assert_eq!(open_outgoing(&row(&outgoing)).as_ref(), Ok(&outgoing));
    outgoing.envelope = extended().envelope;
    check_bytes::<()>(
        &row(&outgoing),
        &expect![[r#"
        020764656661756c740872656365697074730001780000000000000000000000
        ac020128040102ac02040c0003010d01056d6f64656c056c617267650219010c
        636f6e74656e742d747970650a746578742f706c61696e8407056c61746572c0
        aac3ca
    "#]],
    );
    assert_eq!(open_outgoing(&row(&outgoing)), Ok(outgoing));
}

#[test]
fn a_page_has_these_bytes() {
    let messages = [full(), bare()];
    let messages: Vec<&Message> = messages.iter().collect();
    let at = Timestamp(1_800_000_000_002);
    let rows = pages(TopicId(300), Lane(4), 128, 1_000, at, &messages, false);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.key, Key::Page { topic: TopicId(300), lane: Lane(4), last: 129 });
    assert_eq!(row.columns, Columns::Page { base: 128, bytes: 19, at });
    check_bytes::<()>(
        row,
        &expect![[r#"
            01e807020380a0f1c2b13406637573742d390c7b226f72646572223a37377d01
            0572756e5f310106636861726765010463617274010461636d6501086f726465
            722d373701096f72646572732e6575010401e0f4f4c2b134010101fa01018827
            0102657501096f72646572732e6575000106736f757263650572756c65730105
            30302d61620103783d31010102ac02040c02010662696c6c65720109066f7264
            6572730102ac02040d0662696c6c657200140d63617264206465636c696e6564
            08776f726b65722d6101e8a7f1c2b134d0aff1c2b134010081a0f1c2b1340001
            78000000000000000000000000000000595e2348
        "#]],
    );
    let page = open_page(row).expect("the row is valid");
    assert_eq!(page.base, 128);
    let read: Vec<(u64, &Message)> =
        page.messages.iter().map(|kept| (kept.bytes_before, &*kept.message)).collect();
    assert_eq!(read, [(1_000, &full()), (1_018, &bare())]);
}

#[test]
fn a_page_that_says_another_number_of_messages_is_refused() {
    let message = bare();
    let row =
        pages(TopicId(1), Lane(0), 5, 0, Timestamp(1), &[&message, &message], false).remove(0);
    let moved = Row { key: Key::Page { topic: TopicId(1), lane: Lane(0), last: 7 }, ..row.clone() };
    assert!(open_page(&moved).is_err());
    let Columns::Page { bytes, at, .. } = row.columns else { panic!("a page") };
    assert!(open_page(&Row { columns: Columns::Page { base: 4, bytes, at }, ..row }).is_err());
}

#[test]
fn dead_letters_are_pages_of_one() {
    let message = bare();
    let rows = pages(TopicId(1), Lane(0), 0, 0, Timestamp(1), &[&message, &message], true);
    let lasts: Vec<Key> = rows.iter().map(|row| row.key.clone()).collect();
    let page = |last| Key::Page { topic: TopicId(1), lane: Lane(0), last };
    assert_eq!(lasts, [page(0), page(1)]);
}

fn entry(state: EntryState) -> Entry {
    Entry {
        state,
        attempt: 3,
        spent: 2,
        returns: 1,
        at: Timestamp(1_800_000_030_000),
        lease_ms: 30_000,
        owner: OwnerId(17),
        size: 4_096,
        produced_at: Timestamp(1_800_000_000_000),
        first_at: Timestamp(1_800_000_000_500),
        policy: None,
        deadline: None,
        error: LastError::None,
        begun: 0,
        unfinished: 0,
    }
}

fn pack_block(entries: &[(u64, Entry)]) -> Option<Row> {
    let mut open = OpenEntries::default();
    for &(offset, entry) in entries {
        open.insert(offset, Open { entry, holder: None, granted_at: None });
    }
    // Old content of the buffer must not be packed.
    let mut scratch = vec![0xee; 100];
    block_row((Generation(41), Lane(4), 3), BatchNo(99), open.block(3), &mut scratch)
}

#[test]
fn a_block_has_these_bytes() {
    let policy = RetryPolicy { max_attempts: 5, backoff_ms: 250, max_backoff_ms: 5_000 };
    let nacked = Entry {
        policy: Some(policy),
        deadline: Some(Timestamp(1_800_000_060_000)),
        error: LastError::Note,
        begun: 2,
        unfinished: 1,
        ..entry(EntryState::Nacked)
    };
    let expired = Entry { error: LastError::Timeout, ..entry(EntryState::Expired) };
    let returned = Entry { error: LastError::Nack, ..entry(EntryState::Returned) };
    let entries =
        [(384, entry(EntryState::Leased)), (385, expired), (400, nacked), (511, returned)];
    let row = pack_block(&entries).expect("entries are open");
    let key =
        Key::Block { generation: Generation(41), lane: Lane(4), block: 3, batch: BatchNo(99) };
    assert_eq!(row.key, key);
    check_bytes::<()>(
        &row,
        &expect![[r#"
        0100100300000002000000307500000010000030c55c18a30111000000000000
        505c18a301f4515c18a3010101150300000002000000307500000010000030c5
        5c18a30111000000000000505c18a301f4515c18a3010110fe03000000020000
        00307500000010000030c55c18a30111000000000000505c18a301f4515c18a3
        010105000000fa0000000000881300000000603a5d18a30102017f1b03000000
        02000000307500000010000030c55c18a30111000000000000505c18a301f451
        5c18a301014a07b4f6
    "#]],
    );
    assert_eq!(open_block(&row).as_deref(), Ok(&entries[..]));
}

#[test]
fn a_block_that_ends_within_an_entry_is_refused_although_it_is_whole() {
    let row = pack_block(&[(384, entry(EntryState::Returned))]).expect("an entry is open");
    let content = row.body.len() - CHECKSUM_BYTES;
    for length in 2..content {
        let mut body = row.body[..length].to_vec();
        body.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        let cut = Row { body: body.into(), ..row.clone() };
        assert_eq!(verify(&cut), Ok(()));
        assert!(open_block(&cut).is_err(), "{length} of {content} bytes");
    }
}

#[test]
fn a_block_without_open_entries_is_no_row() {
    assert_eq!(pack_block(&[]), None);
    assert_eq!(
        pack_block(&[(383, entry(EntryState::Leased)), (512, entry(EntryState::Leased))]),
        None
    );
}

fn lane_state() -> LaneState {
    LaneState {
        first: 880,
        first_bytes: 12_211,
        trimmed: 800,
        high: 2_040,
        high_bytes: 402_311,
        dead: 2,
        marks: vec![
            LaneMark { at: Timestamp(1_800_000_000_000), offset: 900, bytes: 13_000 },
            LaneMark { at: Timestamp(1_800_000_450_000), offset: 1_000, bytes: 14_000 },
        ],
    }
}

fn lane_item() -> LaneItem {
    LaneItem { topic: TopicId(300), lane: Lane(4), state: lane_state() }
}

fn cursor_item() -> CursorItem {
    CursorItem { generation: Generation(41), lane: Lane(4), next: 911, low: 880, bytes: 13_100 }
}

fn mark_item() -> MarkItem {
    MarkItem { kind: MarkKind::Expiry as u8, id: 66, value: 58_594 }
}

#[test]
fn a_head_has_these_bytes() {
    let body = HeadBody {
        ids: 1_234,
        cursors: vec![cursor_item()],
        lanes: vec![lane_item()],
        marks: vec![mark_item()],
    };
    check_value(
        Key::Head { batch: BatchNo(7) },
        &body,
        &expect![[r#"
        01d2090129048f07f006ac6601ac0204f006b35fa006f80f87c718020280a0f1
        c2b1348407c865d0db8cc3b134e807b06d010142e2c90392921998
    "#]],
    );
    let empty = HeadBody { ids: 1, cursors: vec![], lanes: vec![], marks: vec![] };
    check_value(
        Key::Head { batch: BatchNo(8) },
        &empty,
        &expect![[r#"
        010100000021b326a0
    "#]],
    );
}

#[test]
fn checkpoints_of_a_lane_a_cursor_and_a_mark_have_these_bytes() {
    let lane = Key::Lane { topic: TopicId(300), lane: Lane(4) };
    check_value(
        lane,
        &lane_item(),
        &expect![[r#"
        01ac0204f006b35fa006f80f87c718020280a0f1c2b1348407c865d0db8cc3b1
        34e807b06db67d7e0e
    "#]],
    );
    let cursor = Key::Cursor { generation: Generation(41), lane: Lane(4) };
    check_value(
        cursor,
        &cursor_item(),
        &expect![[r#"
        0129048f07f006ac6612304ab8
    "#]],
    );
    let mark = Key::Mark { kind: MarkKind::Expiry, id: 66 };
    check_value(
        mark,
        &mark_item(),
        &expect![[r#"
        010142e2c9031cce91ef
    "#]],
    );
}

#[test]
fn garbage_has_these_bytes() {
    let topic =
        Garbage::Topic { topic: TopicId(300), lanes: vec![(Lane(0), 880, 2_040), (Lane(1), 0, 1)] };
    check_value(
        Key::Garbage { id: 300 },
        &topic,
        &expect![[r#"
        0100ac020200f006f80f0100019ea0d5a3
    "#]],
    );
    let cursor = Garbage::Cursor { generation: Generation(41), lanes: vec![(Lane(4), 880, 911)] };
    check_value(
        Key::Garbage { id: 41 },
        &cursor,
        &expect![[r#"
        0101290104f0068f07d51561cc
    "#]],
    );
}

#[test]
fn audit_records_have_these_bytes() {
    let record = |accepted| AuditRecord {
        at: Timestamp(1_800_000_000_123),
        tenant: "acme".into(),
        topic: Some(TopicId(300)),
        scope: "effect/orders/biller".into(),
        key: "order-77".into(),
        born: Timestamp(1_800_000_000_000),
        fence: 2,
        by: "worker-a".into(),
        accepted,
        delivery: None,
    };
    let outcome = ChainHash([0xab; 32]);
    let accepted = [
        Accepted::Begin { request: Some("own:abc".into()) },
        Accepted::Finish { state: EffectState::Succeeded, outcome },
        Accepted::Resolve { state: EffectState::FailedFinal, outcome, reason: "looked".into() },
    ];
    let mut tip = Tip { seq: 40, hash: ChainHash([0xcd; 32]) };
    let links = accepted.map(|accepted| {
        let (before, record) = (tip, ChainRecord::Decision(record(accepted)));
        tip = before.next(&record).0;
        Link { chain: "default".into(), before, record, tip }
    });
    let [row] = &audit_rows(&links.each_ref()).collect::<Vec<_>>()[..] else { panic!("one row") };
    let namespace = chain_hash(&"default".into());
    assert_eq!(row.key, Key::Audit { namespace, last: 43 });
    check_bytes::<AuditBody<AuditRecord>>(
        row,
        &expect![[r#"
        010764656661756c74cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd
        cdcdcdcdcdcdcdcdcd03fba0f1c2b1340461636d6501ac02146566666563742f
        6f72646572732f62696c6c6572086f726465722d373780a0f1c2b1340208776f
        726b65722d610001076f776e3a616263fba0f1c2b1340461636d6501ac021465
        66666563742f6f72646572732f62696c6c6572086f726465722d373780a0f1c2
        b1340208776f726b65722d610103abababababababababababababababababab
        ababababababababababababababfba0f1c2b1340461636d6501ac0214656666
        6563742f6f72646572732f62696c6c6572086f726465722d373780a0f1c2b134
        0208776f726b65722d610204abababababababababababababababababababab
        abababababababababababab066c6f6f6b65643f1f2c8a
    "#]],
    );
    expect![[r#"
        2f8c8a407d61d9f3970b757f750c309a
    "#]]
    .assert_eq(&hex(&namespace));
    let mut with_delivery = links.clone();
    let ChainRecord::Decision(record) = &mut with_delivery[1].record else { panic!("a decision") };
    record.delivery = Some(AuditDelivery { message: id(77), attempt: 3 });
    let rows: Vec<Row> = audit_rows(&with_delivery.each_ref()).collect();
    let version_2 = [&[2], &row.body[1..row.body.len() - 4]].concat();
    assert!(rows[0].body.starts_with(&version_2), "version 2 is version 1 and the deliveries");
    expect![[r#"
        01010102ac02044d037d661a2b
    "#]]
    .assert_eq(&hex(&rows[0].body[version_2.len()..]));
    let run = open_audit(&rows[0]).expect("the row is valid");
    assert_eq!(run.records, with_delivery.map(|link| link.record));
    let run = open_audit(row).expect("the row is valid");
    assert_eq!((&*run.chain, run.before), ("default", links[0].before));
    assert_eq!(run.records, links.map(|link| link.record));
    let key = Key::Audit { namespace, last: 2 };
    let misplaced = open_audit(&Row { key, ..row.clone() }).err().expect("the row is rejected");
    assert_eq!(misplaced.why, "it has more records than its last number allows");
}

#[test]
fn the_bytes_and_the_text_of_an_act_stay_what_they_are() {
    let act = Act {
        id: "5f2a".into(),
        by: "ops".into(),
        reason: "bad deploy".into(),
        request_id: "r-1".into(),
    };
    let record = ChainRecord::Act(ActRecord {
        at: Timestamp(1_800_000_000_123),
        verb: "seek_group".into(),
        topic: "orders".into(),
        group: "biller".into(),
        act,
        counts: vec![("redelivers".into(), 0), ("skips".into(), 263)],
        details: vec![("to".into(), "latest".into())],
    });
    let before = Tip { seq: 40, hash: ChainHash([0xcd; 32]) };
    let (tip, text) = before.next(&record);
    expect![[r#"{"seq":41,"at_ms":1800000000123,"act":"seek_group","topic":"orders","group":"biller","by":"ops","reason":"bad deploy","request_id":"r-1","act_id":"5f2a","counts":{"redelivers":0,"skips":263},"details":{"to":"latest"}}"#]].assert_eq(&text);
    let link = Link { chain: chain_of_acts("default"), before, record: record.clone(), tip };
    let [row] = &audit_rows(&[&link]).collect::<Vec<_>>()[..] else { panic!("one row") };
    assert_eq!(verify(row), Ok(()));
    expect![[r#"
        030c64656661756c742f61637473cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd
        cdcdcdcdcdcdcdcdcdcdcdcdcdcd01fba0f1c2b1340a7365656b5f67726f7570
        066f72646572730662696c6c65720435663261036f70730a626164206465706c
        6f7903722d31020a726564656c69766572730005736b69707387020102746f06
        6c617465737448458008
    "#]]
    .assert_eq(&hex(&row.body));
    let run = open_audit(row).expect("the row is valid");
    assert_eq!((&*run.chain, run.before, run.records), ("default/acts", before, vec![record]));
}

#[test]
fn a_body_of_another_version_is_refused_although_it_is_whole() {
    let mut body = vec![V1 + 1, 0, 0];
    body.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    let row = plain(Key::Garbage { id: 1 }, body.into());
    let refused = verify(&row).expect_err("this version is not known");
    assert_eq!(refused.why, "its version is unknown");
}

#[test]
fn names_of_records_stay_what_they_are() {
    let dedupe = hash16(RecordKind::Dedupe, &(TopicId(300), "acme", "order-77"));
    expect![[r#"
        b870044a5e9102157110d9ef29ff6a62
    "#]]
    .assert_eq(&hex(&dedupe));
    let tombstone = hash16(RecordKind::Tombstone, &(GroupId(40), Generation(41), Lane(4), 880_u64));
    expect![[r#"
        02ff12c9f86101a66327a1f8aea743b6
    "#]]
    .assert_eq(&hex(&tombstone));
}
