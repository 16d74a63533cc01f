//! `driftq version`.

use clap::Args;
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::client::Remote;
use crate::output;

/// The commit of this build, if the build set `DRIFTQ_COMMIT`.
pub(crate) const COMMIT: &str = match option_env!("DRIFTQ_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Show the versions of the client and the server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq version
  driftq version --url http://127.0.0.1:9000 -o json")]
pub(crate) struct Version {}

impl Version {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let request_body = remote.client()?.get("version", &[]).await;
        let server = match request_body {
            Ok(server) => server.into_value(),
            // The client's version is shown also when no server is reachable.
            Err(error) if matches!(error.downcast_ref(), Some(CliError::Unreachable(_))) => {
                Value::Null
            }
            Err(error) => return Err(error),
        };
        let client = json!({ "version": env!("CARGO_PKG_VERSION"), "commit": COMMIT });
        let answer = json!({ "client": client, "server": server });
        output::one(remote.output, &answer, FIELDS);
        if server.is_null() {
            output::talk(format_args!("no server at {}", remote.url));
        }
        Ok(())
    }
}

const FIELDS: &[output::Column] = &[
    ("client", "client.version"),
    ("client commit", "client.commit"),
    ("server", "server.version"),
    ("server commit", "server.commit"),
    ("engine", "server.engine"),
    ("durability", "server.durability"),
    ("started", "server.started_at"),
];
