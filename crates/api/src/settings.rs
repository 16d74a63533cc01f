//! Settings of a topic: how they look in answers and in requests. What they mean is the core's.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{AdditionalProperties, Type};
use utoipa::openapi::{Object, OneOf, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::schema::{GroupsWord, Keyless};
use crate::words::OnDoubt;

/// Every setting, with the value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Settings {
    #[schema(minimum = 250, maximum = 43200000, default = 30000)]
    pub lease_ms: u64,
    #[schema(minimum = 1, maximum = 100000, default = 1000)]
    pub max_in_flight: u32,
    #[schema(minimum = 1, maximum = 1000000, default = 10000)]
    pub max_open: u32,
    pub retry_policy: TopicRetryPolicy,
    #[schema(minimum = 1, default = 1000000)]
    pub max_backlog_messages: u64,
    #[schema(minimum = 1, default = 1073741824)]
    pub max_backlog_bytes: u64,
    #[schema(maximum = 31536000000i64, default = 3600000)]
    pub retention_ms: u64,
    #[schema(default = 1073741824)]
    pub retention_bytes: u64,
    #[schema(minimum = 60000, maximum = 315360000000i64, required = true)]
    pub dlq_retention_ms: Option<u64>,
    #[schema(minimum = 1000, maximum = 31536000000i64, default = 604800000)]
    pub dedupe_ttl_ms: u64,
    #[schema(minimum = 60000, maximum = 31536000000i64, default = 604800000)]
    pub effect_ttl_ms: u64,
    #[schema(value_type = Option<OnDoubt>, required = true)]
    pub on_doubt: Option<String>,
    #[schema(value_type = Keyless)]
    pub keyless: String,
    #[schema(default = false)]
    pub require_token: bool,
    #[schema(value_type = GroupsWord)]
    pub groups: String,
    #[schema(minimum = 60000, maximum = 31536000000i64, required = true)]
    pub group_idle_ms: Option<u64>,
    #[schema(default = false)]
    pub history: bool,
}

/// How often and how late messages without their own policy are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct TopicRetryPolicy {
    #[schema(minimum = -1, maximum = 1000, default = 20)]
    pub max_attempts: i32,
    #[schema(maximum = 31536000000i64, default = 1000)]
    pub backoff_ms: u64,
    #[schema(maximum = 31536000000i64, default = 600000)]
    pub max_backoff_ms: u64,
}

/// Settings of a new topic: those that differ from the defaults.
#[derive(Debug)]
pub enum NewSettings {}

/// Settings that change; null puts one back to its default.
#[derive(Debug)]
pub enum SettingsPatch {}

impl PartialSchema for NewSettings {
    fn schema() -> RefOr<Schema> {
        some_of(|setting| setting)
    }
}

impl PartialSchema for SettingsPatch {
    fn schema() -> RefOr<Schema> {
        some_of(|setting| {
            let null = Object::with_type(Type::Null);
            OneOf::builder().item(null).item(setting).into()
        })
    }
}

impl ToSchema for NewSettings {}
impl ToSchema for SettingsPatch {}

/// The settings, none of them required and no other allowed.
fn some_of(as_sent: impl Fn(RefOr<Schema>) -> RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut settings)) = Settings::schema() else {
        unreachable!("a struct with named fields is an object")
    };
    settings.required.clear();
    settings.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    for setting in settings.properties.values_mut() {
        let shown = std::mem::replace(setting, Object::new().into());
        *setting = as_sent(shown);
    }
    settings.into()
}
