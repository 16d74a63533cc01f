//! `driftq topic`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::{Remote, segment};
use crate::failure::Failure;
use crate::output;

/// Make, show, change and delete topics
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq topic create orders --partitions 3
  driftq topic create payments --set lease_ms=60000 --set max_in_flight=64
  driftq topic set orders lease_ms=60000 max_open=null
  driftq topic show orders
  driftq topic delete orders --yes")]
pub(crate) struct Topic {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// All topics
    #[command(after_help = "\
Examples:
  driftq topic list
  driftq topic list -o ndjson")]
    List,
    /// One topic, with its settings
    #[command(after_help = "\
Examples:
  driftq topic show orders
  driftq topic show dlq.orders")]
    Show {
        /// Its name
        topic: String,
    },
    /// Make a topic
    #[command(after_help = "\
Examples:
  driftq topic create orders
  driftq topic create orders --partitions 3 --set lease_ms=60000 --set unkeyed=spread")]
    Create {
        /// Its name
        topic: String,
        /// Its partitions, for ever
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
        partitions: u32,
        /// A setting, as NAME=VALUE
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
    },
    /// Change settings; null puts one back to its default
    #[command(after_help = "\
Examples:
  driftq topic set orders lease_ms=60000 max_in_flight=64
  driftq topic set orders lease_ms=null")]
    Set {
        /// Its name
        topic: String,
        /// Settings, as NAME=VALUE
        #[arg(required = true, value_name = "NAME=VALUE")]
        settings: Vec<String>,
    },
    /// Delete a topic with everything in it
    #[command(after_help = "\
Examples:
  driftq topic delete orders                     say what would go
  driftq topic delete orders --yes")]
    Delete {
        /// Its name
        topic: String,
        /// Do it; without this, only say what would go
        #[arg(long)]
        yes: bool,
    },
}

/// NAME=VALUE, where the value is JSON if it can be and text if not.
fn settings(given: &[String]) -> Result<Value, Failure> {
    let mut settings = Map::new();
    for one in given {
        let Some((name, value)) = one.split_once('=') else {
            return Err(Failure::Usage(format!("`{one}`: write it as NAME=VALUE")));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        settings.insert(name.to_owned(), value);
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
                let mut asked = json!({ "name": topic, "partitions": partitions });
                if !set.is_empty() {
                    asked["settings"] = settings(&set)?;
                }
                let answer = client.post("topics", asked).await?;
                let status = answer["status"].as_str().unwrap_or_default().to_owned();
                output::said(
                    format,
                    &answer,
                    &format!("{status}: {topic}, partitions: {}", answer["partitions"]),
                );
            }
            Verb::Set { topic, settings: given } => {
                let asked = json!({ "settings": settings(&given)? });
                let path = format!("topics/{}", segment(&topic));
                output::one(format, &client.patch(&path, asked).await?, FIELDS);
            }
            Verb::Delete { topic, yes } => {
                let confirm = if yes { vec![("confirm", topic.clone())] } else { Vec::new() };
                let path = format!("topics/{}", segment(&topic));
                let answer = client.delete(&path, &confirm).await.map_err(say_yes)?;
                let message = format!("deleted {topic} with {} messages", answer["messages"]);
                output::said(format, &answer, &message);
            }
        }
        Ok(())
    }
}

/// The server asks for its own word; here it is `--yes`.
pub(crate) fn say_yes(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(Failure::Refused { status: 400, body }) if body["field"] == "confirm" => {
            let message =
                body["message"].as_str().unwrap_or_default().trim_start_matches("confirm: ");
            let message = message.split("; repeat").next().unwrap_or_default();
            Failure::Usage(format!("{message}; repeat with --yes")).into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}
