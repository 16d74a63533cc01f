//! The SDK against a real server.

mod broker;
mod client;
mod effects;
mod worker;
