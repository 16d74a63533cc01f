//! Statistics of a run: proof that the workload reaches the required states.

use std::collections::BTreeMap;
use std::fmt;

use crate::kinds::OPERATIONS;

/// With this many runs, every operation must coincide with every fault.
const TABLE_SEEDS: u64 = 2_000;

/// The state of a batch when a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Decided, not yet sent to the engine.
    Decided,
    /// Sent to the engine, not yet durable.
    Committing,
    /// Durable, but the node does not know yet.
    Unreleased,
    /// No batch is in flight.
    Idle,
}

impl Point {
    /// All points.
    pub const ALL: [Point; 4] = [Point::Decided, Point::Committing, Point::Unreleased, Point::Idle];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Point::Decided => "decided",
            Point::Committing => "committing",
            Point::Unreleased => "committed and unreleased",
            Point::Idle => "idle",
        }
    }
}

/// Statistics of one or many runs.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Faults by kind and point.
    pub faults: BTreeMap<(&'static str, Point), u64>,
    /// Calls in flight when a fault was injected, by operation and fault.
    pub struck: BTreeMap<(&'static str, &'static str), u64>,
    /// Faults injected while a batch was in flight or a message was open.
    pub faults_under_load: u64,
    /// States that must be reached sometimes.
    pub sometimes: BTreeMap<&'static str, u64>,
    /// Produces that were accepted.
    pub produced: u64,
    /// Calls of clients.
    pub operations: u64,
    /// Groups that exist at the end.
    pub groups: u64,
    /// Simulated time.
    pub simulated_ms: u64,
}

impl Stats {
    /// Counts a state that was reached.
    pub fn saw(&mut self, state: &'static str) {
        *self.sometimes.entry(state).or_default() += 1;
    }

    /// Registers states, so that a state that is never reached is reported.
    pub fn expect(&mut self, states: &[&'static str]) {
        for state in states {
            self.sometimes.entry(state).or_default();
        }
    }

    /// Adds another run.
    pub fn add(&mut self, other: &Stats) {
        for (cell, count) in &other.faults {
            *self.faults.entry(*cell).or_default() += count;
        }
        for (cell, count) in &other.struck {
            *self.struck.entry(*cell).or_default() += count;
        }
        for (state, count) in &other.sometimes {
            *self.sometimes.entry(state).or_default() += count;
        }
        self.faults_under_load += other.faults_under_load;
        self.produced += other.produced;
        self.operations += other.operations;
        self.simulated_ms += other.simulated_ms;
    }
}

/// The results of many runs.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Number of runs.
    pub seeds: u64,
    /// Seeds whose run is invalid, with the reason.
    pub invalid: Vec<(u64, String)>,
    /// Seeds with a violation: seed, invariant, text.
    pub violations: Vec<(u64, String, String)>,
    /// The statistics of all runs.
    pub stats: Stats,
}

impl Summary {
    /// Returns the cells of the tables and the counters that are below their minimum.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut short = Vec::new();
        for fault in crate::sometimes::KINDS {
            for point in Point::ALL {
                if !self.stats.faults.contains_key(&(fault, point)) {
                    short.push(format!("no {fault} while {}", point.as_str()));
                }
            }
        }
        for operation in OPERATIONS.into_iter().filter(|_| self.seeds >= TABLE_SEEDS) {
            for fault in crate::sometimes::KINDS {
                if !self.stats.struck.contains_key(&(operation, fault)) {
                    short.push(format!("no {operation} during {fault}"));
                }
            }
        }
        let least = self.seeds / 20;
        for (state, count) in &self.stats.sometimes {
            if *count < least.max(1) {
                short.push(format!("`{state}` only {count} times, required {}", least.max(1)));
            }
        }
        short
    }
}

impl Summary {
    /// Writes the table of operations and faults.
    fn write_struck(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14}", "operation")?;
        for fault in crate::sometimes::KINDS {
            write!(f, "{fault:>17}")?;
        }
        writeln!(f)?;
        for operation in OPERATIONS {
            write!(f, "{operation:<14}")?;
            for fault in crate::sometimes::KINDS {
                write!(f, "{:>17}", self.stats.struck.get(&(operation, fault)).unwrap_or(&0))?;
            }
            writeln!(f)?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}", "fault")?;
        for point in Point::ALL {
            write!(f, "{:>26}", point.as_str())?;
        }
        writeln!(f)?;
        for fault in crate::sometimes::KINDS {
            write!(f, "{fault:<20}")?;
            for point in Point::ALL {
                write!(f, "{:>26}", self.stats.faults.get(&(fault, point)).unwrap_or(&0))?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.write_struck(f)?;
        for (state, count) in &self.stats.sometimes {
            writeln!(f, "sometimes {state:<50} {count:>10}")?;
        }
        for (seed, why) in self.invalid.iter().take(10) {
            writeln!(f, "seed {seed} is invalid: {why}")?;
        }
        for (seed, invariant, message) in self.violations.iter().take(20) {
            writeln!(f, "seed {seed} breaks {invariant}: {message}")?;
        }
        let hours = self.stats.simulated_ms as f64 / 3_600_000.0;
        write!(
            f,
            "seeds {}, invalid {}, simulated hours {hours:.1}, operations {}, violations {}",
            self.seeds,
            self.invalid.len(),
            self.stats.operations,
            self.violations.len()
        )
    }
}
