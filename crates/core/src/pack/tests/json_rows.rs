//! Golden text of the rows that people read.

use bytes::Bytes;
use expect_test::expect;

use super::id;
use crate::change::{
    CursorStart, DeadRow, Forgot, GroupRow, Paused, Redriven, TopicKind, TopicRow,
};
use crate::id::{Generation, GroupId, Lane, OwnerId, TopicId};
use crate::message::DeathReason;
use crate::pack::json_rows::{put_dead, put_group, put_topic};
use crate::pack::{dead_row, group_row, plain, topic_row, verify};
use crate::retry::RetryPolicy;
use crate::row::{Columns, Key, Row};
use crate::settings::{AutoCreateGroups, OnDoubt, SettingsPatch, Unkeyed};
use crate::time::Timestamp;

fn text(row: &Row) -> String {
    String::from_utf8(row.body.to_vec()).expect("JSON is text") + "\n"
}

#[test]
fn a_topic_has_this_text() {
    let topic = TopicRow {
        id: TopicId(300),
        namespace: "default".into(),
        name: "orders".into(),
        kind: TopicKind::Topic,
        partitions: 3,
        patch: SettingsPatch {
            lease_ms: Some(60_000),
            retry_policy: Some(RetryPolicy {
                max_attempts: -1,
                backoff_ms: 250,
                max_backoff_ms: 5_000,
            }),
            dlq_retention_ms: Some(Some(60_000)),
            on_doubt: Some(Some(OnDoubt::Probe)),
            unkeyed: Some(Unkeyed::Spread),
            auto_create_groups: Some(AutoCreateGroups(false)),
            require_token: Some(true),
            ..SettingsPatch::default()
        },
        created_at: Timestamp(1_800_000_000_000),
        forgot: None,
    };
    let row = put_topic(&topic);
    let name = (topic.namespace.clone(), topic.name.clone());
    assert_eq!(
        row.columns,
        Columns::Topic { namespace: name.0, name: name.1, kind: "topic".into() }
    );
    expect![[r#"
        {"kind":"topic","partitions":3,"settings":{"lease_ms":60000,"retry_policy":{"max_attempts":-1,"backoff_ms":250,"max_backoff_ms":5000},"dlq_retention_ms":60000,"on_doubt":"probe","keyless":"round_robin","require_token":true,"groups":"declared"},"created_at":1800000000000}
    "#]].assert_eq(&text(&row));
    assert_eq!(topic_row(&row), Ok(topic.clone()));
    let dlq = TopicRow {
        id: TopicId(301),
        name: "dlq.orders".into(),
        kind: TopicKind::Dlq(TopicId(300)),
        patch: SettingsPatch::default(),
        ..topic
    };
    let row = put_topic(&dlq);
    assert!(matches!(&row.columns, Columns::Topic { kind, .. } if **kind == *"dlq"));
    expect![[r#"
        {"kind":{"dlq":300},"partitions":3,"settings":{},"created_at":1800000000000}
    "#]]
    .assert_eq(&text(&row));
    assert_eq!(topic_row(&row), Ok(dlq.clone()));
    let forgot = Some(Forgot { until: Timestamp(1_800_000_100_000), after_ms: 86_400_000 });
    let raised = TopicRow { forgot, ..dlq };
    let row = put_topic(&raised);
    expect![[r#"
        {"kind":{"dlq":300},"partitions":3,"settings":{},"created_at":1800000000000,"forgot":{"until":1800000100000,"after_ms":86400000}}
    "#]]
    .assert_eq(&text(&row));
    assert_eq!(topic_row(&row), Ok(raised));
}

#[test]
fn a_setting_that_is_null_on_purpose_stays_so() {
    let topic = TopicRow {
        id: TopicId(300),
        namespace: "default".into(),
        name: "orders".into(),
        kind: TopicKind::Topic,
        partitions: 1,
        patch: SettingsPatch { dlq_retention_ms: Some(None), ..SettingsPatch::default() },
        created_at: Timestamp(0),
        forgot: None,
    };
    assert_eq!(topic_row(&put_topic(&topic)), Ok(topic));
}

#[test]
fn a_group_has_this_text() {
    let start = CursorStart { generation: Generation(41), offset: 880, bytes: 12_211 };
    let group = GroupRow {
        id: GroupId(40),
        topic: TopicId(300),
        name: "biller".into(),
        created_at: Timestamp(1_800_000_000_000),
        seen: Timestamp(1_800_000_050_000),
        paused: Some(Paused {
            since: Timestamp(1_800_000_100_000),
            by: "ops".into(),
            reason: "bad deploy 41f2".into(),
            until: Some(Timestamp(1_800_000_200_000)),
        }),
        cursors: vec![start, CursorStart { generation: Generation(50), offset: 0, bytes: 0 }],
    };
    let row = put_group(&group);
    assert_eq!(row.columns, Columns::Group { topic: TopicId(300), name: "biller".into() });
    expect![[r#"
        {"created_at":1800000000000,"seen":1800000050000,"paused":{"since":1800000100000,"by":"ops","reason":"bad deploy 41f2","until":1800000200000},"cursors":[{"generation":41,"offset":880,"bytes":12211},{"generation":50,"offset":0,"bytes":0}]}
    "#]].assert_eq(&text(&row));
    assert_eq!(group_row(&row), Ok(group.clone()));
    let running = GroupRow { paused: None, cursors: vec![start], ..group };
    let row = put_group(&running);
    expect![[r#"
        {"created_at":1800000000000,"seen":1800000050000,"cursors":[{"generation":41,"offset":880,"bytes":12211}]}
    "#]]
    .assert_eq(&text(&row));
    assert_eq!(group_row(&row), Ok(running));
}

#[test]
fn a_dead_letter_has_this_text() {
    let dead = DeadRow {
        topic: TopicId(301),
        seq: 9,
        lane: Lane(4),
        offset: 2,
        bytes: 600,
        size: 300,
        restore: 1,
        group: "biller".into(),
        reason: DeathReason::Deadline,
        at: Timestamp(1_800_000_002_000),
        tenant: "acme".into(),
        run_id: Some("run_1".into()),
        key: Some("order-77".into()),
        error: "card \"declined\"".into(),
        redriven: Some(Redriven {
            by: "ops".into(),
            reason: "fixed in 41f3".into(),
            at: Timestamp(1_800_000_003_000),
            new: id(3_001),
        }),
        effects_until: Some(Timestamp(1_800_000_009_000)),
    };
    let row = put_dead(&dead);
    let columns = |state: &str| Columns::Dead {
        lane: Lane(4),
        offset: 2,
        group: "biller".into(),
        reason: "deadline".into(),
        at: Timestamp(1_800_000_002_000),
        state: state.into(),
    };
    assert_eq!(row.columns, columns("redriven"));
    expect![[r#"
        {"reason":"deadline","bytes":600,"size":300,"restore":1,"tenant":"acme","run_id":"run_1","key":"order-77","error":"card \"declined\"","redriven":{"by":"ops","reason":"fixed in 41f3","at":1800000003000,"new":{"restore":1,"shard":2,"topic":300,"lane":4,"offset":3001}},"effects_until":1800000009000}
    "#]].assert_eq(&text(&row));
    assert_eq!(dead_row(&row), Ok(dead.clone()));
    let still = DeadRow { run_id: None, key: None, redriven: None, effects_until: None, ..dead };
    let row = put_dead(&still);
    assert_eq!(row.columns, columns("dead"));
    expect![[r#"
        {"reason":"deadline","bytes":600,"size":300,"restore":1,"tenant":"acme","error":"card \"declined\""}
    "#]]
    .assert_eq(&text(&row));
    assert_eq!(dead_row(&row), Ok(still));
}

#[test]
fn rows_people_read_are_refused_when_they_are_no_json_or_in_the_wrong_table() {
    let key = Key::Topic { topic: TopicId(1) };
    let columns =
        Columns::Topic { namespace: "default".into(), name: "orders".into(), kind: "topic".into() };
    let broken =
        Row { key: key.clone(), columns, body: Bytes::from_static(b"{\"kind\":\"topic\"") };
    assert!(topic_row(&broken).is_err());
    let misplaced = plain(key, Bytes::from_static(b"{}"));
    assert!(topic_row(&misplaced).is_err());
    assert!(group_row(&misplaced).is_err());
    let no_text = plain(Key::Owner { owner: OwnerId(1) }, Bytes::from_static(b"\xff"));
    assert!(verify(&no_text).is_err());
}
