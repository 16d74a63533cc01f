//! Processes by their id, and those they started: PostgreSQL puts each of its own into a session of its own, so no
//! signal to a group reaches them all.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Pid, Signal, kill_process};

/// How often something is looked at that is waited for.
pub(crate) const GLANCE: Duration = Duration::from_millis(5);
/// How long signals may take to have their effect.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that was there once. Its id may be somebody else's by now, its id and start together are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    id: Pid,
    started: u64,
}

/// What the system says of a process.
struct Entry {
    process: Process,
    parent: i32,
    state: char,
}

impl Process {
    /// The process with this id.
    pub fn find(id: u32) -> Option<Process> {
        Some(entry(id)?.process)
    }

    /// Whether it has ended, be it that nobody has asked for its end yet.
    pub fn is_gone(self) -> bool {
        self.state().is_none_or(|state| matches!(state, 'Z' | 'X'))
    }

    /// Sends it a signal, unless it is gone.
    pub fn signal(self, signal: Signal) {
        if !self.is_gone() {
            // It may end in this moment.
            let _gone = kill_process(self.id, signal);
        }
    }

    /// All it has started that is still there, and what these have started.
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

    /// What it was started with, or what it calls itself since.
    pub fn title(self) -> String {
        let title = std::fs::read(format!("/proc/{}/cmdline", self.id.as_raw_nonzero()));
        String::from_utf8_lossy(&title.unwrap_or_default()).into_owned()
    }

    fn state(self) -> Option<char> {
        let id = u32::try_from(self.id.as_raw_nonzero().get()).ok()?;
        entry(id).filter(|entry| entry.process == self).map(|entry| entry.state)
    }
}

/// SIGSTOP for a process and all its descendants; returns when none of them runs.
pub async fn pause(process: Process) -> anyhow::Result<()> {
    until("are stopped", PATIENCE, || {
        // It first: one that is stopped starts no other.
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

/// SIGKILL for these; returns when all are gone.
pub async fn kill(processes: &[Process]) -> anyhow::Result<()> {
    processes.iter().for_each(|one| one.signal(Signal::KILL));
    gone(processes, PATIENCE).await
}

/// Waits until all of these are gone.
pub async fn gone(processes: &[Process], patience: Duration) -> anyhow::Result<()> {
    until("are gone", patience, || processes.iter().all(|one| one.is_gone())).await
}

/// The same where nothing can be awaited: in a drop. True if all are gone.
pub fn kill_now(processes: &[Process], patience: Duration) -> bool {
    processes.iter().for_each(|one| one.signal(Signal::KILL));
    gone_now(processes, patience)
}

/// Waits in place until all of these are gone. True if they are.
pub fn gone_now(processes: &[Process], patience: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < patience {
        if processes.iter().all(|one| one.is_gone()) {
            return true;
        }
        std::thread::sleep(GLANCE);
    }
    false
}

/// SIGSTOP for a process alone, so that it starts no other; then it and its descendants, to be killed.
pub fn last_family(process: Process) -> Vec<Process> {
    process.signal(Signal::STOP);
    let began = Instant::now();
    while matches!(process.state(), Some('R' | 'S' | 'D')) && began.elapsed() < PATIENCE {
        std::thread::sleep(GLANCE);
    }
    family(process)
}

/// A process and its descendants, it first.
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
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

/// Those that were started with just this as an argument.
pub fn with_argument(argument: &str) -> Vec<Process> {
    let all = entries().map(|entry| entry.process);
    all.filter(|one| one.title().split('\0').any(|each| each == argument)).collect()
}

/// All there are.
fn entries() -> impl Iterator<Item = Entry> {
    let files = std::fs::read_dir("/proc").into_iter().flatten();
    files.filter_map(|file| entry(file.ok()?.file_name().to_str()?.parse().ok()?))
}

/// Reads `/proc/ID/stat`. The name stands in brackets and may hold anything, so fields are counted after the last one.
fn entry(id: u32) -> Option<Entry> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // The 22nd of all, of which four are taken.
    let started = fields.nth(17)?.parse().ok()?;
    let id = Pid::from_raw(i32::try_from(id).ok()?)?;
    Some(Entry { process: Process { id, started }, parent, state })
}
