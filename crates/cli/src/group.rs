//! `driftq group`.

use clap::{Args, Subcommand};
use driftq_api::Time;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::cli_error::CliError;
use crate::client::{Remote, segment};
use crate::confirm::{Operator, confirm, confirm_deletion};
use crate::duration::{now_ms, time_ago, time_from_now};
use crate::output;

/// Create, list, show, pause, resume, seek and delete groups
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq group show orders biller
  driftq group pause orders biller --reason 'bad deploy 41f2' --by ops
  driftq group seek orders biller earliest --dry-run
  driftq group seek orders biller 0:900 --yes --reason 'handled by hand'
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
    /// List the groups of a topic, or of all topics
    #[command(after_help = "\
Examples:
  driftq group list                              the groups of all topics
  driftq group list orders")]
    List {
        /// Topic name; without it, the groups of all topics are listed
        topic: Option<String>,
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
  driftq group pause orders biller --until 30m   for 30 minutes
  driftq group pause orders biller --until 2026-11-14T12:00:00Z")]
    Pause {
        #[command(flatten)]
        name: Name,
        /// Reason for the pause
        #[arg(long)]
        reason: Option<String>,
        /// Name of the operator; defaults to the name of the system user
        #[arg(long, env = "USER", hide_env_values = true)]
        by: Option<String>,
        /// End of the pause, such as 2026-11-14T12:00:00Z, or 30m for 30 minutes from now [default:
        /// until `resume`]
        #[arg(long, value_name = "TIME", value_parser = time_from_now)]
        until: Option<String>,
    },
    /// Resume deliveries to a paused group
    #[command(after_help = "\
Examples:
  driftq group resume orders biller")]
    Resume {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        operator: Operator,
    },
    /// Move a group to another position; it must be paused or have no consumer
    #[command(after_help = "\
Examples:
  driftq group seek orders biller earliest --dry-run
  driftq group seek orders biller 2h             to the first message of the last two hours
  driftq group seek orders biller 2026-11-14T12:00:00Z --reason 'lost by the old biller'
  driftq group seek orders biller 0:900 --yes    partition 0 to offset 900, without asking")]
    Seek {
        #[command(flatten)]
        name: Name,
        /// Position: earliest, latest, a time, an age such as 2h, or PARTITION:OFFSET
        to: String,
        /// Show how many messages would be redelivered and skipped, and how many open messages
        /// would lose their state (leases, attempts)
        #[arg(long)]
        dry_run: bool,
        /// Move the group without asking; required if messages would be redelivered, skipped or
        /// lose their state and there is no terminal to ask on
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// Delete a group
    #[command(after_help = "\
Examples:
  driftq group delete orders biller              show what would be deleted, and ask
  driftq group delete orders biller --yes --by ops --reason 'replaced by biller2'")]
    Delete {
        #[command(flatten)]
        name: Name,
        /// Delete without asking; required if there is no terminal to ask on
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
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
            Verb::List { topic: None } => {
                let sorted = [("sort", "name".to_owned())];
                let answer = client.get_all("groups", &sorted, "groups").await?;
                let columns = [&[("topic", "topic")], FIELDS].concat();
                output::list(format, &answer, "groups", &columns);
            }
            Verb::List { topic: Some(topic) } => {
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
            Verb::Resume { name, operator } => {
                let mut request_body = json!({});
                operator.add_to_body(&mut request_body);
                show(format, &client.post(&format!("{}/resume", name.path()), request_body).await?);
            }
            Verb::Seek { name, to, dry_run, yes, operator } => {
                let path = format!("{}/seek", name.path());
                let mut request_body = json!({ "to": seek_to(&to)?, "dry_run": true });
                if !dry_run && !yes {
                    let would = client.post(&path, request_body.clone()).await?;
                    if changes_deliveries(&would) {
                        confirm(&seek_consequence(&name, &to, &would))?;
                    }
                }
                request_body["dry_run"] = dry_run.into();
                operator.add_to_body(&mut request_body);
                let answer = client.post(&path, request_body).await?;
                let would = if dry_run { "dry run" } else { "moved" };
                let message = format!(
                    "{would}: {} messages to redeliver, {} skipped, {} open dropped",
                    answer["redelivers"], answer["skips"], answer["dropped_open"]
                );
                output::print_result(format, &answer, &message);
            }
            Verb::Delete { name, yes, operator } => {
                if !yes {
                    confirm_deletion(&client, &name.path()).await?;
                }
                let mut query = vec![("confirm", name.group.clone())];
                operator.add_to_query(&mut query);
                let answer = client.delete(&name.path(), &query).await?;
                output::print_result(format, &answer, &format!("deleted {}", name.group));
            }
        }
        Ok(())
    }
}

/// Rejects a time in the past, because such a pause would have no effect. The server rejects texts
/// that are not a time.
fn check_is_to_come(until: &str) -> Result<(), CliError> {
    match until.parse::<Time>() {
        Ok(Time(ms)) if ms <= now_ms() => {
            let message = "is in the past; use a later time, or omit it to pause until `resume`";
            Err(CliError::Usage(format!("--until {until} {message}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a seek skips or redelivers messages, or discards the state of open ones.
fn changes_deliveries(would: &Value) -> bool {
    ["skips", "redelivers", "dropped_open"].iter().any(|count| would[*count] != 0)
}

fn seek_consequence(name: &Name, to: &str, would: &Value) -> String {
    let Name { topic, group } = name;
    let (skips, redelivers, open) = (&would["skips"], &would["redelivers"], &would["dropped_open"]);
    format!(
        "seeking group \"{group}\" of \"{topic}\" to {to} would skip {skips} messages, redeliver \
         {redelivers}, and discard the leases and attempts of {open} open messages"
    )
}

fn seek_to(to: &str) -> Result<Value, CliError> {
    if to == "earliest" || to == "latest" {
        return Ok(Value::from(to));
    }
    if let Ok(time) = time_ago(to) {
        return Ok(json!({ "time": time }));
    }
    let place = || {
        let (partition, offset) = to.split_once(':')?;
        Some((partition.parse::<u32>().ok()?, offset.parse::<u64>().ok()?))
    };
    let Some((partition, offset)) = place() else {
        let message = "use earliest, latest, a time such as 2026-11-14T12:00:00Z, an age such as 2h, or \
                       PARTITION:OFFSET";
        return Err(CliError::Usage(format!("`{to}` is not a position; {message}")));
    };
    Ok(json!({ "partition": partition, "offset": offset }))
}
