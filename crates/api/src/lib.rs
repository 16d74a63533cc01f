//! What travels over HTTP: requests, answers, errors. Names and shapes, no meaning.
//!
//! 1. A request refuses what it does not know; an answer may grow.
//! 2. A field with nothing to say is left out of an answer, but for those that v1 always shows.
//! 3. Durations end in `_ms`; times are RFC 3339 in UTC with milliseconds.

pub mod audit;
mod base64;
pub mod clock;
pub mod cluster;
pub mod commit;
pub mod death;
pub mod dlq;
pub mod effect;
pub mod error;
pub mod explain;
pub mod group;
pub mod health;
pub mod limits;
pub mod message;
pub mod number;
pub mod peek;
pub mod pointer;
pub mod repair;
pub mod schema;
pub mod settings;
pub mod settle;
mod strict;
mod time;
pub mod topic;
pub mod words;

pub use base64::from_base64;
pub use error::{Details, Error, ErrorCode};
pub use strict::{INTEGER_MAX, Object};
pub use time::Time;
