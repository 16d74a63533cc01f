//! `driftq dlq`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli_error::{CliError, refused};
use crate::client::{Client, Remote, segment};
use crate::confirm::confirm;
use crate::duration::time_ago;
use crate::output::{self, Column, Format};

/// List, show, count, redrive and purge dead letters
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq dlq list orders --group biller
  driftq dlq show orders m_aaaacaaa
  driftq dlq summary orders
  driftq dlq redrive orders m_aaaacaaa --by ops --comment 'fixed in 41f3'
  driftq dlq redrive orders --error timeout --dry-run
  driftq dlq purge orders --until 2026-11-01T00:00:00Z --yes --by ops --comment old")]
pub(crate) struct Dlq {
    #[command(subcommand)]
    verb: Verb,
}

/// Selects dead letters.
#[derive(Args)]
struct Filter {
    /// Only messages of this group
    #[arg(long)]
    group: Option<String>,
    /// Only messages that died for this reason
    #[arg(long, value_parser = ["exhausted", "rejected", "deadline", "undeliverable"])]
    reason: Option<String>,
    /// Only messages whose last error starts with ERROR
    #[arg(long)]
    error: Option<String>,
    /// Only messages of this tenant
    #[arg(long)]
    tenant_id: Option<String>,
    /// Only messages of this run
    #[arg(long)]
    run_id: Option<String>,
    /// Only messages that died at or after TIME, such as 2026-11-14T12:00:00Z, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = time_ago)]
    since: Option<String>,
    /// Only messages that died before TIME, or before an age such as 30d; purge requires it
    #[arg(long, value_name = "TIME", value_parser = time_ago)]
    until: Option<String>,
}

