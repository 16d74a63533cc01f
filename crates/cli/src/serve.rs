//! `driftq serve`.

use clap::Args;
use driftq_server::Server;
use tokio::signal::unix::SignalKind;

use crate::config::{Flags, LogFormat, effective};
use crate::{log, output};

/// A file would exceed the limit of its size.
const SIGXFSZ: SignalKind = SignalKind::from_raw(25);

/// Run a server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq serve --data ./data                     one node, all data on disk
  driftq serve --data ./data --listen 0.0.0.0:8080 --api-key-file key.txt
  driftq serve --engine memory                   all data is lost on exit
  driftq serve --engine postgres --database-url 'postgresql://driftq@db.example/driftq?sslmode=verify-full'
  driftq config                                  show the configuration it would start with")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let effective = effective(self.flags)?;
        log::start(effective.log, effective.log_format);
        for row in effective.rows.iter().filter(|row| !row.is_default()) {
            tracing::info!("{row}");
        }
        // With a handler, a write beyond the limit of the file size fails. Without one, the signal
        // ends the process.
        let _limited = tokio::signal::unix::signal(SIGXFSZ)?;
        let told = wait_for_stop_signal();
        tokio::pin!(told);
        let server = tokio::select! {
            server = Server::start(effective.server) => server?,
            told = &mut told => return told,
        };
        // The node has joined the cluster, so on a stop signal it must hand over its shards first.
        let is_served = tokio::select! {
            () = server.served() => true,
            told = &mut told => {
                told?;
                false
            }
        };
        if is_served {
            let listening = format!("listening on {}", server.url());
            match effective.log_format {
                LogFormat::Text => output::line(listening),
                LogFormat::Json => output::line(log::json_line(&listening)),
            }
            told.await?;
        }
        tracing::info!("stopping: waiting for requests in flight");
        server.stop().await;
        Ok(())
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn wait_for_stop_signal() -> anyhow::Result<()> {
    let mut terminated = tokio::signal::unix::signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Ok(())
}
