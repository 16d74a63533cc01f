//! `driftq clock`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::Remote;
use crate::confirm::Operator;
use crate::output;

/// Confirm a forward jump of the clock
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq clock confirm")]
pub(crate) struct Clock {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Accept a forward jump of the clock by more than an hour
    ///
    /// Leases, idempotency keys and recorded results that end before the new time expire at once.
    /// If the new time is wrong, correct the clock instead. On PostgreSQL, this applies to all
    /// nodes.
    #[command(after_help = "\
Examples:
  driftq clock confirm")]
    Confirm {
        #[command(flatten)]
        operator: Operator,
    },
}

const COLUMNS: &[output::Column] = &[("ahead_ms", "ahead_ms"), ("now", "now")];

impl Clock {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let Verb::Confirm { operator } = self.verb;
        let mut request_body = json!({});
        operator.add_to_body(&mut request_body);
        let confirmed = remote.client()?.post("clock/confirm", request_body).await?;
        output::one(remote.output, &confirmed, COLUMNS);
        Ok(())
    }
}
