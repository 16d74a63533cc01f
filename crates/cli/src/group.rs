//! `driftq group`.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use driftq_api::Time;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::cli_error::CliError;
use crate::client::{Remote, segment};
use crate::output;
use crate::topic::ask_for_yes;

/// Create, list, show, pause, resume, seek and delete groups
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq group show orders biller
  driftq group pause orders biller --reason 'bad deploy 41f2' --by ops
  driftq group seek orders biller earliest --dry-run
  driftq group seek orders biller 0:900
  driftq group resume orders biller")]
pub(crate) struct Group {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Args)]
struct Name {
    /// Topic that the group reads
    topic: String,
    /// Group name
    group: String,
}

impl Name {
    fn path(&self) -> String {
        format!("topics/{}/groups/{}", segment(&self.topic), segment(&self.group))
    }
}

#[derive(Subcommand)]
enum Verb {
    /// List the groups of a topic
    #[command(after_help = "\
Examples:
  driftq group list orders")]
    List {
        /// Topic name
        topic: String,
    },
    /// Show the position of a group and what blocks its deliveries
    #[command(after_help = "\
Examples:
  driftq group show orders biller
  driftq explain orders biller                   summary in one sentence")]
    Show(Name),
    /// Create a group
    #[command(after_help = "\
Examples:
  driftq group create orders biller              start at the oldest stored message
  driftq group create orders biller --start latest")]
    Create {
        #[command(flatten)]
        name: Name,
        /// Position to start at
        #[arg(long, default_value = "earliest", value_parser = ["earliest", "latest"])]
        start: String,
    },
    /// Pause a group: stop all deliveries to it
    #[command(after_help = "\
Examples:
  driftq group pause orders biller --reason 'bad deploy 41f2' --by ops
  driftq group pause orders biller --until 2026-11-14T12:00:00Z")]
    Pause {
        #[command(flatten)]
        name: Name,
        /// Reason for the pause
        #[arg(long)]
        reason: Option<String>,
        /// Name of the operator
        #[arg(long)]
        by: Option<String>,
        /// End of the pause, such as 2026-11-14T12:00:00Z [default: until `resume`]
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Resume deliveries to a paused group
    #[command(after_help = "\
Examples:
  driftq group resume orders biller")]
    Resume(Name),
    /// Move a group to another position; it must be paused or have no consumer
    #[command(after_help = "\
Examples:
  driftq group seek orders biller earliest --dry-run
  driftq group seek orders biller 2026-11-14T12:00:00Z
  driftq group seek orders biller 0:900          partition 0 to offset 900")]
    Seek {
        #[command(flatten)]
        name: Name,
        /// Position: earliest, latest, a time, or PARTITION:OFFSET
        to: String,
        /// Show how many messages would be redelivered and skipped, and how many open messages
        /// would lose their state (leases, attempts)
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete a group
    #[command(after_help = "\
Examples:
  driftq group delete orders biller              show what would be deleted
  driftq group delete orders biller --yes")]
    Delete {
        #[command(flatten)]
        name: Name,
        /// Delete the group; without this option, only show what would be deleted
        #[arg(long)]
        yes: bool,
    },
}

const FIELDS: &[output::Column] = &[
    ("group", "group"),
    ("backlog", "backlog"),
    ("leased", "leased"),
    ("waiting", "waiting"),
    ("oldest unsettled", "oldest_unsettled_at"),
    ("paused since", "paused.since"),
    ("paused by", "paused.by"),
    ("paused because", "paused.reason"),
];

fn show(format: output::Format, answer: &Answer) {
    output::one(format, answer, FIELDS);
    if format == output::Format::Table {
        let columns = [
            ("partition", "partition"),
            ("next to deliver", "next_to_deliver"),
            ("settled through", "settled_through"),
            ("backlog", "backlog"),
            ("leased", "leased"),
            ("waiting", "waiting"),
            ("oldest unsettled", "oldest_unsettled_at"),
            ("blocked", "blocked"),
        ];
        output::line("");
        output::list(format, answer, "partitions", &columns);
        if answer["consumers"].as_array().is_some_and(|consumers| !consumers.is_empty()) {
            let columns = [
                ("consumer", "owner"),
                ("leased", "leased"),
                ("next expiry", "next_expiry_at"),
                ("settled 1m", "settled_1m"),
                ("failed 1m", "failed_1m"),
                ("expired 1m", "expired_1m"),
                ("hold p50 ms", "hold_p50_ms"),
                ("hold p95 ms", "hold_p95_ms"),
                ("last seen", "last_seen_at"),
            ];
            output::line("");
            output::list(format, answer, "consumers", &columns);
        }
    }
}

impl Group {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        match self.verb {
            Verb::List { topic } => {
                let path = format!("topics/{}/groups", segment(&topic));
                let answer = client.get_all(&path, &[], "groups").await?;
                output::list(format, &answer, "groups", FIELDS);
            }
            Verb::Show(name) => show(format, &client.get(&name.path(), &[]).await?),
            Verb::Create { name, start } => {
                show(format, &client.put(&name.path(), json!({ "start": start })).await?);
            }
            Verb::Pause { name, reason, by, until } => {
                if let Some(until) = &until {
                    check_is_to_come(until)?;
                }
                let request_body = json!({ "reason": reason, "by": by, "until": until });
                show(format, &client.post(&format!("{}/pause", name.path()), request_body).await?);
            }
            Verb::Resume(name) => {
                show(format, &client.post(&format!("{}/resume", name.path()), json!({})).await?);
            }
            Verb::Seek { name, to, dry_run } => {
                let request_body = json!({ "to": seek_to(&to)?, "dry_run": dry_run });
                let answer = client.post(&format!("{}/seek", name.path()), request_body).await?;
                let would = if dry_run { "dry run" } else { "moved" };
                let message = format!(
                    "{would}: {} messages to redeliver, {} skipped, {} open dropped",
                    answer["redelivers"], answer["skips"], answer["dropped_open"]
                );
                output::print_result(format, &answer, &message);
            }
            Verb::Delete { name, yes } => {
                let confirm = if yes { vec![("confirm", name.group.clone())] } else { Vec::new() };
                let answer = client.delete(&name.path(), &confirm).await.map_err(ask_for_yes)?;
                output::print_result(format, &answer, &format!("deleted {}", name.group));
            }
        }
        Ok(())
    }
}

/// Rejects a time in the past, because such a pause would have no effect. The server rejects texts
/// that are not a time.
fn check_is_to_come(until: &str) -> Result<(), CliError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match until.parse::<Time>() {
        Ok(Time(ms)) if u128::from(ms) <= now.as_millis() => {
            let message = "is in the past; use a later time, or omit it to pause until `resume`";
            Err(CliError::Usage(format!("--until {until} {message}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn seek_to(to: &str) -> Result<Value, CliError> {
    if to == "earliest" || to == "latest" {
        return Ok(Value::from(to));
    }
    if to.contains('T') {
        return Ok(json!({ "time": to }));
    }
    let place = || {
        let (partition, offset) = to.split_once(':')?;
        Some((partition.parse::<u32>().ok()?, offset.parse::<u64>().ok()?))
    };
    let Some((partition, offset)) = place() else {
        let message = "use earliest, latest, a time as 2026-11-14T12:00:00Z, or PARTITION:OFFSET";
        return Err(CliError::Usage(format!("`{to}` is not a position; {message}")));
    };
    Ok(json!({ "partition": partition, "offset": offset }))
}
