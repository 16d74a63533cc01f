//! The binary as users see it: commands and their exact output.
//!
//! `stage` plays transcripts; the rest is one file per topic. `UPDATE_EXPECT=1` fills in the
//! expected output.

mod cluster;
mod config;
mod confirm;
mod effects;
mod escapes;
mod logs;
mod offline;
mod proof;
mod quarantine;
mod reference;
mod relay;
mod session;
mod stage;
mod status;
