//! `driftq route`: shows what the router of a server decides.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::Remote;
use crate::message::Produce;
use crate::output;

/// Test where messages go
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq route test orders 'pay 12' --key eu-9")]
pub(crate) struct Route {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show what the router decides about a message; nothing is stored
    #[command(after_help = "\
Examples:
  driftq route test orders 'pay 12' --key eu-9
  driftq route test orders @order.json --label region=eu")]
    Test(Produce),
}

impl Route {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let Verb::Test(message) = self.verb;
        let answer = remote.client()?.post("route/test", message.body()?).await?;
        output::print_result(remote.output, &answer, &text(&answer));
        Ok(())
    }
}

fn text(answer: &Value) -> String {
    let routing = &answer["routing"];
    let mut parts =
        vec![format!("stored in {}", answer["final_topic"].as_str().unwrap_or_default())];
    match (answer["router"].as_str(), &answer["error"]) {
        (Some("none"), _) => parts.push("the server has no router".to_owned()),
        (_, Value::String(error)) => parts.push(error.clone()),
        _ if routing.is_null() => parts.push("the router chose nothing".to_owned()),
        _ => {
            let shown = [("partition", "partition_override"), ("label", "label"), ("meta", "meta")];
            let shown = shown.map(|(name, field)| (name, &routing[field]));
            let given = shown.into_iter().filter(|(_, value)| !value.is_null() && *value != "");
            parts.extend(given.map(|(name, value)| format!("{name} {value}")));
        }
    }
    parts.join("; ")
}
