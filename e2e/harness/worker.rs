//! A worker process with a process group of its own.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};

/// A worker and the processes it started. Killed on drop.
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts a worker.
    pub fn start(command: &mut Command) -> anyhow::Result<Worker> {
        // A script runner may start the script as a child process. A signal to the group reaches
        // both.
        let started = command.stdin(Stdio::null()).process_group(0).spawn();
        let child =
            started.with_context(|| format!("start {:?}", command.as_std().get_program()))?;
        Ok(Worker { child })
    }

    /// Signals the process group.
    pub fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let Some(leader) = self.child.id() else { return Ok(()) };
        let kill = format!("kill -s {signal} -- -{leader}");
        let sent = std::process::Command::new("sh").args(["-c", &kill]).status()?;
        ensure!(sent.success(), "{kill}: {sent}");
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have exited already.
        let _ended = self.signal("KILL");
    }
}
