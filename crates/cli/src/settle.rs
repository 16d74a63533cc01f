//! `driftq ack`, `nack`, `extend`.

use clap::Args;
use serde_json::json;

use crate::client::Remote;
use crate::output;

/// Done: settle a delivery
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq ack lt_aaaaaaaa")]
pub(crate) struct Ack {
    /// lease.token of the delivery
    token: String,
}

impl Ack {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let answer = remote.client()?.post("ack", json!({ "token": self.token })).await?;
        output::said(remote.output, &answer, "acked");
        Ok(())
    }
}

/// Not done: deliver again later, or never
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq nack lt_aaaaaaaa --reason timeout       again after the backoff of its policy
  driftq nack lt_aaaaaaaa --delay-ms 60000       again in a minute
  driftq nack lt_aaaaaaaa --dead-letter          a dead letter now
  driftq nack lt_aaaaaaaa --release              for somebody else, not counted")]
pub(crate) struct Nack {
    /// lease.token of the delivery
    token: String,
    /// Why
    #[arg(long)]
    reason: Option<String>,
    /// Not before so many milliseconds
    #[arg(long)]
    delay_ms: Option<u64>,
    /// Make it a dead letter now
    #[arg(long, alias = "final", conflicts_with = "delay_ms")]
    dead_letter: bool,
    /// Nothing failed: somebody else should take it
    #[arg(long, conflicts_with = "dead_letter")]
    release: bool,
}

impl Nack {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let asked = json!({
            "token": self.token, "reason": self.reason, "delay_ms": self.delay_ms,
            "dead_letter": self.dead_letter, "release": self.release,
        });
        let answer = remote.client()?.post("nack", asked).await?;
        output::said(remote.output, &answer, "nacked");
        Ok(())
    }
}

/// More time for a delivery
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq extend lt_aaaaaaaa
  driftq extend lt_aaaaaaaa --lease-ms 600000    ten minutes from now")]
pub(crate) struct Extend {
    /// lease.token of the delivery
    token: String,
    /// From now; as granted if not given
    #[arg(long)]
    lease_ms: Option<u64>,
}

impl Extend {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let asked = json!({ "token": self.token, "lease_ms": self.lease_ms });
        let answer = remote.client()?.post("extend", asked).await?;
        let until = answer["expires_at"].as_str().unwrap_or_default().to_owned();
        output::said(remote.output, &answer, &format!("yours until {until}"));
        Ok(())
    }
}
