//! What a process uses, as Linux tells it.

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::Context as _;

/// Ticks of `/proc` in a second: 100 on every Linux that users see.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory in MB, now and at its highest.
#[derive(Clone, Copy)]
pub struct Memory {
    /// Now.
    pub resident: f64,
    /// Since the process began.
    pub peak: f64,
}

/// Memory of a process.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = read_to_string(format!("/proc/{pid}/status"))?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no memory")?;
        anyhow::Ok(kib.parse::<f64>()? * 1024.0 / 1e6)
    };
    Ok(Memory { resident: of("VmRSS:")?, peak: of("VmHWM:")? })
}

/// Time on a processor since the process began.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in brackets and may hold anything; after it come plain fields.
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |at: usize| anyhow::Ok(fields.get(at).context("too few fields")?.parse::<u64>()?);
    // Of itself, as user and as system.
    let ticks = field(11)? + field(12)?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}
