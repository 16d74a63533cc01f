//! The effect ledger over HTTP: alone, within a delivery, or with any other queue.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use driftq_api::effect::{
    Began, Begin as BeginRequest, Effect, EffectResponse, Effects as WireEffects, Extend, Extended,
    Finish as FinishRequest, Finished, Reacquire, Resolve as ResolveRequest,
};
use driftq_api::number::{EffectTtlMs, LeaseMs, Limit, ProviderWindowMs, WaitMs};
use driftq_api::{schema, words};
use driftq_core::command::{
    Begin, BeginOf, EffectQuery, Effects, ExtendEffect, Finish, FinishStatus, ListEffects, Missing,
    NamedEffect, Request, Resolve,
};
use driftq_core::effect::Scope;
use driftq_core::row::Place;
use driftq_core::{NUMBER_MAX, Rejection, ShardId, Text};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::api_error::{ApiError, Invalid};
use super::app::{App, NAMESPACE};
use super::body::Purpose;
use super::effect_result::outcome;
use super::effect_view;
use super::input::Input;
use super::operation::{
    Conflicting, Held, HeldOrStale, Missing as NotThere, Query, QueryForm, StaleEffect,
};
use super::pagination::{from_cursor, limit, to_cursor};
use super::produce::idempotency_key;
use super::request::{ApiRequest, Param, field};
use super::request_log::{act_of, log_act};
use super::words::ToCore;

/// Maximum number of records that one call scans.
const SCAN_MAX: u64 = 10_000;
/// The largest number of effects that an overview counts.
const COUNT_MAX: usize = 1_000;
/// Polling interval of a waiting caller, in case a notification is lost.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl ApiRequest for BeginRequest {
    const QUERY: &'static [Param] = &[
        field("scope"),
        field("key"),
        field("lease_token"),
        field("tenant_id"),
        field("request"),
        field("request_hash"),
        field("on_doubt"),
        field("lease_ms"),
        field("ttl_ms"),
        field("provider_window_ms"),
        field("owner"),
        field("nonce"),
    ];
}

impl ApiRequest for Reacquire {
    const QUERY: &'static [Param] = &[
        field("scope"),
        field("key"),
        field("tenant_id"),
        field("request"),
        field("request_hash"),
        field("lease_ms"),
        field("owner"),
        field("nonce"),
    ];
}

impl ApiRequest for FinishRequest {
    const PURPOSE: Purpose = Purpose::Settle;
    const QUERY: &'static [Param] = &[
        field("token"),
        field("status"),
        field("code"),
        field("result_base64"),
        field("error"),
        field("downstream_key"),
    ];
}

impl ApiRequest for Extend {
    const PURPOSE: Purpose = Purpose::Settle;
    const QUERY: &'static [Param] = &[field("token"), field("lease_ms")];
}

impl ApiRequest for ResolveRequest {
    const QUERY: &'static [Param] = &[
        field("scope"),
        field("key"),
        field("tenant_id"),
        field("fence"),
        field("as"),
        field("code"),
        field("result_base64"),
        field("error"),
        field("by"),
        field("reason"),
    ];
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EffectListQuery {
    #[schema(value_type = Option<schema::ScopeName>)]
    scope: Option<String>,
    #[schema(value_type = Option<schema::EffectKey>)]
    key: Option<String>,
    #[schema(value_type = Option<schema::Tenant>)]
    tenant_id: Option<String>,
    #[schema(default = 0)]
    wait_ms: Option<WaitMs>,
    state: Option<words::EffectState>,
    #[schema(default = 100)]
    limit: Option<Limit>,
    #[schema(value_type = Option<schema::PageCursor>)]
    cursor: Option<String>,
}

impl ApiRequest for EffectListQuery {
    const QUERY: &'static [Param] = &[
        field("scope"),
        field("key"),
        field("tenant_id"),
        field("wait_ms"),
        field("state"),
        field("limit"),
        field("cursor"),
    ];
}

