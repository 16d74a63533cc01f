//! Finds, signals and awaits processes and their descendants. PostgreSQL runs each of its processes
//! in a session of its own, so no signal to a process group reaches them all.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Pid, Signal, kill_process};

/// Polling interval of waits.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long a signal may take to have an effect.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A process that existed once. Its id may be reused, but the pair of id and start time is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: Pid,
    started: u64,
}

/// The status of a process, from `/proc`.
struct Entry {
    process: Process,
    parent: i32,
    state: char,
}

impl Process {
    /// Returns the process with this id.
    pub fn find(id: u32) -> Option<Process> {
        Some(entry(id)?.process)
    }

    /// Whether it has exited, including a zombie that its parent has not reaped.
    pub fn has_exited(self) -> bool {
        self.state().is_none_or(|state| matches!(state, 'Z' | 'X'))
    }

    /// Sends it a signal, unless it has exited.
    pub fn signal(self, signal: Signal) {
        if !self.has_exited() {
            // It may exit between the check and the signal.
            let _gone = kill_process(self.id, signal);
        }
    }

    /// Returns its living children, their children, and so on.
    pub fn descendants(self) -> Vec<Process> {
        let all: Vec<Entry> = entries().collect();
        let mut found = vec![self];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let id = parent.id.as_raw_nonzero().get();
            let children = all.iter().filter(|child| child.parent == id);
            found.extend(children.map(|child| child.process));
            next += 1;
        }
        found.split_off(1)
    }

    /// Its command line, or the title it has set since.
    pub fn title(self) -> String {
        let title = std::fs::read(format!("/proc/{}/cmdline", self.id.as_raw_nonzero()));
        String::from_utf8_lossy(&title.unwrap_or_default()).into_owned()
    }

    fn state(self) -> Option<char> {
        let id = u32::try_from(self.id.as_raw_nonzero().get()).ok()?;
        entry(id).filter(|entry| entry.process == self).map(|entry| entry.state)
    }
}

/// SIGSTOP for a process and all its descendants. Returns when none of them runs.
pub async fn pause(process: Process) -> anyhow::Result<()> {
    until("are stopped", TIMEOUT, || {
        // The parent first, because a stopped process starts no other.
        let family = family(process);
        family.iter().for_each(|one| one.signal(Signal::STOP));
        family.iter().all(|one| matches!(one.state(), None | Some('T' | 'Z' | 'X')))
    })
    .await
}

/// SIGCONT for a process and all its descendants.
pub fn resume(process: Process) {
    family(process).iter().for_each(|one| one.signal(Signal::CONT));
}

/// SIGKILL for these processes. Returns when all have exited.
pub async fn kill(processes: &[Process]) -> anyhow::Result<()> {
    processes.iter().for_each(|one| one.signal(Signal::KILL));
    wait_exited(processes, TIMEOUT).await
}

/// Waits until all of these processes have exited.
pub async fn wait_exited(processes: &[Process], patience: Duration) -> anyhow::Result<()> {
    until("have exited", patience, || processes.iter().all(|one| one.has_exited())).await
}

/// Like `kill`, but blocking, for use in `drop`. Returns whether all have exited.
pub fn kill_now(processes: &[Process], patience: Duration) -> bool {
    processes.iter().for_each(|one| one.signal(Signal::KILL));
    wait_exited_blocking(processes, patience)
}

/// Blocks until all of these processes have exited. Returns whether they have.
pub fn wait_exited_blocking(processes: &[Process], patience: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < patience {
        if processes.iter().all(|one| one.has_exited()) {
            return true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Stops a process, so that it starts no other, and returns it with its descendants, to be killed.
pub fn last_family(process: Process) -> Vec<Process> {
    process.signal(Signal::STOP);
    let began = Instant::now();
    while matches!(process.state(), Some('R' | 'S' | 'D')) && began.elapsed() < TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
    }
    family(process)
}

/// Returns a process and its descendants, the process first.
pub fn family(process: Process) -> Vec<Process> {
    let mut all = process.descendants();
    all.insert(0, process);
    all
}

async fn until(
    what: &str,
    patience: Duration,
    mut is_so: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let began = tokio::time::Instant::now();
    while !is_so() {
        ensure!(began.elapsed() < patience, "not all processes {what} after {patience:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Returns the processes that have exactly this argument.
pub fn with_argument(argument: &str) -> Vec<Process> {
    let all = entries().map(|entry| entry.process);
    all.filter(|one| one.title().split('\0').any(|each| each == argument)).collect()
}

/// Returns all processes.
fn entries() -> impl Iterator<Item = Entry> {
    let files = std::fs::read_dir("/proc").into_iter().flatten();
    files.filter_map(|file| entry(file.ok()?.file_name().to_str()?.parse().ok()?))
}

/// Reads `/proc/ID/stat`. The name is in parentheses and may contain any character, so fields are
/// counted after the last parenthesis.
fn entry(id: u32) -> Option<Entry> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22 (start time). Fields 1 to 4 are already consumed.
    let started = fields.nth(17)?.parse().ok()?;
    let id = Pid::from_raw(i32::try_from(id).ok()?)?;
    Some(Entry { process: Process { id, started }, parent, state })
}
