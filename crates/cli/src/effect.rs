//! `driftq effect`.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::answer::Answer;
use crate::cli_error::CliError;
use crate::client::{Client, Remote};
use crate::confirm::confirm;
use crate::duration::duration;
use crate::output::{self, Column};

/// List, show and resolve effects
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq effect list                             effects that must be resolved by an operator
  driftq effect list --state in_doubt --scope effect/orders/biller
  driftq effect show op/charge order-77 --wait 30s
  driftq effect resolve op/charge order-77 --fence 1 --as retry --by ops --reason 'no charge there' --yes")]
pub(crate) struct Effect {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Args)]
struct Name {
    /// Scope of the effect: op/NAME or effect/TOPIC/GROUP; `show` also accepts produce/TOPIC
    scope: String,
    /// Key of the effect in its scope
    key: String,
    /// Tenant of the effect [default: default]
    #[arg(long, alias = "tenant")]
    tenant_id: Option<String>,
}

impl Name {
    fn query(self) -> Vec<(&'static str, String)> {
        let mut query = vec![("scope", self.scope), ("key", self.key)];
        query.extend(self.tenant_id.map(|tenant| ("tenant_id", tenant)));
        query
    }
}

#[derive(Subcommand)]
enum Verb {
    /// List effects without an outcome, in no particular order
    #[command(after_help = "\
Examples:
  driftq effect list                             effects that must be resolved by an operator
  driftq effect list --state in_doubt --scope op/charge
  driftq effect list --state in_progress --tenant-id acme -o ndjson")]
    List {
        /// Only effects in this state
        #[arg(long, value_parser = ["parked", "in_doubt", "in_progress"], default_value = "parked")]
        #[arg(ignore_case = true)]
        state: String,
        /// Only effects of this scope
        #[arg(long)]
        scope: Option<String>,
        /// Only effects of this tenant
        #[arg(long, alias = "tenant")]
        tenant_id: Option<String>,
        /// Effects per page, between 1 and 1000
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Cursor printed after the previous page
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show the state of an effect: its outcome, its owner, or why it is in doubt
    #[command(after_help = "\
Examples:
  driftq effect show op/charge order-77
  driftq effect show effect/orders/biller order-77 --tenant-id acme
  driftq effect show op/charge order-77 --wait 30s     wait up to 30 seconds for the outcome
  driftq effect show produce/orders order-77           receipt of a message by its idempotency key")]
    Show {
        #[command(flatten)]
        name: Name,
        /// Maximum time to wait for the outcome, such as 500ms, 30s or 5m [default: do not wait]
        #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
        wait: Option<Duration>,
    },
    /// Resolve an effect that is in doubt
    #[command(after_help = "\
Examples:
  driftq effect resolve op/charge order-77 --fence 1 --as succeeded --result '{\"charge\":\"ch_1\"}' --by ops --reason 'found ch_1'
  driftq effect resolve op/charge order-77 --fence 1 --as failed --error declined --by ops --reason 'told by phone'
  driftq effect resolve effect/orders/biller order-77 --fence 2 --as retry --by ops --reason 'no charge there'")]
    Resolve {
        #[command(flatten)]
        name: Name,
        /// Fence in doubt, as shown by `driftq effect show`
        #[arg(long)]
        fence: u64,
        /// Outcome; retry: the effect did not happen and may run again
        #[arg(long = "as", value_parser = ["succeeded", "failed", "retry"])]
        resolve_as: String,
        /// Result to replay to workers; not with retry
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
        /// Error of the effect; not with succeeded
        #[arg(long, value_name = "TEXT")]
        error: Option<String>,
        /// Name of the operator
        #[arg(long)]
        by: String,
        /// Evidence for the outcome
        #[arg(long)]
        reason: String,
        /// Resolve without asking; required if there is no terminal to ask on
        #[arg(long)]
        yes: bool,
    },
}

/// The body of a resolve request. The result is sent exactly as it was typed.
#[derive(Serialize)]
struct Resolution {
    scope: String,
    key: String,
    tenant_id: Option<String>,
    fence: u64,
    #[serde(rename = "as")]
    resolve_as: String,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    by: String,
    reason: String,
}

const COLUMNS: &[Column] = &[
    ("scope", "scope"),
    ("key", "key"),
    ("tenant", "tenant_id"),
    ("fence", "fence"),
    ("owner", "owner"),
    ("began", "began_at"),
    ("held until", "expires_at"),
    ("in doubt since", "doubt.since"),
    ("because", "doubt.cause"),
    ("message", "message.id"),
];

const FIELDS: &[Column] = &[
    ("scope", "scope"),
    ("key", "key"),
    ("tenant", "tenant_id"),
    ("state", "state"),
    ("fence", "fence"),
    ("owner", "owner"),
    ("code", "code"),
    ("result", "result"),
    ("result in base64", "result_base64"),
    ("error", "error"),
    ("on doubt", "on_doubt"),
    ("in doubt since", "doubt.since"),
    ("in doubt because", "doubt.cause"),
    ("in doubt of", "doubt.owner"),
    ("resolved as", "resolution.as"),
    ("resolved by", "resolution.by"),
    ("resolved because", "resolution.reason"),
    ("resolved at", "resolution.at"),
    ("began", "began_at"),
    ("changed", "updated_at"),
    ("held until", "expires_at"),
    ("kept until", "replay_until"),
    ("downstream key", "downstream_key"),
    ("downstream until", "downstream_until"),
    ("message", "message.id"),
];

impl Effect {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        match self.verb {
            Verb::List { state, scope, tenant_id, limit, cursor } => {
                let mut query =
                    vec![("state", state.to_ascii_uppercase()), ("limit", limit.to_string())];
                let narrow = [("scope", scope), ("tenant_id", tenant_id), ("cursor", cursor)];
                query.extend(narrow.into_iter().filter_map(|(name, value)| Some((name, value?))));
                let answer = client.get("effects", &query).await?;
                output::list(format, &answer, "effects", COLUMNS);
            }
            Verb::Show { name, wait } => {
                let answer =
                    wait_for_outcome(&client, name.query(), wait.unwrap_or_default()).await?;
                // Tables show the result as the worker wrote it, not as a list of fields.
                let answer = match answer.field("result").map(Value::from) {
                    Some(result) => answer.in_tables("result", result),
                    None => answer,
                };
                output::one(format, &answer, FIELDS);
            }
            Verb::Resolve { name, fence, resolve_as, result, error, by, reason, yes } => {
                let not_json =
                    |error| CliError::Usage(format!("--result must be valid JSON: {error}"));
                let result = result.map(RawValue::from_string).transpose().map_err(not_json)?;
                if !yes {
                    let effect = client.get("effects", &name.clone().query()).await?;
                    confirm(&resolve_consequence(&effect, &resolve_as))?;
                }
                let Name { scope, key, tenant_id } = name;
                let request_body = Resolution {
                    scope,
                    key,
                    tenant_id,
                    fence,
                    resolve_as,
                    result,
                    error,
                    by,
                    reason,
                };
                let answer = client.post("effects/resolve", request_body).await?;
                let state = answer["state"].as_str().unwrap_or_default();
                output::print_result(format, &answer, &format!("resolved: {state}"));
            }
        }
        Ok(())
    }
}

