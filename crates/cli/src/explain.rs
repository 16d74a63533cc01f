//! `driftq explain`: the state of a message, group or effect, and the reason.

use std::borrow::Cow;

use clap::Args;
use serde_json::Value;

use crate::cli_error::CliError;
use crate::client::Remote;
use crate::escape::escaped;
use crate::output;

/// Explain the state of a message or effect, or why a group receives nothing
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq explain orders biller                   why the group receives nothing
  driftq explain m_aaaacaaa                      a message or dead letter by id
  driftq explain orders/0/12                     a message by topic, partition and offset
  driftq explain lt_aaaaaaaa                     a message by lease token
  driftq explain op/charge order-77              an effect by scope and key")]
pub(crate) struct Explain {
    /// Id of a message or dead letter, lease token, TOPIC/PARTITION/OFFSET, topic of the group, or scope of the effect
    what: String,
    /// Group of the topic, or key of the effect
    #[arg(value_name = "GROUP|KEY")]
    name: Option<String>,
    /// Tenant of the effect [default: default]
    #[arg(long, requires = "name", alias = "tenant")]
    tenant_id: Option<String>,
}

impl Explain {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let answer = remote.client()?.get("explain", &self.query()?).await?;
        let message = match &*text(&answer["what"]) {
            "group" => of_group(&answer),
            "effect" => of_effect(&answer),
            _ => of_message(&answer),
        };
        let clock = text(&answer["clock"]["summary"]);
        let message = if clock.is_empty() { message } else { format!("{message}\n{clock}") };
        output::print_result(remote.output, &answer, &message);
        Ok(())
    }

    fn query(self) -> Result<Vec<(&'static str, String)>, CliError> {
        if let Some(name) = self.name {
            // A scope always contains a slash, a topic name never does.
            let mut query = if self.what.contains('/') {
                vec![("scope", self.what), ("key", name)]
            } else {
                vec![("topic", self.what), ("group", name)]
            };
            query.extend(self.tenant_id.map(|tenant| ("tenant_id", tenant)));
            return Ok(query);
        }
        if let [topic, partition, offset] = self.what.split('/').collect::<Vec<_>>()[..] {
            let named = [("topic", topic), ("partition", partition), ("offset", offset)];
            return Ok(named.map(|(name, value)| (name, value.to_owned())).to_vec());
        }
        if self.what.starts_with("m_") {
            return Ok(vec![("id", self.what)]);
        }
        if self.what.starts_with("lt_") {
            return Ok(vec![("token", self.what)]);
        }
        let what = &self.what;
        let or = if what.contains('/') {
            format!("an effect: driftq explain {what} KEY")
        } else {
            format!("a group: driftq explain {what} GROUP")
        };
        Err(CliError::Usage(format!(
            "`{what}` is not a message: use m_..., lt_... or TOPIC/PARTITION/OFFSET. To explain {or}"
        )))
    }
}

/// Escapes a text of another user into one line, so that it cannot imitate a line of this output.
fn text(value: &Value) -> Cow<'_, str> {
    escaped(value.as_str().unwrap_or_default())
}

fn of_group(answer: &Value) -> String {
    format!("{}/{}: {}", text(&answer["topic"]), text(&answer["group"]), text(&answer["summary"]))
}

fn of_effect(answer: &Value) -> String {
    let effect = &answer["effect"];
    let (scope, key) = (text(&effect["scope"]), text(&effect["key"]));
    format!("{scope} {key} {}: {}", text(&effect["state"]), text(&answer["summary"]))
}

fn of_message(answer: &Value) -> String {
    let place = format!("{}/{}/{}", text(&answer["topic"]), answer["partition"], answer["offset"]);
    let produced = answer["produced_at"].as_str();
    let produced = produced.map_or_else(String::new, |at| format!(", produced at {at}"));
    let mut lines = vec![format!("{} at {place}{produced}", text(&answer["id"]))];
    let died = text(&answer["summary"]);
    if !died.is_empty() {
        let origin = text(&answer["dlq"]["origin"]["id"]);
        lines.push(format!("{died}; it was message {origin}"));
    }
    let groups = answer["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    for group in groups {
        lines.push(format!("{}: {}", text(&group["group"]), text(&group["summary"])));
        let error = text(&group["last_error"]);
        if !error.is_empty() {
            lines.push(format!("  last error: {error}"));
        }
        for effect in group["effects"].as_array().into_iter().flatten() {
            let (key, state) = (text(&effect["key"]), text(&effect["state"]));
            lines.push(format!("  effect {key}: {state}, fence {}", effect["fence"]));
        }
        if let Some(id) = group["dead_letter"].as_str() {
            lines.push(format!("  dead letter: {id}"));
        }
    }
    if groups.is_empty() && died.is_empty() {
        lines.push("no group reads this topic".to_owned());
    }
    for event in answer["history"].as_array().into_iter().flatten() {
        let [at, group, what] = ["at", "group", "event"].map(|field| text(&event[field]));
        let also = |field: &str, before: &str| match text(&event[field]) {
            print_result if print_result.is_empty() => String::new(),
            print_result => format!("{before}{print_result}"),
        };
        let (owner, error) = (also("owner", " to "), also("error", ": "));
        lines.push(format!("  {at} {group} {what}, attempt {}{owner}{error}", event["attempt"]));
    }
    lines.join("\n")
}
