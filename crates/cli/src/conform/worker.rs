//! The process of the worker under test.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// Lines of output that are kept.
const LINES_MAX: usize = 10;

/// A running worker, with the processes that it starts. They are killed when it is dropped.
pub(super) struct Worker {
    child: Child,
    /// Also the id of the process group.
    id: Pid,
}

/// The last lines that workers have written.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<Mutex<VecDeque<String>>>);

impl Output {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn collect(&self, from: impl AsyncRead + Unpin + Send + 'static) {
        let output = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = output.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == LINES_MAX {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
    }
}

impl Worker {
    pub(super) fn start(
        command: &[String],
        variables: &[(&str, &str)],
        output: &Output,
    ) -> anyhow::Result<Worker> {
        let (program, arguments) = command.split_first().context("no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(variables.iter().copied())
            // The server of a check has no key.
            .env_remove("DRIFTQ_API_KEY")
            .env_remove("DRIFTQ_API_KEY_FILE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.context("the worker has no process id")?;
        output.collect(child.stdout.take().context("its output is piped")?);
        output.collect(child.stderr.take().context("its output is piped")?);
        Ok(Worker { child, id })
    }

    /// Returns the status of the worker if it has exited.
    pub(super) fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends SIGTERM to the process that was started, as a container does.
    pub(super) fn terminate(&self) {
        // It may have exited by itself.
        let _gone = kill_process(self.id, Signal::TERM);
    }

    /// Kills the worker and all processes of its group.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.kill_group();
        self.child.wait().await?;
        Ok(())
    }

    fn kill_group(&self) {
        // All of them may have exited.
        let _gone = kill_process_group(self.id, Signal::KILL);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill_group();
    }
}
