//! `driftq topic`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli_error::CliError;
use crate::client::{Remote, segment};
use crate::confirm::{Operator, confirm_deletion};
use crate::duration::milliseconds;
use crate::output;

/// Create, list, show, change and delete topics
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq topic create orders --partitions 3
  driftq topic create payments --set lease_ms=1m --set max_in_flight=64
  driftq topic set orders lease_ms=1m max_open=null
  driftq topic show orders
  driftq topic delete orders --yes")]
pub(crate) struct Topic {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List all topics
    #[command(after_help = "\
Examples:
  driftq topic list
  driftq topic list -o ndjson")]
    List,
    /// Show a topic and its settings
    #[command(after_help = "\
Examples:
  driftq topic show orders
  driftq topic show dlq.orders")]
    Show {
        /// Topic name
        topic: String,
    },
    /// Create a topic
    #[command(after_help = "\
Examples:
  driftq topic create orders
  driftq topic create orders --partitions 3 --set lease_ms=1m --set unkeyed=spread
  driftq topic create orders --set retry_policy.max_attempts=3")]
    Create {
        /// Topic name
        topic: String,
        /// Number of partitions, between 1 and 1024, fixed at creation
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
        partitions: u32,
        /// Setting of the topic, such as lease_ms=1m or retry_policy.max_attempts=3 (repeatable)
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
    },
    /// Change settings of a topic; null resets a setting to its default
    #[command(after_help = "\
Examples:
  driftq topic set orders lease_ms=1m max_in_flight=64
  driftq topic set orders retry_policy.max_attempts=3
  driftq topic set orders lease_ms=null")]
    Set {
        /// Topic name
        topic: String,
        /// Settings to change
        #[arg(required = true, value_name = "NAME=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        operator: Operator,
    },
    /// Delete a topic with its messages, groups and dead letters
    #[command(after_help = "\
Examples:
  driftq topic delete orders                     show what would be deleted, and ask
  driftq topic delete orders --yes --by ops --reason 'replaced by orders2'")]
    Delete {
        /// Topic name
        topic: String,
        /// Delete without asking; required if there is no terminal to ask on
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
}

/// Parses NAME=VALUE arguments. A value that is not valid JSON is a string. A dotted name is a field
/// of an object. A number of milliseconds may be written as a duration.
fn settings(given: &[String]) -> Result<Value, CliError> {
    let mut settings = Map::new();
    for one in given {
        let Some((name, value)) = one.split_once('=') else {
            return Err(CliError::Usage(format!(
                "`{one}` is not a setting; write it as NAME=VALUE"
            )));
        };
        let value = match serde_json::from_str(value) {
            Ok(value) => value,
            Err(_) if name.ends_with("_ms") => milliseconds(value)
                .map_err(|why| CliError::Usage(format!("`{one}`: the value {why}, or null")))?
                .into(),
            Err(_) => Value::from(value),
        };
        let (setting, field) = match name.split_once('.') {
            Some((setting, field)) => (setting, Some(field)),
            None => (name, None),
        };
        match (field, settings.get_mut(setting)) {
            (None, None) => settings.insert(setting.to_owned(), value),
            (Some(field), None) => settings.insert(setting.to_owned(), json!({ field: value })),
            (Some(field), Some(Value::Object(fields))) if !fields.contains_key(field) => {
                fields.insert(field.to_owned(), value)
            }
            (_, Some(_)) => {
                let message = format!("`{one}` sets `{name}` a second time");
                return Err(CliError::Usage(message));
            }
        };
    }
    Ok(Value::Object(settings))
}

const FIELDS: &[output::Column] = &[
    ("name", "name"),
    ("partitions", "partitions"),
    ("messages", "messages"),
    ("bytes", "bytes"),
    ("dead letters", "dead_letters"),
    ("groups", "groups"),
    ("created", "created_at"),
    ("changed settings", "changed_settings"),
    ("settings", "settings"),
];

impl Topic {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        match self.verb {
            Verb::List => {
                let detail = [("detail", "true".to_owned())];
                let answer = client.get_all("topics", &detail, "topics").await?;
                output::list(format, &answer, "topics", &FIELDS[..6]);
            }
            Verb::Show { topic } => {
                let answer = client.get(&format!("topics/{}", segment(&topic)), &[]).await?;
                output::one(format, &answer, FIELDS);
            }
            Verb::Create { topic, partitions, set } => {
                let mut request_body = json!({ "name": topic, "partitions": partitions });
                if !set.is_empty() {
                    request_body["settings"] = settings(&set)?;
                }
                let answer = client.post("topics", request_body).await?;
                let status = answer["status"].as_str().unwrap_or_default().to_owned();
                output::print_result(
                    format,
                    &answer,
                    &format!("{status}: {topic}, partitions: {}", answer["partitions"]),
                );
            }
            Verb::Set { topic, settings: given, operator } => {
                let mut request_body = json!({ "settings": settings(&given)? });
                operator.add_to_body(&mut request_body);
                let path = format!("topics/{}", segment(&topic));
                output::one(format, &client.patch(&path, request_body).await?, FIELDS);
            }
            Verb::Delete { topic, yes, operator } => {
                let path = format!("topics/{}", segment(&topic));
                if !yes {
                    confirm_deletion(&client, &path).await?;
                }
                let mut query = vec![("confirm", topic.clone())];
                operator.add_to_query(&mut query);
                let answer = client.delete(&path, &query).await?;
                let message = format!("deleted {topic} with {} messages", answer["messages"]);
                output::print_result(format, &answer, &message);
            }
        }
        Ok(())
    }
}
