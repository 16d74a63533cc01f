//! `driftq explain`: why is it where it is?

use clap::Args;
use serde_json::Value;

use crate::client::Remote;
use crate::failure::Failure;
use crate::output;

/// Why a message is where it is, or why nothing comes
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq explain orders biller                   why does the group get nothing?
  driftq explain m_aaaacaaa                      a message by its id
  driftq explain orders/0/12                     by topic, partition and offset
  driftq explain lt_aaaaaaaa                     by the token of a delivery")]
pub(crate) struct Explain {
    /// An id, a token, TOPIC/PARTITION/OFFSET, or the topic of GROUP
    what: String,
    /// A group of the topic
    group: Option<String>,
}

impl Explain {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let answer = remote.client()?.get("explain", &self.query()?).await?;
        let says = if answer["what"] == "group" { of_group(&answer) } else { of_message(&answer) };
        output::said(remote.output, &answer, &says);
        Ok(())
    }

    fn query(self) -> Result<Vec<(&'static str, String)>, Failure> {
        if let Some(group) = self.group {
            return Ok(vec![("topic", self.what), ("group", group)]);
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
        Err(Failure::Usage(format!(
            "`{what}` names no message: write m_..., lt_... or TOPIC/PARTITION/OFFSET; or ask about a group: driftq explain {what} GROUP"
        )))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn of_group(answer: &Value) -> String {
    format!("{}/{}: {}", text(&answer["topic"]), text(&answer["group"]), text(&answer["says"]))
}

fn of_message(answer: &Value) -> String {
    let place = format!("{}/{}/{}", text(&answer["topic"]), answer["partition"], answer["offset"]);
    let produced = answer["produced_at"].as_str();
    let produced = produced.map_or_else(String::new, |at| format!(", produced at {at}"));
    let mut lines = vec![format!("{} at {place}{produced}", text(&answer["id"]))];
    let groups = answer["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    for group in groups {
        lines.push(format!("{}: {}", text(&group["group"]), text(&group["says"])));
        if let Some(error) = group["last_error"].as_str().filter(|error| !error.is_empty()) {
            lines.push(format!("  last error: {error}"));
        }
        if let Some(id) = group["dead_letter"].as_str() {
            lines.push(format!("  dead letter: {id}"));
        }
    }
    if groups.is_empty() {
        lines.push("no group reads it".to_owned());
    }
    lines.join("\n")
}
