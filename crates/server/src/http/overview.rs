//! The state of the whole server, and the groups of all topics.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use driftq_api::group::{Group, Groups};
use driftq_api::number::Limit;
use driftq_api::overview::{Attention, Overview, Rates};
use driftq_api::schema::PageCursor;
use driftq_api::words;
use driftq_api::words::AttentionKind;
use driftq_core::Timestamp;
use driftq_core::attention::attention;
use driftq_core::view::{AllViews, CursorView, GroupView};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::api_error::ApiError;
use super::app::App;
use super::input::Input;
use super::operation::Query;
use super::pagination::{from_cursor, limit, to_cursor};
use super::request::{ApiRequest, Nothing, Param, field};
use super::words::{ToWire as _, word};
use super::{cluster, convert, effects, health};

/// An overview is computed at most once in this time, however many clients ask.
const FRESH: Duration = Duration::from_secs(1);
const ATTENTION_MAX: usize = 50;

/// Returns the totals of the server, and what an operator should look at.
#[utoipa::path(
    get, path = "/v1/overview", operation_id = "overview", tag = "server",
    responses((status = 200, description = "the state of the server", body = Overview)),
)]
pub(crate) async fn overview(
    State(app): State<App>,
    _: Input<Nothing>,
) -> Result<Json<Overview>, ApiError> {
    let mut last = app.overview.lock().await;
    let fresh = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
    let overview = match fresh {
        Some((_, overview)) => overview.clone(),
        None => {
            let overview = Arc::new(compute(&app).await?);
            *last = Some((Instant::now(), overview.clone()));
            overview
        }
    };
    Ok(Json((*overview).clone()))
}

async fn compute(app: &App) -> Result<Overview, ApiError> {
    let views = app.view_all().await?;
    let in_doubt = effects::count(app, words::EffectState::InDoubt).await?;
    let parked = effects::count(app, words::EffectState::Parked).await?;
    let nodes = match &app.membership {
        Some(_) => Some(cluster::all_nodes(app).await?),
        None => None,
    };
    let now = app.clock.now();
    let AllViews { topics, groups } = &*views;
    let sum = |of: fn(&CursorView) -> u64| {
        groups.iter().flat_map(|group| &group.partitions).map(of).sum::<u64>()
    };
    let of_groups =
        |of: fn(&GroupView) -> u64| convert::per_second(groups.iter().map(of).sum::<u64>());
    let lanes = || topics.iter().flat_map(|topic| &topic.partitions);
    let mut found = of_server(app);
    if in_doubt + parked > 0 {
        let message = format!("{in_doubt} effects are in doubt and {parked} wait for a decision");
        found.push(item(AttentionKind::EffectsInDoubt, message));
    }
    let is_gone = |node: &&driftq_api::cluster::Node| node.state != words::NodeState::Active;
    for node in nodes.iter().flatten().filter(is_gone) {
        let message = format!("node {} at {} is {}", node.node, node.address, word(node.state));
        found.push(item(AttentionKind::Node, message));
    }
    found.extend(attention(now, topics, groups).into_iter().map(|it| Attention {
        kind: it.kind.wire(),
        message: it.message,
        since: it.since.map(convert::time),
        topic: Some(it.topic.to_string()),
        group: it.group.map(|group| group.to_string()),
    }));
    found.truncate(ATTENTION_MAX);
    Ok(Overview {
        at: convert::time(now),
        version: env!("CARGO_PKG_VERSION"),
        engine: app.about.engine,
        started_at: app.about.started_at,
        ready: health::reasons(app).is_empty(),
        topics: topics.iter().filter(|topic| !topic.is_dlq).count() as u64,
        groups: groups.len() as u64,
        stored_messages: lanes().map(|lane| lane.high - lane.first).sum(),
        stored_bytes: lanes().map(|lane| lane.bytes).sum(),
        backlog: sum(|of| of.backlog),
        leased: sum(|of| of.leased),
        waiting: sum(|of| of.waiting),
        oldest_unsettled_at: groups
            .iter()
            .filter_map(|group| group.oldest_unsettled_at)
            .min()
            .map(convert::time),
        dead_letters: topics.iter().map(|topic| topic.dead_letters).sum(),
        effects_in_doubt: in_doubt,
        effects_parked: parked,
        rates: Rates {
            produced: convert::per_second(topics.iter().map(|topic| topic.produced_15s).sum()),
            delivered: of_groups(|group| group.recent.delivered),
            acked: of_groups(|group| group.recent.acked),
            failed: of_groups(|group| group.recent.failed),
        },
        storage_free_bytes: app.metrics.free_bytes(),
        nodes,
        attention: found,
    })
}