/// Requests the right to execute an effect.
#[utoipa::path(
    post, path = "/v1/effects/begin", operation_id = "begin", tag = "effects",
    params(
        QueryForm<BeginRequest>,
        ("Idempotency-Key" = Option<schema::EffectKey>, Header, description = "The same as key; bare or in double quotes"),
    ),
    request_body = BeginRequest,
    responses((status = 200, description = "the decision", body = Began), NotThere, HeldOrStale, Conflicting),
)]
pub(crate) async fn begin(
    State(app): State<App>,
    input: Input<BeginRequest>,
) -> Result<Json<Began>, ApiError> {
    let key = key(&input.headers, input.body.key.clone())?;
    let request = input.body;
    let of = match (request.lease_token, request.scope) {
        (Some(token), None) => {
            for (field, is_there) in [
                ("lease_ms", request.lease_ms.is_some()),
                ("tenant_id", request.tenant_id.is_some()),
            ] {
                if is_there {
                    return Err(ApiError::invalid(
                        field,
                        "cannot be combined with lease_token; the message determines it",
                    ));
                }
            }
            let token = app.token("lease_token", &token)?;
            BeginOf::Delivery { token, key: key.map(Into::into) }
        }
        (None, Some(scope)) => {
            let key = key.ok_or_else(|| ApiError::invalid("key", "is required"))?;
            let name = query(request.tenant_id.as_deref(), &scope, key)?;
            BeginOf::Scope { name, lease_ms: request.lease_ms.map(LeaseMs::get), again: false }
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::invalid("scope", "send either scope or lease_token"));
        }
    };
    let begin = Begin {
        of,
        request: hash_request(request.request, request.request_hash)?,
        on_doubt: request.on_doubt.map(ToCore::core),
        ttl_ms: request.ttl_ms.map(EffectTtlMs::get),
        window_ms: request.provider_window_ms.map(ProviderWindowMs::get),
        owner: request.owner.map(Into::into),
        nonce: request.nonce.map(Into::into),
    };
    began(&app, begin).await
}

/// Requests the right to execute an effect that failed, or that is in doubt if its policy allows
/// it.
#[utoipa::path(
    post, path = "/v1/effects/reacquire", operation_id = "reacquire", tag = "effects",
    params(
        QueryForm<Reacquire>,
        ("Idempotency-Key" = Option<schema::EffectKey>, Header, description = "The same as key; bare or in double quotes"),
    ),
    request_body = Reacquire,
    responses((status = 200, description = "the decision", body = Began), NotThere, Held, Conflicting),
)]
pub(crate) async fn reacquire(
    State(app): State<App>,
    input: Input<Reacquire>,
) -> Result<Json<Began>, ApiError> {
    let Reacquire { scope, key: named, tenant_id, request: content, request_hash, .. } = input.body;
    let key = key(&input.headers, named)?.ok_or_else(|| ApiError::invalid("key", "is required"))?;
    let name = query(tenant_id.as_deref(), &scope, key)?;
    let begin = Begin {
        of: BeginOf::Scope { name, lease_ms: input.body.lease_ms.map(LeaseMs::get), again: true },
        request: hash_request(content, request_hash)?,
        on_doubt: None,
        ttl_ms: None,
        window_ms: None,
        owner: input.body.owner.map(Into::into),
        nonce: input.body.nonce.map(Into::into),
    };
    began(&app, begin).await
}

async fn began(app: &App, begin: Begin) -> Result<Json<Began>, ApiError> {
    let began = app.call(begin).await?;
    Ok(Json(effect_view::began(*began, app.node.minter())))
}

/// Records how an execution ended.
#[utoipa::path(
    post, path = "/v1/effects/finish", operation_id = "finish", tag = "effects",
    params(QueryForm<FinishRequest>),
    request_body = FinishRequest,
    responses((status = 200, description = "the recorded outcome", body = Finished), NotThere, StaleEffect, Conflicting),
)]
pub(crate) async fn finish(
    State(app): State<App>,
    input: Input<FinishRequest>,
) -> Result<Json<Finished>, ApiError> {
    let finish = finish_of(&app, input.body)?;
    let finished = app.call(finish).await?;
    Ok(Json(effect_view::finished(&finished.effect, finished.repeated)))
}

pub(super) fn finish_of(app: &App, request: FinishRequest) -> Result<Finish, Invalid> {
    let FinishRequest { token, status, code, result, result_base64, error, downstream_key } =
        request;
    let status = match status {
        words::FinishStatus::Succeeded => FinishStatus::Succeeded,
        words::FinishStatus::FailedFinal => FinishStatus::FailedFinal,
        words::FinishStatus::FailedRetryable => {
            FinishStatus::FailedRetryable { renew: downstream_key == Some(words::Keep::Renew) }
        }
        words::FinishStatus::Unknown => FinishStatus::Unknown,
    };
    if downstream_key.is_some() && !matches!(status, FinishStatus::FailedRetryable { .. }) {
        return Err(Invalid::new("downstream_key", "is allowed only with FAILED_RETRYABLE"));
    }
    let outcome = outcome(code, result, result_base64, error)?;
    Ok(Finish { token: app.token("token", &token)?, status, outcome })
}

