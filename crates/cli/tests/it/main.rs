//! The binary as people meet it: what is typed, and what it says, word for word.
//!
//! `stage` plays transcripts; the rest is one file per part. `UPDATE_EXPECT=1` fills in what is expected.

mod cluster;
mod config;
mod effects;
mod escapes;
mod offline;
mod proof;
mod quarantine;
mod reference;
mod session;
mod stage;
