//! `driftq serve`.

use clap::Args;
use driftq_server::Server;

use crate::config::{Flags, LogFormat, effective};
use crate::{log, output};

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
            let listening = format!("listening on http://{}", server.address());
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
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Ok(())
}
