//! A PostgreSQL instance for one run. It can be stopped, killed, paused and restarted, and is
//! deleted on drop.
//!
//! It flushes to disk as a production instance does.

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
    POLL_INTERVAL, Process, family, kill, kill_now, last_family, pause, resume, wait_exited,
    wait_exited_blocking,
};
use pid_file::{PidFile, remove_shared_memory};

/// How long a start (which may include recovery) and a stop may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the other processes may take to notice that the postmaster has exited.
const NOTICE_WITHIN: Duration = Duration::from_secs(5);
/// The port number in the name of the socket. Each instance has a directory of its own.
const PORT: u16 = 5432;
/// `pg_hba.conf`: trusts every client on the same network.
const ADMITTED: &str = "\
local all all trust
host all all samenet trust
local replication all trust
host replication all samenet trust
";

/// Shutdown modes of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Rolls transactions back and shuts down cleanly.
    Fast,
    /// Like a crash: PostgreSQL recovers at the next start.
    Immediate,
}

/// A PostgreSQL instance and its data.
pub struct Cluster {
    binaries: PathBuf,
    /// Its TCP address, if any.
    tcp: Option<SocketAddr>,
    /// The namespace it runs in, if any.
    namespace: Option<Namespace>,
    /// The clock it reads, if it is not the machine's.
    clock: Option<Clock>,
    /// None after it was stopped or killed.
    postmaster: Option<Postmaster>,
    // Dropped after the processes have exited.
    directory: Directory,
}

struct Postmaster {
    child: Child,
    process: Process,
}

impl Cluster {
    /// Starts an instance of this version that listens on a socket in its directory.
    pub async fn start(version: u32) -> anyhow::Result<Cluster> {
        Cluster::make(version, None, None, None).await
    }

    /// Starts an instance that also listens on a free port of this address. The port stays the same
    /// across restarts.
    pub async fn start_at(version: u32, address: IpAddr) -> anyhow::Result<Cluster> {
        let port = TcpListener::bind((address, 0))?.local_addr()?.port();
        Cluster::make(version, Some(SocketAddr::new(address, port)), None, None).await
    }

    /// Starts the only instance in a namespace. Its socket can be reached from every namespace.
    pub async fn start_in(version: u32, namespace: &Namespace) -> anyhow::Result<Cluster> {
        let tcp = SocketAddr::from((namespace.address(), PORT));
        Cluster::make(version, Some(tcp), Some(namespace.clone()), None).await
    }

    /// Starts an instance that reads another clock and listens on a socket in its directory.
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

    /// Its URL: by TCP if it has an address, otherwise by socket.
    pub fn url(&self) -> String {
        match self.tcp {
            Some(address) => format!("postgresql://postgres@{address}/postgres"),
            None => self.socket_url(),
        }
    }

    /// Its TCP address, if any.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// Its processes, the postmaster first; none if it was stopped or killed.
    pub fn processes(&self) -> Vec<Process> {
        self.postmaster().map(family).unwrap_or_default()
    }

