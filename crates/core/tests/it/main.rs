//! Transcripts of the core, one file per promise.

mod backlog;
mod dead_letter;
mod dedupe;
mod delete;
mod delivery;
mod expiry;
mod held;
mod holes;
mod lease;
mod limits;
mod order;
mod owners;
mod packing;
mod partition;
mod pause;
mod pipeline;
mod property;
mod recovery;
mod redrive;
mod retention;
mod retry;
mod seek;
mod settle_table;
mod transcript;
mod view;
