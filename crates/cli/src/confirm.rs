//! Asks before an act that cannot be undone, and records who does it.

use std::io::{self, IsTerminal as _};

use clap::Args;
use driftq_server::offline::{self, Act};
use serde_json::Value;

use crate::cli_error::CliError;
use crate::client::Client;
use crate::output;

/// The operator of an act, and the reason for it.
#[derive(Args)]
pub(crate) struct Operator {
    /// Name of the operator, recorded by the server; defaults to the name of the system user
    #[arg(long, env = "USER", hide_env_values = true)]
    by: Option<String>,
    /// Reason, recorded by the server
    #[arg(long)]
    reason: Option<String>,
}

impl Operator {
    /// The act of this operator, for a storage without a server.
    pub(crate) fn act(self) -> Act {
        offline::act_of(self.by.as_deref(), self.reason.as_deref())
    }

    /// Adds the operator to a query.
    pub(crate) fn add_to_query(self, query: &mut Vec<(&'static str, String)>) {
        query.extend(self.by.map(|by| ("by", by)));
        query.extend(self.reason.map(|reason| ("reason", reason)));
    }

    /// Adds the operator to a request body.
    pub(crate) fn add_to_body(self, request_body: &mut Value) {
        request_body["by"] = self.by.into();
        request_body["reason"] = self.reason.into();
    }
}

/// Shows what an act would do and asks whether to continue. Without a terminal there is no answer,
/// so the command must be repeated with `--yes`.
pub(crate) fn confirm(consequence: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::Usage(format!("{consequence}; repeat with --yes")).into());
    }
    output::talk(consequence);
    output::prompt("Continue? [y/N] ");
    let mut reply = String::new();
    io::stdin().read_line(&mut reply)?;
    let is_yes = matches!(reply.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    anyhow::ensure!(is_yes, "nothing was changed");
    Ok(())
}

/// Confirms a deletion. The server reports what it would delete if its `confirm` parameter is
/// missing.
pub(crate) async fn confirm_deletion(client: &Client, path: &str) -> anyhow::Result<()> {
    let Err(error) = client.delete(path, &[]).await else {
        anyhow::bail!("the server deleted {path} without confirmation");
    };
    match error.downcast_ref() {
        Some(CliError::Refused { status: 400, body }) if body["field"] == "confirm" => {
            let message = body["message"].as_str().unwrap_or_default();
            let message = message.trim_start_matches("confirm: ");
            // The rest says how to repeat the HTTP request.
            confirm(message.split("; repeat").next().unwrap_or_default())
        }
        Some(_) | None => Err(error),
    }
}
