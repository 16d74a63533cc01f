//! Keeps a fleet of workers and a broker running while they are killed.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use driftq_e2e::broker::Broker;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

use crate::worker::Job;

/// Keeps one worker running. Returns only with an error.
pub(crate) async fn keep_worker(job: Job, killed: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let job = serde_json::to_string(&job)?;
    loop {
        let mut worker = Command::new(std::env::current_exe()?)
            .args(["worker", &job])
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start a worker")?;
        // The worker exits when this pipe closes, so it must stay open; `wait` would close it.
        let _alive = worker.stdin.take();
        let ended = worker.wait().await?;
        match ended.signal() {
            Some(9) => killed.fetch_add(1, Ordering::Relaxed),
            Some(_) | None => bail!("a worker exited by itself: {ended}"),
        };
    }
}

/// Kills the broker and starts it again on each request.
pub(crate) async fn keep_broker(
    mut broker: Broker,
    mut asked: mpsc::Receiver<oneshot::Sender<()>>,
    killed: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    while let Some(dead) = asked.recv().await {
        anyhow::ensure!(!broker.is_dead(), "the broker exited by itself");
        broker.kill().await?;
        killed.fetch_add(1, Ordering::Relaxed);
        // The requester may have been killed meanwhile.
        let _told = dead.send(());
        broker.start_again(None).await?;
    }
    bail!("the channel for kill requests is closed")
}
