//! A node: Patroni and the PostgreSQL it starts. PostgreSQL detaches itself, so it is not a child
//! process of Patroni.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::netns::Namespace;
use crate::postgres::account;
use crate::postgres::pid_file::remove_shared_memory;
use crate::processes::{
    Process, family, kill, kill_now, last_family, pause, resume, with_argument,
};

/// How long remaining processes may take to exit.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Node {
    pub(super) name: String,
    pub(super) postgres: SocketAddr,
    pub(super) api: SocketAddr,
    settings: PathBuf,
    log: PathBuf,
    data: PathBuf,
    /// The namespace it runs in, if any.
    namespace: Option<Namespace>,
    /// None after it was killed.
    patroni: Option<Child>,
}

impl Node {
    /// Creates a node that is not started yet.
    pub(super) fn new(
        directory: &Path,
        name: String,
        postgres: SocketAddr,
        api: SocketAddr,
        namespace: Option<Namespace>,
    ) -> Node {
        Node {
            settings: directory.join(format!("{name}.yml")),
            log: directory.join(format!("{name}.log")),
            data: directory.join(&name),
            name,
            postgres,
            api,
            namespace,
            patroni: None,
        }
    }

    pub(super) fn configure(&self, settings: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(&self.settings, settings)?)
    }

    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        ensure!(self.patroni.is_none(), "{} is running already", self.name);
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut patroni = account::command("patroni".as_ref(), |program| match &self.namespace {
            Some(namespace) => namespace.command(program),
            None => Command::new(program),
        });
        patroni.arg(&self.settings).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let patroni = patroni.spawn().context("start patroni; is it installed?")?;
        self.patroni = Some(patroni);
        Ok(())
    }

    pub(super) fn is_started(&self) -> bool {
        self.patroni.is_some()
    }

    /// SIGKILL for Patroni and PostgreSQL.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        // Patroni first, or it would start PostgreSQL again.
        kill(&last(self.keeper())).await?;
        kill(&last(self.postmasters())).await?;
        if let Some(mut patroni) = self.patroni.take() {
            patroni.wait()?;
        }
        Ok(())
    }

    /// SIGSTOP for Patroni and PostgreSQL.
    pub(super) async fn pause(&self) -> anyhow::Result<()> {
        for process in self.keeper().into_iter().chain(self.postmasters()) {
            pause(process).await?;
        }
        Ok(())
    }

    /// SIGCONT for Patroni and PostgreSQL.
    pub(super) fn resume(&self) {
        self.keeper().into_iter().chain(self.postmasters()).for_each(resume);
    }

    /// All processes of the node.
    pub(super) fn processes(&self) -> Vec<Process> {
        self.keeper().into_iter().chain(self.postmasters()).flat_map(family).collect()
    }

    /// Signals the WAL receiver.
    pub(super) fn signal_receiver(&self, signal: Signal) -> anyhow::Result<()> {
        let all = self.processes();
        let receiver = all.iter().find(|one| one.title().contains("walreceiver"));
        receiver.with_context(|| format!("{} has no WAL receiver", self.name))?.signal(signal);
        Ok(())
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn keeper(&self) -> Option<Process> {
        Process::find(self.patroni.as_ref()?.id())
    }

    /// At most one, except for brief moments.
    fn postmasters(&self) -> Vec<Process> {
        with_argument(&self.data.to_string_lossy())
    }
}

/// Stops these processes and returns them with their descendants, ready to be killed.
fn last(processes: impl IntoIterator<Item = Process>) -> Vec<Process> {
    processes.into_iter().flat_map(last_family).collect()
}

impl Drop for Node {
    fn drop(&mut self) {
        kill_now(&last(self.keeper()), TIMEOUT);
        kill_now(&last(self.postmasters()), TIMEOUT);
        remove_shared_memory(&self.data);
        // Does not wait for a process that cannot be killed.
        let _ended = self.patroni.take().map(|mut patroni| patroni.try_wait());
    }
}
