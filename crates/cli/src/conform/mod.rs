//! `driftq conform`: runs a worker against the failures that workers meet in production.
//!
//! 1. Each check has a server of its own, in this process, and places one fault at an exact request.
//! 2. The verdict comes from the server and from the provider's list of charges, not from the worker.
//! 3. If the worker does not use the ledger, the other checks are not run: there is nothing to hold.

mod checks;
mod gate;
mod http;
mod provider;
mod proxy;
mod report;
mod stage;
mod worker;

use std::net::SocketAddr;

use clap::Args;

use self::checks::Check;
use self::provider::Provider;
use self::proxy::Proxy;
use self::report::{Report, Verdict};
use self::stage::{Bench, End, GROUP, Stage, TOPIC};
use crate::cli_error::CliError;
use crate::output::{self, Format};

/// Check that a worker charges once, whatever fails
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq conform -- python3 worker.py
  driftq conform --check crash-after-effect --check redrive -- ./worker
  driftq conform --attach --listen 127.0.0.1:8080 --provider-listen 127.0.0.1:9090

The worker receives orders such as {\"id\":\"order-1\",\"cents\":1200} from DRIFTQ_TOPIC
as group DRIFTQ_GROUP of the server at DRIFTQ_URL. It POSTs each order to PROVIDER_URL/charges,
once, as an effect of the ledger, with the downstream key as Idempotency-Key. Then it acks.")]
pub(crate) struct Conform {
    /// Only this check (repeatable)
    #[arg(long = "check", value_name = "NAME", value_enum)]
    checks: Vec<Check>,
    /// Check a worker that is already running, and that reconnects; checks that must kill or start
    /// it are not run
    #[arg(long, requires_all = ["listen", "provider_listen"], conflicts_with = "command")]
    attach: bool,
    /// Loopback address of the server that the worker uses [default: any free port]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Loopback address of the provider [default: any free port]
    #[arg(long, value_name = "IP:PORT")]
    provider_listen: Option<SocketAddr>,
    /// Command that starts the worker; it must pass SIGTERM on to the worker
    #[arg(last = true, required_unless_present = "attach")]
    command: Vec<String>,
}

impl Conform {
    pub(crate) async fn run(self, format: Format) -> anyhow::Result<()> {
        let bench = Bench {
            proxy: Proxy::start(loopback("--listen", self.listen)?).await?,
            provider: Provider::start(loopback("--provider-listen", self.provider_listen)?).await?,
            command: (!self.attach).then_some(self.command),
        };
        if self.attach {
            let (url, provider) = (&bench.proxy.url, &bench.provider.url);
            output::talk(format_args!(
                "waiting for a worker with DRIFTQ_URL={url} PROVIDER_URL={provider} \
                 DRIFTQ_TOPIC={TOPIC} DRIFTQ_GROUP={GROUP}"
            ));
        }
        let all = <Check as clap::ValueEnum>::value_variants();
        let is_chosen = |check: &&Check| self.checks.is_empty() || self.checks.contains(check);
        let mut report = Report::new(format);
        let mut uses_ledger = true;
        for check in all.iter().copied().filter(|check| is_chosen(&check)) {
            let verdict = if check.needs_command() && self.attach {
                Verdict::NotRun("it has to kill and start workers".to_owned())
            } else if !uses_ledger {
                Verdict::NotRun("the check ledger failed".to_owned())
            } else {
                run(&bench, check).await?
            };
            uses_ledger &= check != Check::Ledger || matches!(verdict, Verdict::Held);
            report.add(check, verdict);
        }
        report.end()
    }
}

async fn run(bench: &Bench, check: Check) -> anyhow::Result<Verdict> {
    let mut stage = Stage::open(bench, check.settings()).await?;
    let ended = tokio::select! {
        ended = check.run(&mut stage) => ended,
        interrupted = crate::serve::wait_for_stop_signal() => {
            interrupted?;
            Err(End::Broken(anyhow::anyhow!("interrupted")))
        }
    };
    let lines = stage.output.lines();
    stage.close().await?;
    match ended {
        Ok(()) => Ok(Verdict::Held),
        Err(End::Failed(observed)) => Ok(Verdict::Failed { observed, lines }),
        Err(End::NotRun(why)) => Ok(Verdict::NotRun(why)),
        Err(End::Broken(error)) => Err(error.context(format!("check {}", check.name()))),
    }
}

/// Returns the address to listen on. Workers of other machines are not served.
fn loopback(name: &str, address: Option<SocketAddr>) -> Result<SocketAddr, CliError> {
    let address = address.unwrap_or(([127, 0, 0, 1], 0).into());
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(CliError::Usage(format!("{name} must be a loopback address (got {address})")))
}