    /// Its log since it was created.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.directory.path().join("log"))?)
    }

    /// Runs statements with `psql` and returns their rows, with fields separated by `|`.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        psql::ask(&binaries::psql(&self.binaries), &self.socket_url(), &["-c", statements]).await
    }

    /// Runs the statements of a file.
    pub async fn load(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.display().to_string();
        psql::ask(&binaries::psql(&self.binaries), &self.socket_url(), &["-f", &file]).await?;
        Ok(())
    }

    /// Returns a dump of its database, as SQL.
    pub async fn dump(&self) -> anyhow::Result<Vec<u8>> {
        let mut dump = Command::new(self.binaries.join("pg_dump"));
        dump.args(["--no-owner", "--no-privileges", "--dbname", &self.socket_url()]);
        let said = tokio::time::timeout(TIMEOUT, dump.kill_on_drop(true).output()).await;
        let said = said.context("pg_dump did not finish")?.context("start pg_dump")?;
        ensure!(said.status.success(), "pg_dump: {}", String::from_utf8_lossy(&said.stderr));
        Ok(said.stdout)
    }

    /// Copies a file into its data directory, readable only by PostgreSQL.
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
        wait_exited(&family, TIMEOUT).await?;
        self.forget()
    }

    /// SIGKILL for the postmaster alone. Its child processes exit when they notice, possibly after
    /// answering one more request. Returns when all have exited.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let process = self.postmaster()?;
        let family = last_family(process);
        kill(&[process]).await?;
        if wait_exited(&family, NOTICE_WITHIN).await.is_err() {
            kill(&family).await?;
        }
        self.forget()
    }

    /// SIGSTOP for all its processes. Connections stay open, and no request is answered.
    pub async fn pause(&self) -> anyhow::Result<()> {
        pause(self.postmaster()?).await
    }

    /// SIGCONT for all its processes.
    pub fn resume(&self) -> anyhow::Result<()> {
        resume(self.postmaster()?);
        Ok(())
    }

    /// Stops it and starts it again.
    pub async fn restart(&mut self, how: Stop) -> anyhow::Result<()> {
        self.stop(how).await?;
        self.start_again().await
    }

    /// Starts it after it was stopped or killed. Returns when it accepts connections.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.postmaster.is_none(), "PostgreSQL is running already");
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
            // The files are in the data directory, so they are deleted with it in every case.
            ("dynamic_shared_memory_type", "mmap"),
        ] {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let child = command.spawn().context("start postgres")?;
        let process = Process::find(child.id()).context("it exited at once")?;
        self.postmaster = Some(Postmaster { child, process });
        self.ready().await
    }

    async fn initialize(&self) -> anyhow::Result<()> {
        let mut initdb = Command::from(self.command("initdb"));
        initdb.args(["-U", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-locale"]);
        initdb.arg("-D").arg(self.data()).stdin(Stdio::null()).kill_on_drop(true);
        let said = tokio::time::timeout(TIMEOUT, initdb.output()).await;
        let said = said.context("initdb did not finish")?.context("start initdb")?;
        ensure!(said.status.success(), "initdb: {}", String::from_utf8_lossy(&said.stderr));
        std::fs::write(self.data().join("pg_hba.conf"), ADMITTED)?;
        Ok(())
    }

    /// Waits until `postmaster.pid` says `ready`, as `pg_ctl` does.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            let postmaster = self.postmaster.as_mut().context("PostgreSQL is not running")?;
            let ended = postmaster.child.try_wait()?;
            let id = postmaster.child.id();
            if PidFile::read(&self.data()).is_some_and(|file| file.id == id && file.is_ready) {
                return Ok(());
            }
            if ended.is_some() {
                self.postmaster = None;
            }
            let is_waited_for = ended.is_none() && began.elapsed() < TIMEOUT;
            ensure!(is_waited_for, "PostgreSQL is not ready:\n{}", self.log()?);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn postmaster(&self) -> anyhow::Result<Process> {
        Ok(self.postmaster.as_ref().context("PostgreSQL is not running")?.process)
    }

    /// Reaps the postmaster, so that no zombie is left.
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
        // `env` runs after the change of user. Otherwise PostgreSQL could not open the files that
        // libfaketime shares.
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
            // First a shutdown by signal, because PostgreSQL then cleans up. It may be paused,
            // hence `resume`.
            process.signal(Signal::QUIT);
            resume(process);
            if !wait_exited_blocking(&family, NOTICE_WITHIN) {
                kill_now(&last_family(process), NOTICE_WITHIN);
            }
            // Does not wait for a process that cannot be killed.
            let _ended = self.postmaster.take().map(|mut postmaster| postmaster.child.try_wait());
        }
        remove_shared_memory(&self.data());
    }
}
