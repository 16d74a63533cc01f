//! `driftq dlq`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::{Remote, segment};
use crate::failure::Failure;
use crate::output;

/// Dead letters: list, count, give back, throw away
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq dlq list orders --group biller
  driftq dlq summary orders
  driftq dlq redrive orders m_aaaacaaa --by ops --reason 'fixed in 41f3'
  driftq dlq redrive orders --error timeout --dry-run
  driftq dlq purge orders --until 2026-11-01T00:00:00Z --by ops --reason old")]
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
    /// exhausted, final, deadline or undeliverable
    #[arg(long)]
    why: Option<String>,
    /// Whose last error begins so
    #[arg(long)]
    error: Option<String>,
    /// Of this tenant
    #[arg(long)]
    tenant_id: Option<String>,
    /// Of this run
    #[arg(long)]
    run_id: Option<String>,
    /// Dead since then
    #[arg(long)]
    since: Option<String>,
    /// Dead before then
    #[arg(long)]
    until: Option<String>,
}

impl Filter {
    fn given(self) -> Vec<(&'static str, String)> {
        let all = [
            ("group", self.group),
            ("reason", self.why),
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
    /// Who does it
    #[arg(long)]
    by: Option<String>,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Subcommand)]
enum Verb {
    /// Dead letters of a topic, newest first
    List {
        /// The topic they died in
        topic: String,
        #[command(flatten)]
        filter: Filter,
        /// dead, redriven or all
        #[arg(long)]
        state: Option<String>,
        /// How many
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Where the page before ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// How many there are, and of what
    Summary {
        /// The topic they died in
        topic: String,
        #[command(flatten)]
        filter: Filter,
    },
    /// Give dead letters back to the group they died in
    Redrive {
        /// The topic they died in
        topic: String,
        /// Which; without any, all that the filter means
        ids: Vec<String>,
        #[command(flatten)]
        filter: Filter,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        who: Who,
    },
    /// Throw dead letters away, for good
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
                query.extend(state.map(|state| ("state", state)));
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
                let mut answer = client.get(&format!("dlq/{}", segment(&topic)), &query).await?;
                answer["next_cursor"] = Value::Null;
                output::list(
                    format,
                    &answer,
                    "by_error",
                    &[("count", "count"), ("error", "error")],
                );
                if format == output::Format::Table {
                    println!("{} dead letters", answer["total"]);
                }
            }
            Verb::Redrive { topic, ids, filter, dry_run, who } => {
                let path = format!("dlq/{}/redrive", segment(&topic));
                let mut asked = json!({ "dry_run": dry_run, "by": who.by, "reason": who.reason });
                if ids.is_empty() {
                    asked["filter"] = filter.json();
                } else {
                    asked["ids"] = ids.into();
                }
                let mut done = 0;
                loop {
                    let answer = client.post(&path, asked.clone()).await?;
                    let redriven = answer["redriven"].as_u64().unwrap_or(0);
                    done += redriven;
                    // By filter a call takes 1 000 at most: again, while it gets on.
                    if asked["filter"].is_null() || dry_run || redriven == 0 {
                        let verb = if dry_run { "would redrive" } else { "redriven:" };
                        let count =
                            if dry_run { answer["matched"].as_u64().unwrap_or(0) } else { done };
                        output::said(format, &answer, &format!("{verb} {count}"));
                        return Ok(());
                    }
                    eprintln!("redriven so far: {done}");
                }
            }
            Verb::Purge { topic, filter, yes, who } => {
                let path = format!("dlq/{}/purge", segment(&topic));
                let mut asked =
                    json!({ "filter": filter.json(), "by": who.by, "reason": who.reason });
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
                    anyhow::bail!("{matched} would be gone for good; repeat with --yes");
                }
                asked["confirm"] = matched;
                let answer = client.post(&path, asked).await?;
                output::said(format, &answer, &format!("purged {}", answer["purged"]));
            }
        }
        Ok(())
    }
}
