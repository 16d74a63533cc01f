//! A PostgreSQL for one run: stopped, killed, paused and started again; gone when it is dropped.
//!
//! It flushes as any other does.

pub(crate) mod account;
pub(crate) mod binaries;
pub(crate) mod pid_file;
pub(crate) mod psql;

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tokio::process::Command;

use crate::clock::Clock;
use crate::directory::Directory;
use crate::netns::Namespace;
use crate::processes::{
    GLANCE, Process, family, gone, gone_now, kill, kill_now, last_family, pause, resume,
};
use pid_file::{PidFile, remove_shared_memory};

/// How long a start, which may have to recover, and an end may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long those whose postmaster is gone have to notice it.
const NOTICE_WITHIN: Duration = Duration::from_secs(5);
/// The port of a socket in a directory of its own.
const PORT: u16 = 5432;
/// Whoever reaches an address it listens on may come in.
const ADMITTED: &str = "\
local all all trust
host all all samenet trust
local replication all trust
host replication all samenet trust
";

/// How PostgreSQL is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Transactions are rolled back, then it ends in order.
    Fast,
    /// As if it crashed: it recovers at the next start.
    Immediate,
}

/// A PostgreSQL of its own, with its data.
pub struct Cluster {
    binaries: PathBuf,
    /// Its address, if it has one.
    tcp: Option<SocketAddr>,
    /// The machine it runs on, if that is not ours.
    namespace: Option<Namespace>,
    /// The clock it reads, if that is not the machine's.
    clock: Option<Clock>,
    /// None after it was stopped or killed.
    postmaster: Option<Postmaster>,
    // Dropped after the processes are gone.
    directory: Directory,
}

struct Postmaster {
    child: Child,
    process: Process,
}

impl Cluster {
    /// One of this version, behind a socket in its directory.
    pub async fn start(version: u32) -> anyhow::Result<Cluster> {
        Cluster::make(version, None, None, None).await
    }

    /// One that listens on a free port of this address as well, the same after each start.
    pub async fn start_at(version: u32, address: IpAddr) -> anyhow::Result<Cluster> {
        let port = TcpListener::bind((address, 0))?.local_addr()?.port();
        Cluster::make(version, Some(SocketAddr::new(address, port)), None, None).await
    }

    /// One that runs in a namespace, the only one there. Its socket reaches it from everywhere.
    pub async fn start_in(version: u32, namespace: &Namespace) -> anyhow::Result<Cluster> {
        let tcp = SocketAddr::from((namespace.address(), PORT));
        Cluster::make(version, Some(tcp), Some(namespace.clone()), None).await
    }

    /// One that reads another clock, behind a socket in its directory.
    pub async fn start_with(version: u32, clock: Clock) -> anyhow::Result<Cluster> {
        Cluster::make(version, None, None, Some(clock)).await
    }

    async fn make(
        version: u32,
        tcp: Option<SocketAddr>,
        namespace: Option<Namespace>,
        clock: Option<Clock>,
    ) -> anyhow::Result<Cluster> {
        let binaries = binaries::find(version)?;
        let directory = Directory::make()?;
        account::own(directory.path())?;
        let mut cluster = Cluster { binaries, tcp, namespace, clock, postmaster: None, directory };
        cluster.initialize().await?;
        cluster.start_again().await?;
        Ok(cluster)
    }

    /// Where it is: its port if it has one, else its socket.
    pub fn url(&self) -> String {
        match self.tcp {
            Some(address) => format!("postgresql://postgres@{address}/postgres"),
            None => self.socket_url(),
        }
    }

    /// Its port, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Its socket: the file that is connected to.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// Its processes, the postmaster first; none if it was stopped or killed.
    pub fn processes(&self) -> Vec<Process> {
        self.postmaster().map(family).unwrap_or_default()
    }

