//! Settings of a topic. A topic stores what was changed; the rest follows the server's defaults.

use serde::{Deserialize, Serialize};

use crate::limits::{ATTEMPTS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};

/// How often and how late a message is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Deliveries in all; −1 is for ever.
    pub max_attempts: i32,
    /// The wait after the first failure.
    pub backoff_ms: u64,
    /// The longest wait.
    pub max_backoff_ms: u64,
}

impl RetryPolicy {
    /// Whether `spent` deliveries are all there may be.
    pub fn is_exhausted_by(&self, spent: u32) -> bool {
        self.max_attempts >= 0 && i64::from(spent) >= i64::from(self.max_attempts)
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let attempts_fit =
            self.max_attempts == -1 || (1..=ATTEMPTS_MAX).contains(&self.max_attempts);
        if !attempts_fit {
            return Err("max_attempts must be between 1 and 1000, or -1");
        }
        if self.backoff_ms > self.max_backoff_ms {
            return Err("backoff_ms must not exceed max_backoff_ms");
        }
        if self.max_backoff_ms > YEAR_MS {
            return Err("max_backoff_ms must not exceed a year");
        }
        Ok(())
    }
}

/// The partition of messages without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unkeyed {
    /// The first partition, as in v1.
    #[serde(rename = "partition_0")]
    First,
    /// Each message goes to the next partition.
    #[serde(rename = "round_robin")]
    Spread,
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

/// What becomes of an effect nobody knows the outcome of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Execute again with the same downstream key.
    Retry,
    /// Ask the provider first.
    Probe,
    /// Wait for a person.
    Park,
}

/// A setting that is there is set, also to null where that means something.
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
        let unknown = || serde::de::Error::custom(format_args!("no setting is called {name:?}"));
        SettingName::ALL.iter().copied().find(|known| known.stored == name).ok_or_else(unknown)
    }
}

impl SettingName {
    /// The setting of that name in the API.
    pub fn of(name: &str) -> Option<SettingName> {
        SettingName::ALL.iter().copied().find(|known| known.name == name)
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        self.name
    }
}

/// What is to become of a topic's settings. What is in neither part stays as it is; what is in both
/// is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// These get a value.
    pub set: SettingsPatch,
    /// These go back to their defaults.
    pub reset: Vec<SettingName>,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident ($stored:literal): $type:ty = $default:expr,)*) => {
        /// The settings in force.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
            /// What differs from the defaults once `change` is made.
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

            /// The settings that are there.
            pub fn names(&self) -> Vec<SettingName> {
                let is_set = [$(self.$field.is_some(),)*];
                SettingName::ALL.iter().zip(is_set).filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect()
            }
        }

        impl Settings {
            /// These settings with what `patch` changes.
            #[must_use]
            pub fn with(&self, patch: &SettingsPatch) -> Settings {
                Settings { $($field: patch.$field.clone().unwrap_or_else(|| self.$field.clone()),)* }
            }
        }
    };
}

settings! {
    /// The lease of consumers that name none.
    lease_ms ("lease_ms"): u64 = 30_000,
    /// Leased at a time per group and partition.
    max_in_flight ("max_in_flight"): u32 = 1_000,
    /// Leased and waiting for a retry at a time, per group and partition.
    max_open ("max_open"): u32 = 10_000,
    /// For messages without their own.
    retry_policy ("retry_policy"): RetryPolicy = RetryPolicy { max_attempts: 20, backoff_ms: 1_000, max_backoff_ms: 600_000 },
    /// Unsettled messages a partition takes.
    max_backlog_messages ("max_backlog_messages"): u64 = 1_000_000,
    /// Unsettled bytes (key and value) a partition takes.
    max_backlog_bytes ("max_backlog_bytes"): u64 = 1 << 30,
    /// How long settled messages stay.
    retention_ms ("retention_ms"): u64 = 3_600_000,
    /// Settled bytes beyond this go earlier.
    retention_bytes ("retention_bytes"): u64 = 1 << 30,
    /// How long dead letters stay; `None` is for ever.
    dlq_retention_ms ("dlq_retention_ms"): Option<u64> = None,
    /// How long an idempotency key is taken.
    dedupe_ttl_ms ("dedupe_ttl_ms"): u64 = 604_800_000,
    /// How long the outcome of an effect is kept.
    effect_ttl_ms ("effect_ttl_ms"): u64 = EFFECT_TTL_MS,
    /// What becomes of doubtful effects under this topic's leases.
    on_doubt ("on_doubt"): Option<OnDoubt> = None,
    /// The partition of messages without a key.
    unkeyed ("keyless"): Unkeyed = Unkeyed::First,
    /// Refuse settling by owner alone.
    require_token ("require_token"): bool = false,
    /// Whether consuming creates a missing group.
    auto_create_groups ("groups"): AutoCreateGroups = AutoCreateGroups(true),
    /// Delete groups that have had no consumer for so long; `None` is never.
    group_idle_ms ("group_idle_ms"): Option<u64> = None,
    /// Keep every delivery and settlement for explain. Not possible yet.
    history ("history"): bool = false,
}

/// How long the outcome of an effect is kept, unless something else is said.
pub(crate) const EFFECT_TTL_MS: u64 = 604_800_000;
const MINUTE_MS: u64 = 60_000;
pub(crate) const YEAR_MS: u64 = 365 * 24 * 60 * MINUTE_MS;

/// A setting that is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with its value.
    pub why: String,
}

impl Settings {
    /// Rejects what is out of range.
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
            // A key accepted as new must never find an older outcome.
            return invalid("dedupe_ttl_ms", "must not be shorter than effect_ttl_ms".to_owned());
        }
        self.retry_policy.check().or_else(|why| invalid("retry_policy", why.to_owned()))
    }

    /// How long the end of a delivery is remembered.
    pub fn tombstone_ms(&self) -> u64 {
        crate::limits::TOMBSTONE_MS_MIN.max(self.dedupe_ttl_ms).max(self.retention_ms)
    }
}
