//! Simulates nodes, disks, clocks, networks and clients, all from one seed.
//!
//! 1. One seed is one run, byte for byte: randomness comes from the seed, time from a queue of
//!    events.
//! 2. A node runs the real code: pipeline, shard, sessions and clock of the core on the memory
//!    engine. Only disk, network, time and clients are simulated.
//! 3. The simulator does not check anything. It records a history; the checker checks it.

mod admin;
mod backup;
pub mod bench;
mod clients;
mod clock;
pub mod cluster;
mod commit;
mod connection;
mod consumer;
mod corruption;
mod effects;
mod executor;
mod facts;
mod faults;
mod forward;
mod hosts;
mod kinds;
mod leaks;
mod ledger;
mod network;
mod node;
mod operator;
mod patches;
mod plan;
mod producer;
mod router;
mod run;
mod shard_network;
mod sometimes;
mod stats;
mod transactions;
mod world;

pub use run::{Outcome, Verdict, judge, run, run_many};
pub use stats::{Stats, Summary};
