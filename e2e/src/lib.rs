//! The real server as a process of its own, and a place for its data.

pub mod broker;
pub mod directory;
