//! The parts of `just backlog`: an engine, how it is filled, and the limit of its restart time.

use anyhow::Context as _;

/// One combination of engine and fill.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) engine: Engine,
    pub(crate) fill: Fill,
    /// Maximum seconds from the start until the group answers. On PostgreSQL the lease of the
    /// killed node has to expire first.
    pub(crate) restart_max: f64,
}

#[derive(Clone, Copy)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// How messages are produced, while loading and in the windows.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    /// Backlog of the two servers that are compared.
    pub(crate) long: u64,
    pub(crate) short: u64,
    pub(crate) partitions: u32,
    pub(crate) value_bytes: usize,
    pub(crate) requests: Requests,
    /// Messages that are produced, then consumed and acked, and how often per window. A window is
    /// long enough that trimming, which runs once a second, falls into it.
    pub(crate) pass: u64,
    pub(crate) passes: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum Requests {
    /// Messages per request while loading and in the windows.
    Batches { load: u64, window: u64 },
    /// One message per request, and one connection per partition. A connection waits for each
    /// answer, so a commit contains at most one message of a partition, and each message is a page
    /// of its own.
    Singles,
}

impl Fill {
    pub(crate) fn window(&self) -> u64 {
        self.pass * self.passes
    }
}

const BATCHES: Fill = Fill {
    long: 2_000_000,
    short: 10_000,
    partitions: 2,
    value_bytes: 256,
    requests: Requests::Batches { load: 1_000, window: 100 },
    pass: 20_000,
    passes: 10,
};

const SINGLES: Fill = Fill {
    long: 60_000,
    short: 5_000,
    partitions: 4,
    value_bytes: 1_500,
    requests: Requests::Singles,
    pass: 5_000,
    passes: 4,
};

const PARTS: [Part; 4] = [
    Part { name: "sqlite-batches", engine: Engine::Sqlite, fill: BATCHES, restart_max: 2.0 },
    Part { name: "sqlite-singles", engine: Engine::Sqlite, fill: SINGLES, restart_max: 2.0 },
    Part { name: "postgres-batches", engine: Engine::Postgres, fill: BATCHES, restart_max: 20.0 },
    Part { name: "postgres-singles", engine: Engine::Postgres, fill: SINGLES, restart_max: 20.0 },
];

/// Returns one part by name, or all parts.
pub(crate) fn parts(name: Option<&str>) -> anyhow::Result<&'static [Part]> {
    const ALL: &[Part] = &PARTS;
    let Some(name) = name else { return Ok(ALL) };
    let names: Vec<&str> = ALL.iter().map(|part| part.name).collect();
    let unknown = || format!("part {name:?} does not exist; use one of {}", names.join(", "));
    let at = names.iter().position(|part| *part == name).with_context(unknown)?;
    Ok(&ALL[at..=at])
}