fn item(kind: AttentionKind, message: String) -> Attention {
    Attention { kind, message, since: None, topic: None, group: None }
}

/// Why the server is not ready, and what is wrong with its clock.
fn of_server(app: &App) -> Vec<Attention> {
    let not_ready = health::reasons(app).into_iter();
    let not_ready = not_ready.map(|reason| item(AttentionKind::NotReady, reason));
    let warnings = health::warnings(app).into_iter();
    not_ready.chain(warnings.map(|warning| item(AttentionKind::Clock, warning))).collect()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsQuery {
    /// Only groups whose name, or whose topic's name, contains this text.
    q: Option<String>,
    /// The order of the groups. Defaults to `name`.
    sort: Option<GroupOrder>,
    #[schema(default = 100)]
    limit: Option<Limit>,
    /// Only with `sort=name`.
    #[schema(value_type = Option<PageCursor>)]
    cursor: Option<String>,
}

/// All but `name` have the largest value first: the backlog, the age of the oldest unsettled message, or a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GroupOrder {
    Name,
    Backlog,
    Oldest,
    Delivered,
    Acked,
    Failed,
}

impl ApiRequest for GroupsQuery {
    const QUERY: &'static [Param] = &[field("q"), field("sort"), field("limit"), field("cursor")];
}

/// Lists the groups of all topics.
#[utoipa::path(
    get, path = "/v1/groups", operation_id = "list_all_groups", tag = "groups",
    params(Query<GroupsQuery>),
    responses((status = 200, description = "the groups", body = Groups)),
)]
pub(crate) async fn groups(
    State(app): State<App>,
    input: Input<GroupsQuery>,
) -> Result<Json<Groups>, ApiError> {
    let GroupsQuery { q, sort, limit: most, cursor } = input.body;
    let sort = sort.unwrap_or(GroupOrder::Name);
    if cursor.is_some() && sort != GroupOrder::Name {
        return Err(ApiError::invalid("cursor", "requires sort=name"));
    }
    let after = cursor.as_deref().map(from_cursor).transpose()?;
    let mut views = app.view_all().await?.groups;
    if let Some(q) = &q {
        views.retain(|group| group.name.contains(&**q) || group.topic.contains(&**q));
    }
    if let Some(after) = &after {
        views.retain(|group| place(group) > *after);
    }
    let backlog = |group: &GroupView| group.partitions.iter().map(|of| of.backlog).sum::<u64>();
    match sort {
        GroupOrder::Name => {}
        GroupOrder::Backlog => views.sort_by_key(|group| Reverse(backlog(group))),
        GroupOrder::Delivered => views.sort_by_key(|group| Reverse(group.recent.delivered)),
        GroupOrder::Acked => views.sort_by_key(|group| Reverse(group.recent.acked)),
        GroupOrder::Failed => views.sort_by_key(|group| Reverse(group.recent.failed)),
        GroupOrder::Oldest => {
            views.sort_by_key(|group| group.oldest_unsettled_at.unwrap_or(Timestamp::MAX));
        }
    }
    let most = limit(most);
    let has_more = views.len() > most && sort == GroupOrder::Name;
    views.truncate(most);
    let next_cursor = views.last().filter(|_| has_more).map(|last| to_cursor(&place(last)));
    let groups: Vec<Group> = views.iter().map(|view| convert::group(view, false)).collect();
    Ok(Json(Groups { groups, next_cursor }))
}

/// Sorts like the list: no name contains a control character.
fn place(group: &GroupView) -> String {
    format!("{}\u{1}{}", group.topic, group.name)
}