impl Filter {
    fn given(self) -> Vec<(&'static str, String)> {
        let all = [
            ("group", self.group),
            ("reason", self.reason),
            ("error", self.error),
            ("tenant_id", self.tenant_id),
            ("run_id", self.run_id),
            ("since", self.since),
            ("until", self.until),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn json(self) -> Value {
        let given = self.given().into_iter();
        Value::Object(
            given.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
        )
    }
}

#[derive(Subcommand)]
enum Verb {
    /// List the dead letters of a topic, newest first
    #[command(after_help = "\
Examples:
  driftq dlq list orders
  driftq dlq list orders --group biller --error timeout --limit 100
  driftq dlq list orders --state redriven -o ndjson")]
    List {
        /// Topic whose dead letters to list
        topic: String,
        #[command(flatten)]
        filter: Filter,
        /// Only dead letters in this state
        #[arg(long, value_parser = ["dead", "redriven", "all"], default_value = "dead")]
        #[arg(ignore_case = true)]
        state: String,
        /// Dead letters per page, between 1 and 1000
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Cursor printed after the previous page
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a dead letter in full: its key and value, why it died, and who handled it
    #[command(after_help = "\
Examples:
  driftq dlq show orders m_aaaacaaa
  driftq dlq show orders m_aaaacaaa -o json")]
    Show {
        /// Topic that the message was produced to
        topic: String,
        /// Id of the dead letter, or of the message before it died
        id: String,
    },
    /// Count the dead letters of a topic, in all and by error
    #[command(after_help = "\
Examples:
  driftq dlq summary orders
  driftq dlq summary orders --since 2h           of the last two hours
  driftq dlq summary orders --since 2026-11-14T00:00:00Z")]
    Summary {
        /// Topic whose dead letters to count
        topic: String,
        #[command(flatten)]
        filter: Filter,
    },
    /// Send dead letters back to the group they failed in
    #[command(after_help = "\
Examples:
  driftq dlq redrive orders m_aaaacaaa --by ops --comment 'fixed in 41f3'
  driftq dlq redrive orders --error timeout --dry-run
  driftq dlq redrive orders --group biller --error timeout
  driftq dlq redrive orders                      show how many there are, and ask
  driftq dlq redrive orders m_aaaacaaa --force   even if the records of its effects have expired")]
    Redrive {
        /// Topic whose dead letters to redrive
        topic: String,
        /// Ids of the dead letters, or of the messages before they died, at most 1000; without ids, all
        /// that match the filter
        #[arg(conflicts_with_all = ["group", "reason", "error", "tenant_id", "run_id", "since", "until"])]
        ids: Vec<String>,
        #[command(flatten)]
        filter: Filter,
        /// Show how many dead letters would be redriven
        #[arg(long)]
        dry_run: bool,
        /// Also redrive messages whose effect records may have expired; their effects may run again
        #[arg(long)]
        force: bool,
        /// Redrive all without asking; without ids and filter, required if there is no terminal to
        /// ask on
        #[arg(long)]
        yes: bool,
        /// Name of the operator, kept with the dead letter and written to the server log; defaults
        /// to the name of the system user
        #[arg(long, env = "USER", hide_env_values = true)]
        by: Option<String>,
        /// Reason, kept with the dead letter and written to the server log
        #[arg(long)]
        comment: Option<String>,
    },
    /// Delete dead letters permanently
    #[command(after_help = "\
Examples:
  driftq dlq purge orders --until 2026-11-01T00:00:00Z                  show how many would be deleted, and ask
  driftq dlq purge orders --until 2026-11-01T00:00:00Z --yes --by ops --comment old")]
    Purge {
        /// Topic whose dead letters to delete
        topic: String,
        #[command(flatten)]
        filter: Filter,
        /// Delete without asking; required if there is no terminal to ask on
        #[arg(long)]
        yes: bool,
        /// Name of the operator, for the server log; defaults to the name of the system user
        #[arg(long, env = "USER", hide_env_values = true)]
        by: Option<String>,
        /// Reason, for the server log
        #[arg(long)]
        comment: Option<String>,
    },
}

const FIELDS: &[Column] = &[
    ("id", "id"),
    ("state", "state"),
    ("key", "key"),
    ("value", "value"),
    ("value in base64", "value_base64"),
    ("group", "dlq.group"),
    ("reason", "dlq.reason"),
    ("last error", "dlq.last_error"),
    ("attempts", "dlq.attempts"),
    ("last owner", "dlq.last_owner"),
    ("produced", "dlq.produced_at"),
    ("first delivered", "dlq.first_delivered_at"),
    ("dead since", "dlq.dead_at"),
    ("message", "dlq.origin.id"),
    ("topic", "dlq.origin.topic"),
    ("partition", "dlq.origin.partition"),
    ("offset", "dlq.origin.offset"),
    ("tenant", "dlq.tenant_id"),
    ("idempotency key", "dlq.idempotency_key"),
    ("run", "envelope.run_id"),
    ("step", "envelope.step_id"),
    ("labels", "envelope.labels"),
    ("headers", "envelope.headers"),
    ("redriven by", "redriven.by"),
    ("redriven because", "redriven.reason"),
    ("redriven at", "redriven.at"),
    ("redriven as", "redriven.new.id"),
];

impl Dlq {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        match self.verb {
            Verb::List { topic, filter, state, limit, cursor } => {
                let mut query = filter.given();
                query.push(("state", state.to_ascii_lowercase()));
                query.extend(cursor.map(|cursor| ("cursor", cursor)));
                query.push(("limit", limit.to_string()));
                let answer = client.get(&format!("dlq/{}", segment(&topic)), &query).await?;
                let columns = [
                    ("id", "id"),
                    ("key", "key"),
                    ("group", "dlq.group"),
                    ("reason", "dlq.reason"),
                    ("attempts", "dlq.attempts"),
                    ("last error", "dlq.last_error"),
                    ("dead since", "dlq.dead_at"),
                    ("state", "state"),
                ];
                output::list(format, &answer, "dead_letters", &columns);
            }
            Verb::Show { topic, id } => {
                let path = format!("dlq/{}/{}", segment(&topic), segment(&id));
                output::one(format, &client.get(&path, &[]).await?, FIELDS);
            }
            Verb::Summary { topic, filter } => {
                let mut query = filter.given();
                query.extend([("summary", "true".to_owned()), ("limit", "1".to_owned())]);
                let answer = client.get(&format!("dlq/{}", segment(&topic)), &query).await?;
                // The cursor belongs to the list, which the summary does not show.
                let answer = answer.in_tables("next_cursor", Value::Null);
                output::list(
                    format,
                    &answer,
                    "by_error",
                    &[("count", "count"), ("error", "error")],
                );
                if format == Format::Table {
                    output::line(format_args!("dead letters: {}", answer["total"]));
                }
            }
            Verb::Redrive { topic, ids, filter, dry_run, force, yes, by, comment } => {
                let path = format!("dlq/{}/redrive", segment(&topic));
                let mut request_body = json!({ "dry_run": dry_run, "force": force, "by": by,
                    "reason": comment });
                if ids.is_empty() {
                    request_body["filter"] = filter.json();
                } else {
                    request_body["ids"] = ids.into();
                }
                if request_body["filter"] == json!({}) && !dry_run && !yes {
                    confirm_redrive_of_all(&client, &topic, &path, &request_body).await?;
                }
                redrive(&client, format, &path, &request_body).await?;
            }
            Verb::Purge { topic, filter, yes, by, comment } => {
                let path = format!("dlq/{}/purge", segment(&topic));
                let mut request_body =
                    json!({ "filter": filter.json(), "by": by, "reason": comment });
                let Err(error) = client.post(&path, request_body.clone()).await else {
                    anyhow::bail!("the server purged dead letters without confirmation");
                };
                let matched = match error.downcast_ref::<CliError>() {
                    Some(CliError::Refused { body, .. }) if !body["matched"].is_null() => {
                        body["matched"].clone()
                    }
                    Some(_) | None => return Err(error),
                };
                if !yes {
                    confirm(&format!("{matched} dead letters would be deleted"))?;
                }
                request_body["confirm"] = matched;
                let answer = client.post(&path, request_body).await?;
                output::print_result(format, &answer, &format!("purged {}", answer["purged"]));
            }
        }
        Ok(())
    }
}

/// Maximum number of dead letters that one call redrives by filter.
const CALL_MAX: usize = 1_000;

/// Maximum number of messages that a reason names.
const SHOWN_MAX: usize = 5;

/// Asks before all dead letters of a topic are redriven, unless there are none.
async fn confirm_redrive_of_all(
    client: &Client,
    topic: &str,
    path: &str,
    request_body: &Value,
) -> anyhow::Result<()> {
    let mut request_body = request_body.clone();
    request_body["dry_run"] = true.into();
    let answer = client.post(path, request_body).await?;
    let matched = answer["matched"].as_u64().unwrap_or_default();
    if matched == 0 {
        return Ok(());
    }
    let at_least = if matched == CALL_MAX as u64 { "at least " } else { "" };
    confirm(&format!(
        "redriving all dead letters of \"{topic}\" would deliver {at_least}{matched} messages again"
    ))
}

/// Redrives by id in one call. By filter, repeats the call until it redrives nothing. Rejected
/// messages stay dead letters.
async fn redrive(
    client: &Client,
    format: Format,
    path: &str,
    request_body: &Value,
) -> anyhow::Result<()> {
    let progress = output::spinner("redriving");
    let (mut redriven, mut results) = (0, Vec::new());
    let mut answer = loop {
        let mut answer = client.post(path, request_body.clone()).await?.into_value();
        let now = answer["redriven"].as_u64().unwrap_or(0);
        redriven += now;
        let is_last = request_body["filter"].is_null() || now == 0;
        if let Value::Array(items) = answer["results"].take() {
            // Only the last call's rejections are kept, because it rejects the earlier ones again.
            results.extend(items.into_iter().filter(|item| is_last || item["error"].is_null()));
        }
        if is_last {
            break answer;
        }
        progress.set_message(format!("redriven: {redriven}"));
    };
    progress.finish_and_clear();
    let matched = results.len();
    let message = match request_body["dry_run"].as_bool() {
        Some(true) if matched == CALL_MAX => {
            format!("would redrive at least {matched}; count them with: driftq dlq summary")
        }
        Some(true) => format!("would redrive {matched}"),
        Some(false) | None if redriven == 0 => {
            format!("redriven: 0{}", why_nothing(request_body, &results))
        }
        Some(false) | None => format!("redriven: {redriven}"),
    };
    answer["matched"] = matched.into();
    answer["redriven"] = redriven.into();
    answer["results"] = results.into();
    output::print_result(format, &answer, &message);
    refused(&answer)
}

/// Returns why a redrive moved nothing. Rejected messages are reported as errors.
fn why_nothing(request_body: &Value, results: &[Value]) -> String {
    let already = results.iter().filter(|one| one["status"] == "already");
    let already = already.map(|one| {
        let [id, new] = [&one["id"], &one["new"]["id"]].map(output::text);
        format!("{id} was already redriven as {new}")
    });
    let already: Vec<String> = already.take(SHOWN_MAX).collect();
    if !already.is_empty() {
        return format!("; {}", already.join("; "));
    }
    match &request_body["filter"] {
        _ if !results.is_empty() => String::new(),
        Value::Object(filter) if filter.is_empty() => {
            "; the topic has no dead letters that were not redriven".to_owned()
        }
        _ => "; no dead letter matches the filter, or they were redriven before".to_owned(),
    }
}
