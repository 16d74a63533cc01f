//! The process of an agent: its commands and its events.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// The events of all agents of a scenario, in the order in which they were reported.
pub(crate) type Events = Arc<Mutex<Vec<(Instant, Value)>>>;

pub(crate) fn lock(events: &Events) -> MutexGuard<'_, Vec<(Instant, Value)>> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running agent. Killed on drop.
pub(crate) struct Agent {
    child: Child,
    commands: ChildStdin,
}

impl Agent {
    pub(crate) fn start(
        command: &[String],
        (server, provider): (&str, &str),
        log: &Path,
        events: &Events,
    ) -> anyhow::Result<Agent> {
        let (program, arguments) = command.split_first().context("the command of the agent")?;
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("DRIFTQ_URL", server)
            .env("PROVIDER_URL", provider)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let commands = child.stdin.take().context("its input is piped")?;
        let mut lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        let events = events.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
                lock(&events).push((Instant::now(), event));
            }
        });
        Ok(Agent { child, commands })
    }

    pub(crate) async fn send(&mut self, command: &Value) -> anyhow::Result<()> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().context("the agent has exited")?;
        let pid = Pid::from_raw(id.cast_signed()).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// The id of its process, if it has not exited.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has exited, with its status. A signal is no status.
    pub(crate) fn exited(&mut self) -> anyhow::Result<Option<Option<i32>>> {
        Ok(self.child.try_wait()?.map(|status| status.code()))
    }
}
