//! The real server and its workers as processes of their own, and a place for their data.

pub mod broker;
pub mod directory;
pub mod worker;