/// Extends the lease of an effect, and of the delivery it belongs to.
#[utoipa::path(
    post, path = "/v1/effects/extend", operation_id = "extendEffect", tag = "effects",
    params(QueryForm<Extend>),
    request_body = Extend,
    responses((status = 200, description = "the new expiry of the lease", body = Extended), NotThere, StaleEffect),
)]
pub(crate) async fn extend(
    State(app): State<App>,
    input: Input<Extend>,
) -> Result<Json<Extended>, ApiError> {
    let Extend { token, lease_ms } = input.body;
    let extend =
        ExtendEffect { token: app.token("token", &token)?, lease_ms: lease_ms.map(LeaseMs::get) };
    let until = app.call(extend).await?;
    Ok(Json(Extended {
        status: words::ExtendedStatus::Extended,
        expires_at: super::convert::time(until),
    }))
}

/// Resolves an effect that is in doubt.
#[utoipa::path(
    post, path = "/v1/effects/resolve", operation_id = "resolve", tag = "effects",
    params(QueryForm<ResolveRequest>),
    request_body = ResolveRequest,
    responses((status = 200, description = "the effect", body = Effect), NotThere, StaleEffect),
)]
pub(crate) async fn resolve(
    State(app): State<App>,
    input: Input<ResolveRequest>,
) -> Result<Json<Effect>, ApiError> {
    let request = input.body;
    let resolve = Resolve {
        name: query(request.tenant_id.as_deref(), &request.scope, request.key)?,
        fence: request.fence.get(),
        resolve_as: request.resolve_as.core(),
        outcome: outcome(request.code, request.result, request.result_base64, request.error)?,
        by: request.by.into(),
        reason: request.reason.into(),
    };
    let act = act_of(Some(&resolve.by), Some(&resolve.reason));
    let effect = app.act(&act, resolve).await?;
    let (scope, key) = (&*effect.row.name.scope, &*effect.row.name.key);
    log_act!(act, "effect resolved", scope, key, fence = effect.row.fence);
    Ok(Json(effect_view::effect(&effect, true)))
}

/// Returns one effect, optionally waiting for its outcome, or lists effects whose outcome is not
/// known.
#[utoipa::path(
    get, path = "/v1/effects", operation_id = "effects", tag = "effects",
    params(Query<EffectListQuery>),
    responses((status = 200, description = "an effect or a page of effects", body = EffectResponse), NotThere),
)]
pub(crate) async fn look(
    State(app): State<App>,
    input: Input<EffectListQuery>,
) -> Result<Json<EffectResponse>, ApiError> {
    let EffectListQuery { scope, key, tenant_id, wait_ms, state, limit: of, cursor } =
        input.into_body();
    let Some(key) = key else {
        if wait_ms.is_some() {
            return Err(ApiError::invalid("wait_ms", "requires scope and key"));
        }
        let list = Listed { scope, tenant_id, state, limit: limit(of), cursor };
        return list.effects(&app).await.map(|page| Json(EffectResponse::Effects(page)));
    };
    if state.is_some() || of.is_some() || cursor.is_some() {
        return Err(ApiError::invalid("key", "cannot be combined with state, limit or cursor"));
    }
    let scope = scope.ok_or_else(|| ApiError::invalid("scope", "is required"))?;
    let name = query(tenant_id.as_deref(), &scope, key)?;
    let wait_ms = wait_ms.map_or(0, WaitMs::get);
    one(&app, &scope, name, Duration::from_millis(wait_ms)).await
}

/// Loads the effect, again after each change, until its outcome is known or the wait ends.
async fn one(
    app: &App,
    scope: &str,
    name: EffectQuery,
    wait: Duration,
) -> Result<Json<EffectResponse>, ApiError> {
    let until = Instant::now() + wait;
    let waiting = (!wait.is_zero()).then(|| app.node.await_effect(name.tenant(), scope, &name.key));
    let mut draining = app.draining.clone();
    loop {
        let changed = waiting.as_ref().map(|waiting| waiting.changed());
        let mut changed = changed.as_deref().map(|changed| Box::pin(changed.notified()));
        if let Some(changed) = &mut changed {
            changed.as_mut().enable();
        }
        let answered = app.try_call(name.clone()).await?;
        let is_over = match &answered {
            Ok(NamedEffect::Effect(effect)) => effect.state.is_over(),
            Ok(NamedEffect::Produced(_)) => true,
            Err(rejection) => *rejection != Rejection::NotFound(Missing::Effect),
        };
        let now = Instant::now();
        if is_over || now >= until || *draining.borrow() {
            let effect = match answered? {
                NamedEffect::Effect(effect) => effect_view::effect(&effect, true),
                NamedEffect::Produced(produced) => effect_view::produced(&name, scope, &produced)?,
            };
            return Ok(Json(EffectResponse::Effect(Box::new(effect))));
        }
        let pause = tokio::time::sleep_until(until.min(now + ASK_AGAIN));
        match changed {
            Some(changed) => tokio::select! {
                () = changed => {}
                () = pause => {}
                _ = draining.changed() => {}
            },
            None => pause.await,
        }
    }
}

