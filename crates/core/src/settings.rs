//! Settings of a topic. A topic stores only changed settings; others follow the server's defaults.

use serde::{Deserialize, Serialize};

use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, YEAR_MS};
use crate::retry::{RetryPolicy, RetryRequest};

/// The partition of messages without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unkeyed {
    /// The first partition, as in v1.
    #[serde(rename = "partition_0")]
    First,
    /// The messages of one commit go to one partition, those of the next commit to the next one.
    #[serde(rename = "round_robin")]
    Spread,
}

/// What a produce with a known idempotency key is compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DedupeCompare {
    /// The key alone, as in v1: every message with the key is a repeat.
    Key,
    /// The content too: a different message with the key is rejected.
    Content,
}

/// Whether consuming creates a missing group. If not, a consumer with a misspelled group is rejected
/// and does not read the topic again from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Groups", into = "Groups")]
pub struct AutoCreateGroups(pub bool);

/// [`AutoCreateGroups`] as it is stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Groups {
    #[serde(rename = "open")]
    Open,
    #[serde(rename = "declared")]
    Declared,
}

impl From<Groups> for AutoCreateGroups {
    fn from(groups: Groups) -> AutoCreateGroups {
        AutoCreateGroups(matches!(groups, Groups::Open))
    }
}

impl From<AutoCreateGroups> for Groups {
    fn from(AutoCreateGroups(is_automatic): AutoCreateGroups) -> Groups {
        if is_automatic { Groups::Open } else { Groups::Declared }
    }
}

/// What happens to an effect whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Execute again with the same downstream key.
    Retry,
    /// Query the provider first.
    Probe,
    /// Wait until a person resolves it.
    Park,
}

/// Reads a present setting as `Some`. Null is then a value of the setting, if it allows null.
fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The name of a setting: in the API, and where it is stored or sent to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingName {
    name: &'static str,
    stored: &'static str,
}

impl Serialize for SettingName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.stored)
    }
}

impl<'de> Deserialize<'de> for SettingName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<SettingName, D::Error> {
        let name = String::deserialize(from)?;
        let unknown = || serde::de::Error::custom(format_args!("unknown setting {name:?}"));
        SettingName::ALL.iter().copied().find(|known| known.stored == name).ok_or_else(unknown)
    }
}

impl SettingName {
    /// Returns the setting with that name in the API.
    pub fn of(name: &str) -> Option<SettingName> {
        SettingName::ALL.iter().copied().find(|known| known.name == name)
    }

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        self.name
    }
}

/// A change of a topic's settings. A setting in neither part is kept. A setting in both is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// Settings that get a value.
    pub set: SettingsPatch,
    /// Settings that are reset to their defaults.
    pub reset: Vec<SettingName>,
    /// Fields of the retry policy that get a value. The others keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryRequest>,
}

impl SettingsPatch {
    /// Returns this patch with the fields of `request` in its retry policy. Missing fields take
    /// their value from the patch, or else from `defaults`.
    #[must_use]
    pub fn with_retry(&self, request: Option<&RetryRequest>, defaults: &Settings) -> SettingsPatch {
        let policy = self.retry_policy.as_ref().unwrap_or(&defaults.retry_policy);
        let changed = request.map(|request| request.over(policy));
        SettingsPatch { retry_policy: changed.or(self.retry_policy), ..self.clone() }
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident ($stored:literal): $type:ty = $default:expr,)*) => {
        /// The settings in force. Another node may not know all of them.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Settings {
            $($(#[$doc])* #[serde(rename = $stored)] pub $field: $type,)*
        }

        /// Settings that differ from the defaults. `None` leaves the default.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct SettingsPatch {
            $($(#[$doc])* #[serde(rename = $stored, default, skip_serializing_if = "Option::is_none", deserialize_with = "given")] pub $field: Option<$type>,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($field: $default,)* }
            }
        }

        impl SettingName {
            const ALL: &[SettingName] = &[$(SettingName { name: stringify!($field), stored: $stored },)*];
        }

        impl SettingsPatch {
            /// Returns the settings that differ from the defaults after `change`.
            #[must_use]
            pub fn merged(&self, change: &SettingsChange) -> SettingsPatch {
                let kept = |stored| !change.reset.iter().any(|setting| setting.stored == stored);
                SettingsPatch {
                    $($field: match &change.set.$field {
                        Some(set) => Some(set.clone()),
                        None => self.$field.clone().filter(|_| kept($stored)),
                    },)*
                }
            }

            /// Returns the names of the settings that are set.
            pub fn names(&self) -> Vec<SettingName> {
                let is_set = [$(self.$field.is_some(),)*];
                SettingName::ALL.iter().zip(is_set).filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect()
            }

            /// Returns the settings that are set, by their names in the API, with their values as
            /// JSON.
            pub(crate) fn texts(&self) -> impl Iterator<Item = (&'static str, crate::id::Text)> {
                let stored = serde_json::to_value(self).expect("settings can be written as JSON");
                let text = move |setting: SettingName| (setting.name, stored[setting.stored].to_string().into());
                self.names().into_iter().map(text)
            }
        }

        impl Settings {
            /// Returns these settings with the changes of `patch`.
            #[must_use]
            pub fn with(&self, patch: &SettingsPatch) -> Settings {
                Settings { $($field: patch.$field.clone().unwrap_or_else(|| self.$field.clone()),)* }
            }
        }
    };
}

