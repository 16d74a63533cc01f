//! Changes topic settings under load: every setting, within values that still let a run drain.

use driftq_checker::history::Op;
use driftq_core::command::PatchTopic;
use driftq_core::{
    AutoCreateGroups, Command, OnDoubt, RetryPolicy, SettingName, SettingsChange, SettingsPatch,
    Unkeyed,
};

use crate::admin::topic_name;
use crate::world::{Task, World};

/// Settings that are sometimes reset to their defaults. The defaults of the others are too long for
/// a run.
const RESET: [&str; 8] = [
    "on_doubt",
    "unkeyed",
    "require_token",
    "auto_create_groups",
    "history",
    "dlq_retention_ms",
    "max_in_flight",
    "max_backlog_messages",
];

impl World {
    pub(crate) fn patch_something(&mut self, client: usize) {
        let topic = self.some_plan().into();
        let (setting, settings) = self.some_change();
        let patch = PatchTopic { name: topic_name(&topic), settings };
        let command = Command::PatchTopic(Box::new(patch));
        self.begin(client, Task::Patch(setting), Op::Patch { topic }, command);
    }

    fn some_change(&mut self) -> (&'static str, SettingsChange) {
        if self.rng.u32(0..5) == 0 {
            let name = RESET[self.rng.usize(0..RESET.len())];
            let reset = vec![SettingName::of(name).expect("RESET lists settings")];
            let change = SettingsChange { reset, ..SettingsChange::default() };
            return ("patch: setting reset", change);
        }
        let mut set = SettingsPatch::default();
        let setting = match self.rng.u32(0..9) {
            0..4 => self.some_limit(&mut set),
            4..7 => self.some_time(&mut set),
            _ => self.some_choice(&mut set),
        };
        (setting, SettingsChange { set, ..SettingsChange::default() })
    }

    fn some_limit(&mut self, set: &mut SettingsPatch) -> &'static str {
        let rng = &mut self.rng;
        match rng.u32(0..6) {
            0 => {
                set.max_in_flight = Some(rng.u32(2..12));
                "patch: max_in_flight"
            }
            1 => {
                set.max_open = Some(rng.u32(12..40));
                "patch: max_open"
            }
            2 => {
                set.max_backlog_messages = Some(rng.u64(250..1_000));
                "patch: max_backlog_messages"
            }
            3 => {
                set.max_backlog_bytes = Some(rng.u64(20_000..100_000));
                "patch: max_backlog_bytes"
            }
            4 => {
                set.retention_bytes = Some(rng.u64(0..4_000));
                "patch: retention_bytes"
            }
            _ => {
                set.retry_policy = Some(RetryPolicy {
                    max_attempts: rng.i32(2..6),
                    backoff_ms: rng.u64(50..400),
                    max_backoff_ms: rng.u64(1_000..6_000),
                });
                "patch: retry_policy"
            }
        }
    }

    fn some_time(&mut self, set: &mut SettingsPatch) -> &'static str {
        let rng = &mut self.rng;
        match rng.u32(0..6) {
            0 => {
                set.lease_ms = Some(rng.u64(1_500..6_000));
                "patch: lease_ms"
            }
            1 => {
                set.retention_ms = Some(rng.u64(0..60_000));
                "patch: retention_ms"
            }
            2 => {
                set.dlq_retention_ms = Some((rng.u32(0..4) != 0).then(|| rng.u64(60_000..90_000)));
                "patch: dlq_retention_ms"
            }
            3 => {
                set.dedupe_ttl_ms = Some(rng.u64(60_000..75_000));
                "patch: dedupe_ttl_ms"
            }
            4 => {
                set.effect_ttl_ms = Some(60_000);
                "patch: effect_ttl_ms"
            }
            _ => {
                set.group_idle_ms = Some(Some(rng.u64(60_000..80_000)));
                "patch: group_idle_ms"
            }
        }
    }

    fn some_choice(&mut self, set: &mut SettingsPatch) -> &'static str {
        let rng = &mut self.rng;
        match rng.u32(0..5) {
            0 => {
                set.on_doubt = Some(rng.bool().then_some(OnDoubt::Park));
                "patch: on_doubt"
            }
            1 => {
                let is_first = rng.bool();
                set.unkeyed = Some(if is_first { Unkeyed::First } else { Unkeyed::Spread });
                "patch: unkeyed"
            }
            2 => {
                set.require_token = Some(rng.bool());
                "patch: require_token"
            }
            3 => {
                let is_open = rng.u32(0..3) != 0;
                set.auto_create_groups = Some(AutoCreateGroups(is_open));
                "patch: auto_create_groups"
            }
            _ => {
                set.history = Some(rng.bool());
                "patch: history"
            }
        }
    }
}
