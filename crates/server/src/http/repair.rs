//! Repairs the partitions of a topic. One call runs many repair steps of the core.

use axum::Json;
use axum::extract::{Path, State};
use driftq_api::repair::{LostMessages, RedeliveredMessages, Repair as RepairRequest, Repaired};
use driftq_api::schema::TopicName;
use driftq_api::words::RepairedStatus;
use driftq_core::command::{Repair, ViewTopic};

use super::api_error::ApiError;
use super::app::{App, topic_name};
use super::input::Input;
use super::operation::{Missing, QueryForm, Unmet};
use super::request::{ApiRequest, Param, field};
use super::request_log::{act_of, log_act};

impl ApiRequest for RepairRequest {
    const QUERY: &'static [Param] = &[field("dry_run"), field("by"), field("reason")];
}

/// Discards messages that cannot be read any more, and redelivers messages whose state is unknown.
#[utoipa::path(
    post, path = "/v1/topics/{topic}/repair", operation_id = "repair_topic", tag = "topics",
    params(("topic" = TopicName, Path), QueryForm<RepairRequest>),
    request_body = RepairRequest,
    responses((status = 200, description = "the repair, or with dry_run its effect", body = Repaired), Missing, Unmet),
)]
pub(crate) async fn repair(
    State(app): State<App>,
    Path(topic): Path<String>,
    input: Input<RepairRequest>,
) -> Result<Json<Repaired>, ApiError> {
    let RepairRequest { dry_run, by, reason } = input.body;
    let act = act_of(by.as_deref(), reason.as_deref());
    let name = topic_name(&topic);
    let view = app.call(ViewTopic(name.clone())).await?;
    let (mut lost, mut redelivered) = (Vec::new(), Vec::new());
    for partition in 0..view.partitions.len() as u32 {
        let mut from = Some(0);
        while let Some(next) = from {
            let repair = Repair { topic: name.clone(), partition, from: next, dry_run };
            let step = app.act(&act, repair).await?;
            step.lost.into_iter().for_each(|(from, to)| add_lost(&mut lost, partition, from, to));
            redelivered.extend(step.reopened.into_iter().map(|(group, from, to)| {
                RedeliveredMessages { group: group.to_string(), partition, from, to }
            }));
            from = step.next;
        }
    }
    let messages_lost: u64 = lost.iter().map(|range| range.to - range.from).sum();
    let messages_redelivered: u64 = redelivered.iter().map(|range| range.to - range.from).sum();
    if !dry_run {
        log_act!(act, "topic repaired", topic, messages_lost, messages_redelivered);
    }
    let status = if dry_run { RepairedStatus::Checked } else { RepairedStatus::Repaired };
    Ok(Json(Repaired { status, dry_run, lost, redelivered, messages_lost, messages_redelivered }))
}

/// Merges adjacent ranges, because steps split a long range into pieces.
fn add_lost(lost: &mut Vec<LostMessages>, partition: u32, from: u64, to: u64) {
    match lost.last_mut().filter(|last| last.partition == partition && last.to == from) {
        Some(last) => last.to = to,
        None => lost.push(LostMessages { partition, from, to }),
    }
}
