//! The contract, kept: every route, field, limit and refusal of the API against a real server.
//!
//! What a test needs is in `broker` (a server), `client`, `lines` and `raw` (ways to talk to it) and `verbs`
//! (what most tests say). The rest is one file per resource; `seed` is the first contract, `holes` are its
//! gaps. A test that is ignored shows where the server departs from the API, and says so.

mod backlog;
mod bad_http;
mod bad_input;
mod batch;
mod broker;
mod client;
mod clock;
mod cluster;
mod commit;
mod connections;
mod consume;
mod dedupe;
mod dlq;
mod effects;
mod error_schema;
mod explain;
mod groups;
mod headers;
mod health;
mod holes;
mod input;
mod lines;
mod memory;
mod metrics;
mod moved;
mod openapi;
mod operations;
mod pause;
mod peek;
mod pointers;
mod produce;
mod raw;
mod receive;
mod reference;
mod restart;
mod retention;
mod seed;
mod seek;
mod settings;
mod settle;
mod settle_table;
mod shards;
mod topics;
mod unread;
mod verbs;
mod web_pages;