/// Counts the effects in a state, up to the limit of a scan.
pub(super) async fn count(app: &App, state: words::EffectState) -> Result<u64, ApiError> {
    let state = Some(state);
    let list = Listed { scope: None, tenant_id: None, state, limit: COUNT_MAX, cursor: None };
    Ok(list.effects(app).await?.effects.len() as u64)
}

/// A request for a page of effects whose outcome is not known.
struct Listed {
    scope: Option<String>,
    tenant_id: Option<String>,
    state: Option<words::EffectState>,
    limit: usize,
    cursor: Option<String>,
}

impl Listed {
    async fn effects(self, app: &App) -> Result<WireEffects, ApiError> {
        let state = self.state.map(ToCore::core).filter(|state| !state.is_known());
        let message = "must be IN_PROGRESS, IN_DOUBT or PARKED; for one effect, send scope and key";
        let state = state.ok_or_else(|| ApiError::invalid("state", message))?;
        let scope = self.scope.as_deref().map(scope).transpose()?;
        let mut next = Some(match &self.cursor {
            Some(cursor) => place(cursor)?,
            None => (ShardId(0), Place::FIRST),
        });
        let (mut found, mut scanned) = (Vec::new(), 0);
        while let Some((shard, from)) = next
            && shard.0 < app.node.shards()
            && found.len() < self.limit
            && scanned < SCAN_MAX
        {
            let list = ListEffects {
                shard,
                namespace: NAMESPACE.into(),
                state,
                scope: scope.clone(),
                tenant: self.tenant_id.as_deref().map(Into::into),
                from,
                limit: (self.limit - found.len()) as u32,
            };
            let Effects { effects, scanned: looked_at, next: on } = *app.call(list).await?;
            scanned += looked_at;
            // After the last effect of a shard, the list continues on the next shard.
            next = Some(on.map_or((ShardId(shard.0 + 1), Place::FIRST), |on| (shard, on)));
            found.extend(effects.iter().map(|effect| effect_view::effect(effect, false)));
        }
        let next = next.filter(|(shard, _)| shard.0 < app.node.shards());
        let cursor = |(shard, Place { bucket, hash }): (ShardId, Place)| {
            to_cursor(&format!("{shard}:{bucket}:{:032x}", u128::from_be_bytes(hash)))
        };
        Ok(WireEffects { effects: found, next_cursor: next.map(cursor) })
    }
}

/// Parses the position where a list continues.
fn place(cursor: &str) -> Result<(ShardId, Place), ApiError> {
    let text = from_cursor(cursor)?;
    let parsed = || {
        let (shard, place) = text.split_once(':')?;
        let (bucket, hash) = place.split_once(':')?;
        let bucket = bucket.parse().ok().filter(|bucket| *bucket <= NUMBER_MAX)?;
        let hash = u128::from_str_radix(hash, 16).ok()?.to_be_bytes();
        Some((ShardId(shard.parse().ok()?), Place { bucket, hash }))
    };
    parsed().ok_or_else(|| ApiError::invalid("cursor", "is not a cursor of this list"))
}

/// Reads the key from the body or the header. If both are given, they must agree.
fn key(headers: &HeaderMap, named: Option<String>) -> Result<Option<String>, ApiError> {
    match (idempotency_key(headers)?, named) {
        (Some(header), Some(named)) if header != named => {
            Err(ApiError::invalid("key", "the Idempotency-Key header and key differ"))
        }
        (Some(key), _) | (None, Some(key)) => Ok(Some(key)),
        (None, None) => Ok(None),
    }
}

pub(super) fn query(tenant: Option<&str>, of: &str, key: String) -> Result<EffectQuery, ApiError> {
    Ok(EffectQuery {
        namespace: NAMESPACE.into(),
        tenant: tenant.unwrap_or_default().into(),
        scope: scope(of)?,
        key: key.into(),
    })
}

fn scope(text: &str) -> Result<Scope, ApiError> {
    Ok(Scope::parse(&Text::from(NAMESPACE), text)?)
}

fn hash_request(
    content: Option<String>,
    hash: Option<String>,
) -> Result<Option<Request>, ApiError> {
    match (content, hash) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("request_hash", "send request or request_hash, not both"))
        }
        (Some(content), None) => Ok(Some(Request::Content(content.into()))),
        (None, Some(hash)) => Ok(Some(Request::Hash(hash.into()))),
        (None, None) => Ok(None),
    }
}
