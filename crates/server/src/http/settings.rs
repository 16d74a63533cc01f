//! Conversions between settings of the wire and settings of the core.

use driftq_api::number::{
    BacklogLimit, BackoffMs, DedupeTtlMs, DlqRetentionMs, EffectTtlMs, GroupIdleMs, LeaseMs,
    MaxAttempts, MaxInFlight, MaxOpen, RetentionBytes, RetentionMs,
};
use driftq_api::settings::{self as wire, Patch, RetryPolicyPatch, TopicRetryPolicy};
use driftq_api::words;
use driftq_core::{
    AutoCreateGroups, RetryPolicy, RetryRequest, SettingName, Settings, SettingsChange,
};

use super::words::{ToCore, ToWire};

/// A setting of the wire that has a value in the core.
trait Setting<Core> {
    fn to_core(self) -> Core;
    fn of_core(core: &Core) -> Self;
}

macro_rules! numbers {
    ($($wire:ident: $core:ty),*) => {$(
        impl Setting<$core> for $wire {
            fn to_core(self) -> $core {
                self.get()
            }

            fn of_core(core: &$core) -> $wire {
                $wire::stored(*core)
            }
        }
    )*};
}

numbers! {
    LeaseMs: u64, MaxInFlight: u32, MaxOpen: u32, BacklogLimit: u64, RetentionMs: u64, RetentionBytes: u64,
    DlqRetentionMs: u64, DedupeTtlMs: u64, EffectTtlMs: u64, GroupIdleMs: u64, BackoffMs: u64, MaxAttempts: i32
}

macro_rules! words {
    ($($wire:ident: $core:ident),*) => {$(
        impl Setting<driftq_core::$core> for words::$wire {
            fn to_core(self) -> driftq_core::$core {
                self.core()
            }

            fn of_core(core: &driftq_core::$core) -> words::$wire {
                core.wire()
            }
        }
    )*};
}

words! { DedupeCompare: DedupeCompare, OnDoubt: OnDoubt, Unkeyed: Unkeyed }

impl Setting<bool> for bool {
    fn to_core(self) -> bool {
        self
    }

    fn of_core(core: &bool) -> bool {
        *core
    }
}

impl Setting<AutoCreateGroups> for bool {
    fn to_core(self) -> AutoCreateGroups {
        AutoCreateGroups(self)
    }

    fn of_core(core: &AutoCreateGroups) -> bool {
        core.0
    }
}

impl<Wire: Setting<Core>, Core> Setting<Option<Core>> for Option<Wire> {
    fn to_core(self) -> Option<Core> {
        self.map(Wire::to_core)
    }

    fn of_core(core: &Option<Core>) -> Option<Wire> {
        core.as_ref().map(Wire::of_core)
    }
}

/// The retry policy of a topic in a response.
fn wire_retry(core: &RetryPolicy) -> TopicRetryPolicy {
    TopicRetryPolicy {
        max_attempts: Setting::of_core(&core.max_attempts),
        backoff_ms: Setting::of_core(&core.backoff_ms),
        max_backoff_ms: Setting::of_core(&core.max_backoff_ms),
    }
}

/// Adds the retry policy of a request to `change`.
fn change_retry(patch: Patch<RetryPolicyPatch>, change: &mut SettingsChange) {
    let RetryPolicyPatch { max_attempts, backoff_ms, max_backoff_ms } = match patch {
        Patch::Keep => return,
        Patch::Reset => return change.reset.extend(SettingName::of("retry_policy")),
        Patch::Set(policy) => policy,
    };
    if let (Some(max_attempts), Some(backoff_ms), Some(max_backoff_ms)) =
        (max_attempts, backoff_ms, max_backoff_ms)
    {
        change.set.retry_policy = Some(RetryPolicy {
            max_attempts: max_attempts.get(),
            backoff_ms: backoff_ms.get(),
            max_backoff_ms: max_backoff_ms.get(),
        });
    } else if max_attempts.is_some() || backoff_ms.is_some() || max_backoff_ms.is_some() {
        change.retry_policy = Some(RetryRequest {
            max_attempts: max_attempts.map_or(0, MaxAttempts::get),
            backoff_ms: backoff_ms.map(BackoffMs::get),
            max_backoff_ms: max_backoff_ms.map(BackoffMs::get),
        });
    }
}

macro_rules! settings {
    (values { $($value:ident),* } nullable { $($nullable:ident),* }) => {
        /// The settings of a topic in a response.
        pub(super) fn wire(settings: &Settings) -> wire::Settings {
            wire::Settings {
                $($value: Setting::of_core(&settings.$value),)*
                $($nullable: Setting::of_core(&settings.$nullable),)*
                retry_policy: wire_retry(&settings.retry_policy),
            }
        }

        /// The settings that a request changes.
        pub(super) fn change(patch: wire::SettingsPatch) -> SettingsChange {
            let mut change = SettingsChange::default();
            $(match patch.$value {
                Patch::Keep => {}
                Patch::Reset => change.reset.extend(SettingName::of(stringify!($value))),
                Patch::Set(value) => change.set.$value = Some(value.to_core()),
            })*
            $(match patch.$nullable {
                Patch::Keep => {}
                Patch::Reset => change.reset.extend(SettingName::of(stringify!($nullable))),
                Patch::Set(value) => change.set.$nullable = Some(Some(value.to_core())),
            })*
            change_retry(patch.retry_policy, &mut change);
            change
        }
    };
}

settings! {
    values {
        lease_ms, max_in_flight, max_open, max_backlog_messages, max_backlog_bytes, retention_ms,
        retention_bytes, dedupe_ttl_ms, dedupe_compare, effect_ttl_ms, unkeyed, require_token, auto_create_groups, history
    }
    nullable { dlq_retention_ms, on_doubt, group_idle_ms }
}

/// What a topic has in place of the requested settings, such as `lease_ms 30000, not 5000`.
pub(super) fn differences(stored: &Settings, requested: &Settings) -> Vec<String> {
    let json = |settings: &Settings| {
        serde_json::to_value(wire(settings)).expect("settings serialize to JSON")
    };
    let (stored, requested) = (json(stored), json(requested));
    let stored = stored.as_object().into_iter().flatten();
    let differing = stored.filter(|(name, value)| requested[*name] != **value);
    differing.map(|(name, value)| format!("{name} {value}, not {}", requested[name])).collect()
}
