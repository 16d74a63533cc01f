//! Somebody's worker, as a process group of its own.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};

/// A worker and what it started; dropped, they are killed.
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts one.
    pub fn start(command: &mut Command) -> anyhow::Result<Worker> {
        // What runs a script may start it as a process of its own: one signal reaches both.
        let started = command.stdin(Stdio::null()).process_group(0).spawn();
        let child =
            started.with_context(|| format!("start {:?}", command.as_std().get_program()))?;
        Ok(Worker { child })
    }

    /// Sends all of it a signal.
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
        // One that has ended needs no signal.
        let _ended = self.signal("KILL");
    }
}
