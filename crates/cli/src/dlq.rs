//! `driftq dlq`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::{Client, Remote, segment};
use crate::failure::{Failure, refused};
use crate::output::{self, Format};

/// Dead letters: list, count, give back, throw away
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq dlq list orders --group biller
  driftq dlq summary orders
  driftq dlq redrive orders m_aaaacaaa --by ops --comment 'fixed in 41f3'
  driftq dlq redrive orders --error timeout --dry-run
  driftq dlq purge orders --until 2026-11-01T00:00:00Z --by ops --comment old")]
pub(crate) struct Dlq {
    #[command(subcommand)]
    verb: Verb,
}

/// Which dead letters.
#[derive(Args)]
struct Filter {
    /// Of this group
    #[arg(long)]
    group: Option<String>,
    /// That died of this
    #[arg(long, value_parser = ["exhausted", "rejected", "deadline", "undeliverable"])]
    reason: Option<String>,
    /// Whose last error begins so
    #[arg(long)]
    error: Option<String>,
    /// Of this tenant
    #[arg(long)]
    tenant_id: Option<String>,
    /// Of this run
    #[arg(long)]
    run_id: Option<String>,
    /// Dead since then, as 2026-11-14T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Dead before then
    #[arg(long, value_name = "TIME")]
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

#[derive(Args)]
struct Who {
    /// Who does it, for the audit log
    #[arg(long)]
    by: Option<String>,
    /// Why, for the audit log
    #[arg(long)]
    comment: Option<String>,
}

#[derive(Subcommand)]
enum Verb {
    /// Dead letters of a topic, newest first
    #[command(after_help = "\
Examples:
  driftq dlq list orders
  driftq dlq list orders --group biller --error timeout --limit 100
  driftq dlq list orders --state redriven -o ndjson")]
    List {
        /// The topic they died in
        topic: String,
        #[command(flatten)]
        filter: Filter,
        /// Which of them
        #[arg(long, value_parser = ["dead", "redriven", "all"], default_value = "dead")]
        #[arg(ignore_case = true)]
        state: String,
        /// How many
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Where the page before ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// How many there are, and of what
    #[command(after_help = "\
Examples:
  driftq dlq summary orders
  driftq dlq summary orders --since 2026-11-14T00:00:00Z")]
    Summary {
        /// The topic they died in
        topic: String,
        #[command(flatten)]
        filter: Filter,
    },
    /// Give dead letters back to the group they died in
    #[command(after_help = "\
Examples:
  driftq dlq redrive orders m_aaaacaaa --by ops --comment 'fixed in 41f3'
  driftq dlq redrive orders --error timeout --dry-run
  driftq dlq redrive orders --group biller --error timeout
  driftq dlq redrive orders m_aaaacaaa --force   though its effects may be forgotten")]
    Redrive {
        /// The topic they died in
        topic: String,
        /// Which, by id; without any, all that the filter means
        #[arg(conflicts_with_all = ["group", "reason", "error", "tenant_id", "run_id", "since", "until"])]
        ids: Vec<String>,
        #[command(flatten)]
        filter: Filter,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
        /// Those too whose effects may be forgotten by now, and would happen again
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        who: Who,
    },
    /// Throw dead letters away, for good
    #[command(after_help = "\
Examples:
  driftq dlq purge orders --until 2026-11-01T00:00:00Z                  say how many
  driftq dlq purge orders --until 2026-11-01T00:00:00Z --yes --by ops --comment old")]
    Purge {
        /// The topic they died in
        topic: String,
        #[command(flatten)]
        filter: Filter,
        /// Do it; without this, only say how many
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        who: Who,
    },
}

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
                    ("group", "dlq.group"),
                    ("reason", "dlq.reason"),
                    ("attempts", "dlq.attempts"),
                    ("last error", "dlq.last_error"),
                    ("dead since", "dlq.dead_at"),
                    ("state", "state"),
                ];
                output::list(format, &answer, "dead_letters", &columns);
            }
            Verb::Summary { topic, filter } => {
                let mut query = filter.given();
                query.extend([("summary", "true".to_owned()), ("limit", "1".to_owned())]);
                let answer = client.get(&format!("dlq/{}", segment(&topic)), &query).await?;
                // It is of a list that a summary does not show.
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
            Verb::Redrive { topic, ids, filter, dry_run, force, who } => {
                let path = format!("dlq/{}/redrive", segment(&topic));
                let mut asked = json!({ "dry_run": dry_run, "force": force, "by": who.by,
                    "reason": who.comment });
                if ids.is_empty() {
                    asked["filter"] = filter.json();
                } else {
                    asked["ids"] = ids.into();
                }
                redrive(&client, format, &path, &asked).await?;
            }
            Verb::Purge { topic, filter, yes, who } => {
                let path = format!("dlq/{}/purge", segment(&topic));
                let mut asked =
                    json!({ "filter": filter.json(), "by": who.by, "reason": who.comment });
                let Err(error) = client.post(&path, asked.clone()).await else {
                    anyhow::bail!("the server purged without being asked to confirm");
                };
                let matched = match error.downcast_ref::<Failure>() {
                    Some(Failure::Refused { body, .. }) if !body["matched"].is_null() => {
                        body["matched"].clone()
                    }
                    Some(_) | None => return Err(error),
                };
                if !yes {
                    let message = format!("{matched} would be gone for good; repeat with --yes");
                    return Err(Failure::Usage(message).into());
                }
                asked["confirm"] = matched;
                let answer = client.post(&path, asked).await?;
                output::said(format, &answer, &format!("purged {}", answer["purged"]));
            }
        }
        Ok(())
    }
}

/// Dead letters that one call redrives by filter.
const CALL_MAX: usize = 1_000;

/// By filter: again and again, while it gets on. What was refused stays a dead letter.
async fn redrive(client: &Client, format: Format, path: &str, asked: &Value) -> anyhow::Result<()> {
    let progress = output::spinner("redriving");
    let (mut redriven, mut results) = (0, Vec::new());
    let mut answer = loop {
        let mut answer = client.post(path, asked.clone()).await?.into_value();
        let now = answer["redriven"].as_u64().unwrap_or(0);
        redriven += now;
        let is_last = asked["filter"].is_null() || now == 0;
        if let Value::Array(items) = answer["results"].take() {
            // What is refused now is refused again by the last call.
            results.extend(items.into_iter().filter(|item| is_last || item["error"].is_null()));
        }
        if is_last {
            break answer;
        }
        progress.set_message(format!("redriven: {redriven}"));
    };
    progress.finish_and_clear();
    let matched = results.len();
    let message = match asked["dry_run"].as_bool() {
        Some(true) if matched == CALL_MAX => {
            format!("would redrive {matched} or more; `driftq dlq summary` counts them")
        }
        Some(true) => format!("would redrive {matched}"),
        Some(false) | None => format!("redriven: {redriven}"),
    };
    answer["matched"] = matched.into();
    answer["redriven"] = redriven.into();
    answer["results"] = results.into();
    output::said(format, &answer, &message);
    refused(&answer)
}