    /// What it has said since it was made.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.directory.path().join("log"))?)
    }

    /// Runs statements with `psql` and returns their rows, fields divided by `|`.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        psql::ask(&binaries::psql(&self.binaries), &self.socket_url(), &["-c", statements]).await
    }

    /// Runs the statements of a file.
    pub async fn load(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.display().to_string();
        psql::ask(&binaries::psql(&self.binaries), &self.socket_url(), &["-f", &file]).await?;
        Ok(())
    }

    /// Writes a dump of its database, as SQL.
    pub async fn dump(&self) -> anyhow::Result<Vec<u8>> {
        let mut dump = Command::new(self.binaries.join("pg_dump"));
        dump.args(["--no-owner", "--no-privileges", "--dbname", &self.socket_url()]);
        let said = tokio::time::timeout(PATIENCE, dump.kill_on_drop(true).output()).await;
        let said = said.context("pg_dump does not end")?.context("start pg_dump")?;
        ensure!(said.status.success(), "pg_dump: {}", String::from_utf8_lossy(&said.stderr));
        Ok(said.stdout)
    }

    /// Puts a copy of a file, for its eyes only, into its data directory.
    pub fn give(&self, file: &Path, name: &str) -> anyhow::Result<()> {
        let copy = self.data().join(name);
        std::fs::copy(file, &copy)?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600))?;
        account::own(&copy)
    }

    /// Stops it.
    pub async fn stop(&mut self, how: Stop) -> anyhow::Result<()> {
        let process = self.postmaster()?;
        let family = family(process);
        process.signal(match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        });
        gone(&family, PATIENCE).await?;
        self.forget()
    }

    /// SIGKILL for the postmaster alone. Those it started end when they notice it, which may be after another answer;
    /// returns when all have.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let process = self.postmaster()?;
        let family = last_family(process);
        kill(&[process]).await?;
        if gone(&family, NOTICE_WITHIN).await.is_err() {
            kill(&family).await?;
        }
        self.forget()
    }

    /// SIGSTOP for all of it: connections stay, nobody answers.
    pub async fn pause(&self) -> anyhow::Result<()> {
        pause(self.postmaster()?).await
    }

    /// SIGCONT for all of it.
    pub fn resume(&self) -> anyhow::Result<()> {
        resume(self.postmaster()?);
        Ok(())
    }

    /// Stops it and starts it again.
    pub async fn restart(&mut self, how: Stop) -> anyhow::Result<()> {
        self.stop(how).await?;
        self.start_again().await
    }

    /// Starts it after it was stopped or killed; returns when it takes connections.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.postmaster.is_none(), "it was neither stopped nor killed");
        let log = self.directory.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let listen = self.tcp.map(|address| address.ip().to_string()).unwrap_or_default();
        for (name, value) in [
            ("listen_addresses", listen.as_str()),
            ("port", &self.port().to_string()),
            ("unix_socket_directories", &self.directory.path().display().to_string()),
            // Its files go with the directory, whatever happens to it.
            ("dynamic_shared_memory_type", "mmap"),
        ] {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let child = command.spawn().context("start postgres")?;
        let process = Process::find(child.id()).context("it ended at once")?;
        self.postmaster = Some(Postmaster { child, process });
        self.ready().await
    }

    async fn initialize(&self) -> anyhow::Result<()> {
        let mut initdb = Command::from(self.command("initdb"));
        initdb.args(["-U", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-locale"]);
        initdb.arg("-D").arg(self.data()).stdin(Stdio::null()).kill_on_drop(true);
        let said = tokio::time::timeout(PATIENCE, initdb.output()).await;
        let said = said.context("initdb does not end")?.context("start initdb")?;
        ensure!(said.status.success(), "initdb: {}", String::from_utf8_lossy(&said.stderr));
        std::fs::write(self.data().join("pg_hba.conf"), ADMITTED)?;
        Ok(())
    }

    /// Waits until it says so where `pg_ctl` looks.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            let postmaster = self.postmaster.as_mut().context("it is not started")?;
            let ended = postmaster.child.try_wait()?;
            let id = postmaster.child.id();
            if PidFile::read(&self.data()).is_some_and(|file| file.id == id && file.is_ready) {
                return Ok(());
            }
            if ended.is_some() {
                self.postmaster = None;
            }
            let is_waited_for = ended.is_none() && began.elapsed() < PATIENCE;
            ensure!(is_waited_for, "it does not get ready:\n{}", self.log()?);
            tokio::time::sleep(GLANCE).await;
        }
    }

    fn postmaster(&self) -> anyhow::Result<Process> {
        Ok(self.postmaster.as_ref().context("it does not run")?.process)
    }

    /// Its end is asked for, so that nothing of it is left.
    fn forget(&mut self) -> anyhow::Result<()> {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.child.wait()?;
        }
        Ok(())
    }

    fn socket_url(&self) -> String {
        let (socket, port) = (self.directory.path().display(), self.port());
        format!("postgresql:///postgres?user=postgres&host={socket}&port={port}")
    }

    fn command(&self, program: &str) -> std::process::Command {
        let program = self.binaries.join(program);
        let command = |program: &OsStr| {
            account::command(program, |program| match &self.namespace {
                Some(namespace) => namespace.command(program),
                None => std::process::Command::new(program),
            })
        };
        let Some(clock) = &self.clock else { return command(program.as_os_str()) };
        // After the change of user: what libfaketime shares could not be opened otherwise.
        let mut command = command("env".as_ref());
        let variables = clock.variables().into_iter();
        command.args(variables.map(|(name, value)| format!("{name}={value}"))).arg(program);
        command
    }

    fn port(&self) -> u16 {
        self.tcp.map_or(PORT, |address| address.port())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(process) = self.postmaster() {
            let family = family(process);
            // In order if it can, because it cleans up; it may be paused.
            process.signal(Signal::QUIT);
            resume(process);
            if !gone_now(&family, NOTICE_WITHIN) {
                kill_now(&last_family(process), NOTICE_WITHIN);
            }
            // What cannot be killed is not waited for.
            let _ended = self.postmaster.take().map(|mut postmaster| postmaster.child.try_wait());
        }
        remove_shared_memory(&self.data());
    }
}