/// Describes an effect, and what its resolution means.
fn resolve_consequence(effect: &Value, resolve_as: &str) -> String {
    let show = |path: &str| output::text(effect.pointer(path).unwrap_or(&Value::Null));
    let (scope, key, tenant) = (show("/scope"), show("/key"), show("/tenant_id"));
    let (state, fence) = (show("/state"), show("/fence"));
    let (since, owner) = if effect["doubt"].is_null() {
        (show("/updated_at"), show("/owner"))
    } else {
        (show("/doubt/since"), show("/doubt/owner"))
    };
    let consequence = match resolve_as {
        "succeeded" => "record it as happened: it would never be executed again",
        "failed" => "record it as failed for good: it would never be executed again",
        _ => "let the next worker execute it again",
    };
    format!(
        "effect {scope} {key} of tenant {tenant} is {state} since {since}, at fence {fence} of {owner}; \
         resolving it as {resolve_as} would {consequence}"
    )
}

/// Maximum wait of one call.
const CALL_MAX: Duration = Duration::from_secs(60);

/// Returns the effect when it has an outcome, or its current state after `wait`. Also waits for an
/// effect that has not begun yet.
async fn wait_for_outcome(
    client: &Client,
    query: Vec<(&'static str, String)>,
    wait: Duration,
) -> anyhow::Result<Answer> {
    let until = Instant::now() + wait;
    let progress = (!wait.is_zero()).then(|| output::spinner("waiting"));
    let answer = loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut query = query.clone();
        if !left.is_zero() {
            query.push(("wait_ms", left.min(CALL_MAX).as_millis().to_string()));
        }
        let answer = client.get("effects", &query).await;
        let is_open = match &answer {
            Ok(effect) => !matches!(effect["state"].as_str(), Some("SUCCEEDED" | "FAILED_FINAL")),
            Err(error) => {
                matches!(error.downcast_ref(), Some(CliError::Refused { status: 404, .. }))
            }
        };
        if !is_open || left <= CALL_MAX {
            break answer;
        }
    };
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    answer
}
