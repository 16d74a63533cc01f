//! Settings of a topic.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::Object;
use crate::number::{
    BacklogLimit, BackoffMs, DedupeTtlMs, DlqRetentionMs, EffectTtlMs, GroupIdleMs, LeaseMs,
    MaxAttempts, MaxInFlight, MaxOpen, RetentionBytes, RetentionMs,
};
use crate::words::{DedupeCompare, OnDoubt, Unkeyed};

/// Every setting, with the value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference explains each setting")]
pub struct Settings {
    pub lease_ms: LeaseMs,
    pub max_in_flight: MaxInFlight,
    pub max_open: MaxOpen,
    pub retry_policy: TopicRetryPolicy,
    pub max_backlog_messages: BacklogLimit,
    pub max_backlog_bytes: BacklogLimit,
    pub retention_ms: RetentionMs,
    pub retention_bytes: RetentionBytes,
    #[schema(required = true)]
    pub dlq_retention_ms: Option<DlqRetentionMs>,
    pub dedupe_ttl_ms: DedupeTtlMs,
    pub dedupe_compare: DedupeCompare,
    pub effect_ttl_ms: EffectTtlMs,
    #[schema(required = true)]
    pub on_doubt: Option<OnDoubt>,
    pub unkeyed: Unkeyed,
    pub require_token: bool,
    pub auto_create_groups: bool,
    #[schema(required = true)]
    pub group_idle_ms: Option<GroupIdleMs>,
    pub history: bool,
}

macro_rules! patch {
    ($($setting:ident: $type:ident,)*) => {
        /// Settings to change. Null resets a setting to its default.
        #[derive(Debug, Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[expect(missing_docs, reason = "the API reference explains each setting")]
        pub struct SettingsPatch {
            $(
                #[serde(default)]
                #[schema(value_type = Option<$type>)]
                pub $setting: Patch<$type>,
            )*
        }
    };
}

patch! {
    lease_ms: LeaseMs,
    max_in_flight: MaxInFlight,
    max_open: MaxOpen,
    retry_policy: RetryPolicyPatch,
    max_backlog_messages: BacklogLimit,
    max_backlog_bytes: BacklogLimit,
    retention_ms: RetentionMs,
    retention_bytes: RetentionBytes,
    dlq_retention_ms: DlqRetentionMs,
    dedupe_ttl_ms: DedupeTtlMs,
    dedupe_compare: DedupeCompare,
    effect_ttl_ms: EffectTtlMs,
    on_doubt: OnDoubt,
    unkeyed: Unkeyed,
    require_token: bool,
    auto_create_groups: bool,
    group_idle_ms: GroupIdleMs,
    history: bool,
}

/// What happens to a setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// It is absent from the request.
    #[default]
    Keep,
    /// It is null.
    Reset,
    /// It has a value.
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Patch<T>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Patch::Reset, Patch::Set))
    }
}

/// How often, and after which waits, messages without their own policy are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference explains each field")]
pub struct TopicRetryPolicy {
    pub max_attempts: MaxAttempts,
    pub backoff_ms: BackoffMs,
    pub max_backoff_ms: BackoffMs,
}

/// Fields of the retry policy to change. Missing fields keep their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(from = "Object<RetryPolicyFields>")]
#[expect(missing_docs, reason = "the API reference explains each field")]
pub struct RetryPolicyPatch {
    #[schema(value_type = MaxAttempts, required = false)]
    pub max_attempts: Option<MaxAttempts>,
    #[schema(value_type = BackoffMs, required = false)]
    pub backoff_ms: Option<BackoffMs>,
    #[schema(value_type = BackoffMs, required = false)]
    pub max_backoff_ms: Option<BackoffMs>,
}

/// The fields of [`RetryPolicyPatch`], which is never written as a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryPolicyFields {
    #[serde(default, deserialize_with = "not_null")]
    max_attempts: Option<MaxAttempts>,
    #[serde(default, deserialize_with = "not_null")]
    backoff_ms: Option<BackoffMs>,
    #[serde(default, deserialize_with = "not_null")]
    max_backoff_ms: Option<BackoffMs>,
}

/// Rejects null, which resets a whole setting but not a field of one.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl From<Object<RetryPolicyFields>> for RetryPolicyPatch {
    fn from(Object(fields): Object<RetryPolicyFields>) -> RetryPolicyPatch {
        let RetryPolicyFields { max_attempts, backoff_ms, max_backoff_ms } = fields;
        RetryPolicyPatch { max_attempts, backoff_ms, max_backoff_ms }
    }
}
