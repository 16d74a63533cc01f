//! A process that is killed and started again until it ends by itself.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};

pub(crate) struct Killed {
    command: Vec<String>,
    directory: PathBuf,
    child: Child,
    is_done: bool,
}

impl Killed {
    pub(crate) fn start(command: Vec<String>, directory: &Path) -> anyhow::Result<Killed> {
        let child = start(&command, directory)?;
        Ok(Killed { command, directory: directory.to_owned(), child, is_done: false })
    }

    /// Whether it has ended by itself. Fails if it ended with an error.
    pub(crate) fn is_done(&mut self) -> anyhow::Result<bool> {
        if !self.is_done
            && let Some(status) = self.child.try_wait()?
        {
            ensure!(status.success(), "{:?}: {status}", self.command);
            self.is_done = true;
        }
        Ok(self.is_done)
    }

    /// Kills it and starts it again, unless it has ended by itself.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<bool> {
        if self.is_done()? {
            return Ok(false);
        }
        self.child.kill().await?;
        self.child = start(&self.command, &self.directory)?;
        Ok(true)
    }
}

fn start(command: &[String], directory: &Path) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().context("a program")?;
    // A relative path is of this process, not of the directory.
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| PathBuf::from(program));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).kill_on_drop(true);
    command.spawn().with_context(|| format!("start {:?}", command.as_std()))
}
