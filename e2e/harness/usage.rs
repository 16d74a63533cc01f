//! Memory and CPU use of a process, from `/proc`.

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::Context as _;

/// Clock ticks per second in `/proc`: 100 on every Linux architecture, as seen from user space.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory in MB, current and peak.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Current.
    pub resident: f64,
    /// Peak since the process started.
    pub peak: f64,
}

/// Returns the memory use of a process.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = read_to_string(format!("/proc/{pid}/status"))?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no such line")?;
        anyhow::Ok(kib.parse::<f64>()? * 1024.0 / 1e6)
    };
    Ok(Memory { resident: of("VmRSS:")?, peak: of("VmHWM:")? })
}

/// Returns the CPU time used since the process started.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = read_to_string(format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and may contain any character. Plain fields follow it.
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |at: usize| anyhow::Ok(fields.get(at).context("too few fields")?.parse::<u64>()?);
    // User and system time of the process itself.
    let ticks = field(11)? + field(12)?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}
