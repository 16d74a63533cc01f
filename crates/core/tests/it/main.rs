//! Transcripts of the core, one file per promise.

mod delivery;
mod transcript;
