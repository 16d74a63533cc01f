//! `driftq ack`, `nack` and `extend`.

use clap::Args;
use serde_json::json;

use crate::client::Remote;
use crate::duration::milliseconds;
use crate::output;

/// Acknowledge a delivery
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq ack lt_aaaaaaaa")]
pub(crate) struct Ack {
    /// Lease token of the delivery (lease.token)
    token: String,
}

impl Ack {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let answer = remote.client()?.post("ack", json!({ "token": self.token })).await?;
        output::print_result(remote.output, &answer, "acked");
        Ok(())
    }
}

/// End a delivery: retry the message later, dead-letter it, or release it
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq nack lt_aaaaaaaa --reason timeout       retry after the backoff of the retry policy
  driftq nack lt_aaaaaaaa --delay-ms 1m          retry in one minute
  driftq nack lt_aaaaaaaa --dead-letter          dead-letter the message now
  driftq nack lt_aaaaaaaa --release              return the message; the attempt is not counted")]
pub(crate) struct Nack {
    /// Lease token of the delivery (lease.token)
    token: String,
    /// Error, shown as the last error of the message
    #[arg(long)]
    reason: Option<String>,
    /// Delay before the retry, at most 7d [default: backoff of the retry policy]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, allow_hyphen_values = true)]
    delay_ms: Option<u64>,
    /// Dead-letter the message now
    #[arg(long, alias = "final", conflicts_with = "delay_ms")]
    dead_letter: bool,
    /// Return the message to the group without counting a failure
    #[arg(long, conflicts_with = "dead_letter")]
    release: bool,
}

impl Nack {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let request_body = json!({
            "token": self.token, "reason": self.reason, "delay_ms": self.delay_ms,
            "dead_letter": self.dead_letter, "release": self.release,
        });
        let answer = remote.client()?.post("nack", request_body).await?;
        output::print_result(remote.output, &answer, "nacked");
        Ok(())
    }
}

/// Extend the lease of a delivery
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq extend lt_aaaaaaaa
  driftq extend lt_aaaaaaaa --lease-ms 10m       ten minutes from now")]
pub(crate) struct Extend {
    /// Lease token of the delivery (lease.token)
    token: String,
    /// New lease from now, between 250ms and 12h [default: as granted]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, allow_hyphen_values = true)]
    lease_ms: Option<u64>,
}

impl Extend {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let request_body = json!({ "token": self.token, "lease_ms": self.lease_ms });
        let answer = remote.client()?.post("extend", request_body).await?;
        let until = answer["expires_at"].as_str().unwrap_or_default().to_owned();
        output::print_result(remote.output, &answer, &format!("lease expires at {until}"));
        Ok(())
    }
}