settings! {
    /// The lease of consumers that request none.
    lease_ms ("lease_ms"): u64 = 30_000,
    /// Maximum number of leased messages per group and partition.
    max_in_flight ("max_in_flight"): u32 = 1_000,
    /// Maximum number of messages that are leased or wait for a retry, per group and partition.
    max_open ("max_open"): u32 = 10_000,
    /// The retry policy of messages without their own.
    retry_policy ("retry_policy"): RetryPolicy = RetryPolicy { max_attempts: 20, backoff_ms: 1_000, max_backoff_ms: 600_000 },
    /// Maximum number of unsettled messages of a partition.
    max_backlog_messages ("max_backlog_messages"): u64 = 1_000_000,
    /// Maximum unsettled bytes (key, value, labels and headers) of a partition.
    max_backlog_bytes ("max_backlog_bytes"): u64 = 1 << 30,
    /// How long settled messages are kept.
    retention_ms ("retention_ms"): u64 = 3_600_000,
    /// Settled messages beyond this number of bytes are deleted earlier.
    retention_bytes ("retention_bytes"): u64 = 1 << 30,
    /// How long dead letters are kept. `None` means forever.
    dlq_retention_ms ("dlq_retention_ms"): Option<u64> = None,
    /// How long an idempotency key is kept.
    dedupe_ttl_ms ("dedupe_ttl_ms"): u64 = 604_800_000,
    /// What a produce with a known idempotency key is compared by.
    dedupe_compare ("dedupe_compare"): DedupeCompare = DedupeCompare::Content,
    /// How long the outcome of an effect is kept.
    effect_ttl_ms ("effect_ttl_ms"): u64 = EFFECT_TTL_MS,
    /// What happens to effects in doubt that belong to this topic's deliveries.
    on_doubt ("on_doubt"): Option<OnDoubt> = None,
    /// The partition of messages without a key.
    unkeyed ("keyless"): Unkeyed = Unkeyed::First,
    /// Reject settling by owner without a token.
    require_token ("require_token"): bool = false,
    /// Whether consuming creates a missing group.
    auto_create_groups ("groups"): AutoCreateGroups = AutoCreateGroups(true),
    /// Delete groups that have had no consumer for this long. `None` means never.
    group_idle_ms ("group_idle_ms"): Option<u64> = None,
    /// Keep every delivery and settlement of a message for explain.
    history ("history"): bool = false,
}

/// How long the outcome of an effect is kept by default.
pub(crate) const EFFECT_TTL_MS: u64 = 604_800_000;
const MINUTE_MS: u64 = 60_000;

/// A setting that is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// Its name.
    pub name: &'static str,
    /// Why the value is invalid.
    pub why: String,
}

impl Settings {
    /// Rejects values that are out of range.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let ranges = [
            ("lease_ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX),
            ("max_in_flight", u64::from(self.max_in_flight), 1, 100_000),
            ("max_open", u64::from(self.max_open), u64::from(self.max_in_flight), 1_000_000),
            ("max_backlog_messages", self.max_backlog_messages, 1, u64::MAX),
            ("max_backlog_bytes", self.max_backlog_bytes, 1, u64::MAX),
            ("retention_ms", self.retention_ms, 0, YEAR_MS),
            (
                "dlq_retention_ms",
                self.dlq_retention_ms.unwrap_or(MINUTE_MS),
                MINUTE_MS,
                10 * YEAR_MS,
            ),
            ("dedupe_ttl_ms", self.dedupe_ttl_ms, 1_000, YEAR_MS),
            ("effect_ttl_ms", self.effect_ttl_ms, MINUTE_MS, YEAR_MS),
            ("group_idle_ms", self.group_idle_ms.unwrap_or(MINUTE_MS), MINUTE_MS, YEAR_MS),
        ];
        let invalid = |name, why: String| Err(InvalidSetting { name, why });
        for (name, value, least, most) in ranges {
            if value < least || value > most {
                return invalid(name, format!("must be between {least} and {most} (got {value})"));
            }
        }
        if self.dedupe_ttl_ms < self.effect_ttl_ms {
            // A key accepted as new must never match an older outcome.
            return invalid("dedupe_ttl_ms", "must not be shorter than effect_ttl_ms".to_owned());
        }
        self.retry_policy.check().or_else(|why| invalid("retry_policy", why.to_owned()))
    }

    /// Returns how long the outcome of a delivery is kept.
    pub fn tombstone_ms(&self) -> u64 {
        crate::limits::TOMBSTONE_MS_MIN.max(self.dedupe_ttl_ms).max(self.retention_ms)
    }
}
