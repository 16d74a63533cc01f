//! The types of the HTTP API: requests, responses and errors. Names and schemas, no behaviour.
//!
//! 1. A request with unknown fields is rejected. Responses may get new fields.
//! 2. An empty field is omitted from a response, except for fields that v1 always returns.
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
pub mod overview;
pub mod peek;
pub mod pointer;
pub mod repair;
pub mod router;
pub mod schema;
pub mod series;
pub mod settings;
pub mod settle;
mod strict;
mod time;
pub mod topic;
pub mod words;
pub mod worker;

pub use base64::from_base64;
pub use error::{Details, Error, ErrorCode};
pub use strict::{INTEGER_MAX, Object};
pub use time::Time;
