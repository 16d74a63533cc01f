//! Rows that people read: topics, groups and dead letters store their body as JSON text.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::change::{
    CursorStart, DeadRow, Forgot, GroupRow, Paused, Redriven, TopicKind, TopicRow,
};
use crate::id::Text;
use crate::message::DeathReason;
use crate::pack::Damaged;
use crate::row::{Columns, Key, Row};
use crate::settings::SettingsPatch;
use crate::time::Timestamp;

#[derive(Serialize, Deserialize)]
struct TopicBody {
    kind: TopicKind,
    partitions: u32,
    settings: SettingsPatch,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgot: Option<Forgot>,
}

#[derive(Serialize, Deserialize)]
struct GroupBody {
    created_at: Timestamp,
    seen: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused: Option<Paused>,
    cursors: Vec<CursorStart>,
}

#[derive(Serialize, Deserialize)]
struct DeadBody {
    reason: DeathReason,
    bytes: u64,
    size: u64,
    restore: u32,
    tenant: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Text>,
    error: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redriven: Option<Redriven>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effects_until: Option<Timestamp>,
}

pub(crate) fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("plain values can be encoded as JSON").into()
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(row: &'a Row) -> Result<T, Damaged> {
    serde_json::from_slice(&row.body).map_err(|_| Damaged::of(&row.key, "its JSON is invalid"))
}

pub(crate) fn misplaced(row: &Row) -> Damaged {
    Damaged::of(&row.key, "it is in the wrong table")
}

pub(crate) fn put_topic(topic: &TopicRow) -> Row {
    let kind = match topic.kind {
        TopicKind::Topic => "topic".into(),
        TopicKind::Dlq(_) => "dlq".into(),
    };
    let columns =
        Columns::Topic { namespace: topic.namespace.clone(), name: topic.name.clone(), kind };
    let body = TopicBody {
        kind: topic.kind,
        partitions: topic.partitions,
        settings: topic.patch.clone(),
        created_at: topic.created_at,
        forgot: topic.forgot,
    };
    Row { key: Key::Topic { topic: topic.id }, columns, body: json(&body) }
}

/// Unpacks a topic.
pub(crate) fn topic_row(row: &Row) -> Result<TopicRow, Damaged> {
    let (Key::Topic { topic }, Columns::Topic { namespace, name, .. }) = (&row.key, &row.columns)
    else {
        return Err(misplaced(row));
    };
    let body: TopicBody = parse(row)?;
    Ok(TopicRow {
        id: *topic,
        namespace: namespace.clone(),
        name: name.clone(),
        kind: body.kind,
        partitions: body.partitions,
        patch: body.settings,
        created_at: body.created_at,
        forgot: body.forgot,
    })
}

pub(crate) fn put_group(group: &GroupRow) -> Row {
    let columns = Columns::Group { topic: group.topic, name: group.name.clone() };
    let body = GroupBody {
        created_at: group.created_at,
        seen: group.seen,
        paused: group.paused.clone(),
        cursors: group.cursors.clone(),
    };
    Row { key: Key::Group { group: group.id }, columns, body: json(&body) }
}

/// Unpacks a group.
pub(crate) fn group_row(row: &Row) -> Result<GroupRow, Damaged> {
    let (Key::Group { group }, Columns::Group { topic, name }) = (&row.key, &row.columns) else {
        return Err(misplaced(row));
    };
    let body: GroupBody = parse(row)?;
    Ok(GroupRow {
        id: *group,
        topic: *topic,
        name: name.clone(),
        created_at: body.created_at,
        seen: body.seen,
        paused: body.paused,
        cursors: body.cursors,
    })
}

pub(crate) fn put_dead(dead: &DeadRow) -> Row {
    let columns = Columns::Dead {
        lane: dead.lane,
        offset: dead.offset,
        group: dead.group.clone(),
        reason: dead.reason.as_str().into(),
        at: dead.at,
        state: if dead.redriven.is_some() { "redriven" } else { "dead" }.into(),
    };
    let body = DeadBody {
        reason: dead.reason,
        bytes: dead.bytes,
        size: dead.size,
        restore: dead.restore,
        tenant: dead.tenant.clone(),
        run_id: dead.run_id.clone(),
        key: dead.key.clone(),
        error: dead.error.clone(),
        redriven: dead.redriven.clone(),
        effects_until: dead.effects_until,
    };
    Row { key: Key::Dead { topic: dead.topic, seq: dead.seq }, columns, body: json(&body) }
}

/// Unpacks a dead letter.
pub(crate) fn dead_row(row: &Row) -> Result<DeadRow, Damaged> {
    let (Key::Dead { topic, seq }, Columns::Dead { lane, offset, group, at, .. }) =
        (&row.key, &row.columns)
    else {
        return Err(misplaced(row));
    };
    let body: DeadBody = parse(row)?;
    Ok(DeadRow {
        topic: *topic,
        seq: *seq,
        lane: *lane,
        offset: *offset,
        bytes: body.bytes,
        size: body.size,
        restore: body.restore,
        group: group.clone(),
        reason: body.reason,
        at: *at,
        tenant: body.tenant,
        run_id: body.run_id,
        key: body.key,
        error: body.error,
        redriven: body.redriven,
        effects_until: body.effects_until,
    })
}
