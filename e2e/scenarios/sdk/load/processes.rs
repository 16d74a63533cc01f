//! The child processes of an agent, from `/proc`.

use std::fs::{read_dir, read_to_string};

use rustix::process::{Pid, Signal, kill_process};

/// A process, with the time of its start: its id may be given to another one.
pub(super) struct Process {
    pub(super) id: u32,
    started: String,
}

/// Its parent and the time of its start. None if it has ended.
fn status(id: u32) -> Option<(u32, String)> {
    let stat = read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in parentheses and may contain any character.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie has ended, and its parent has not asked for its status.
    let is_alive = *fields.first()? != "Z";
    is_alive.then(|| Some((fields.get(1)?.parse().ok()?, (*fields.get(19)?).to_owned())))?
}

/// The processes below one.
pub(super) fn children(of: u32) -> anyhow::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in read_dir("/proc")? {
        let Ok(id) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        if let Some((parent, started)) = status(id)
            && parent == of
        {
            found.push(Process { id, started });
        }
    }
    Ok(found)
}

impl Process {
    pub(super) fn is_alive(&self) -> bool {
        status(self.id).is_some_and(|(_, started)| started == self.started)
    }

    pub(super) fn kill(&self) -> anyhow::Result<()> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| self.is_alive()) {
            kill_process(id, Signal::KILL)?;
        }
        Ok(())
    }
}
