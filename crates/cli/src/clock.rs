//! `driftq clock`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::client::Remote;
use crate::output;

/// Confirm a forward jump of the clock that the server does not follow
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
    /// Follow a forward jump of more than an hour: the new time is right
    ///
    /// Everything that would have expired by the new time expires at once: leases, idempotency keys, recorded results.
    /// If the new time is wrong, set the clock right instead. On PostgreSQL all nodes follow.
    #[command(after_help = "\
Examples:
  driftq clock confirm")]
    Confirm,
}

const COLUMNS: &[output::Column] = &[("ahead_ms", "ahead_ms"), ("now", "now")];

impl Clock {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let Verb::Confirm = self.verb;
        let confirmed = remote.client()?.post("clock/confirm", json!({})).await?;
        output::one(remote.output, &confirmed, COLUMNS);
        Ok(())
    }
}
