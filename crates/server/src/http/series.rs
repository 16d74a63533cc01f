//! Short time series of a topic, a group or a shard.

use axum::Json;
use axum::extract::State;
use driftq_api::Time;
use driftq_api::schema;
use driftq_api::series::{Series, SeriesBreak};
use driftq_core::command::{ViewGroup, ViewTopic};
use serde::Deserialize;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::{App, group_name, topic_name};
use super::input::Input;
use super::operation::{Missing, Query};
use super::request::{ApiRequest, Param, field, unix_ms};
use crate::series::{CountedSeries, SeriesOf, SeriesRequest, Step};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesQuery {
    /// A topic, or the topic of the group.
    #[schema(value_type = Option<schema::TopicName>)]
    topic: Option<String>,
    /// A group of the topic.
    #[schema(value_type = Option<schema::GroupName>)]
    group: Option<String>,
    /// A shard, instead of a topic.
    shard: Option<u32>,
    /// The wanted names, separated by commas. Defaults to all.
    names: Option<String>,
    /// The length of a slot: `5` or `60` seconds. Defaults to 5.
    step: Option<SeriesStep>,
    /// The first slot. Defaults to the oldest that is kept.
    since: Option<Time>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
pub(crate) enum SeriesStep {
    #[serde(rename = "5")]
    Five,
    #[serde(rename = "60")]
    Sixty,
}

impl ApiRequest for SeriesQuery {
    const QUERY: &'static [Param] = &[
        field("topic"),
        field("group"),
        field("shard"),
        field("names"),
        field("step"),
        unix_ms("since_ms", "since"),
    ];

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (self.topic.as_deref(), self.group.as_deref())
    }
}

/// Returns what happened in a topic, a group or a shard lately, by slots of 5 or 60 seconds.
#[utoipa::path(
    get, path = "/v1/series", operation_id = "series", tag = "server",
    params(Query<SeriesQuery>),
    responses((status = 200, description = "the values by name, oldest first", body = Series), Missing),
)]
pub(crate) async fn series(
    State(app): State<App>,
    input: Input<SeriesQuery>,
) -> Result<Json<Series>, ApiError> {
    let query = input.body;
    let (subject, shard) = subject(&app, &query)?;
    let wanted = wanted(&subject, query.names.as_deref())?;
    let step = match query.step {
        None | Some(SeriesStep::Five) => Step::Fine,
        Some(SeriesStep::Sixty) => Step::Coarse,
    };
    // The current slot is not complete.
    let to = step.slot(app.clock.now());
    let oldest = to.saturating_sub(step.slots() - 1);
    let since = query.since.map_or(0, |since| since.0.div_ceil(step.ms()));
    let from = since.clamp(oldest, to);
    let request = SeriesRequest { subject, shard, step, from, to };
    must_exist(&app, &request.subject).await?;
    let counted = app.node.series(&request).await;
    let sum = |name: usize| -> Vec<Option<u64>> {
        let slot = |slot: u64| {
            let at = (slot - from) as usize;
            let of = |of: &CountedSeries| of.values.get(name)?.get(at).copied().flatten();
            let values = counted.iter().filter_map(of).map(u64::from);
            // A gauge is known to the node that serves the shard.
            values.reduce(|sum, value| {
                if request.subject.is_counter(name) { sum + value } else { sum.max(value) }
            })
        };
        (from..to).map(slot).collect()
    };
    let names = request.subject.names();
    let series = wanted.into_iter().map(|name| (names[name].to_owned(), sum(name))).collect();
    let mut breaks: Vec<SeriesBreak> = counted
        .iter()
        .flat_map(|counted| &counted.breaks)
        .map(|at| SeriesBreak { at: Time(at.at.0), shard: at.shard, reason: at.reason.clone() })
        .collect();
    breaks.sort_by_key(|at| at.at.0);
    Ok(Json(Series { step_ms: step.ms(), from: Time(from * step.ms()), series, breaks }))
}

fn subject(app: &App, query: &SeriesQuery) -> Result<(SeriesOf, u32), ApiError> {
    let of_topic = |topic: &str| topic_name(topic).shard(app.node.shards()).0;
    match (&query.topic, &query.group, query.shard) {
        (Some(topic), None, None) => Ok((SeriesOf::Topic((**topic).into()), of_topic(topic))),
        (Some(topic), Some(group), None) => {
            let subject = SeriesOf::Group { topic: (**topic).into(), group: (**group).into() };
            Ok((subject, of_topic(topic)))
        }
        (None, None, Some(shard)) if shard < app.node.shards() => {
            Ok((SeriesOf::Shard(shard), shard))
        }
        (None, None, Some(shard)) => {
            let reason =
                format!("must be below {}, the number of shards (got {shard})", app.node.shards());
            Err(ApiError::invalid("shard", reason))
        }
        (None, Some(_), _) => Err(ApiError::invalid("topic", "is required with group")),
        (Some(_), _, Some(_)) => Err(ApiError::invalid("shard", "cannot be combined with topic")),
        (None, None, None) => Err(ApiError::invalid("topic", "topic or shard is required")),
    }
}

/// The indices of the wanted names.
fn wanted(subject: &SeriesOf, names: Option<&str>) -> Result<Vec<usize>, ApiError> {
    let known = subject.names();
    let Some(names) = names else { return Ok((0..known.len()).collect()) };
    let index = |name: &str| {
        known.iter().position(|known| *known == name).ok_or_else(|| {
            let reason = format!("must be names of {} (got \"{name}\")", known.join(", "));
            ApiError::invalid("names", reason)
        })
    };
    names.split(',').map(index).collect()
}

async fn must_exist(app: &App, subject: &SeriesOf) -> Result<(), ApiError> {
    match subject {
        SeriesOf::Shard(_) => {}
        SeriesOf::Topic(topic) => drop(app.call(ViewTopic(topic_name(topic))).await?),
        SeriesOf::Group { topic, group } => {
            drop(app.call(ViewGroup(group_name(topic, group))).await?);
        }
    }
    Ok(())
}
