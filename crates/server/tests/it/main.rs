//! The HTTP contract: every route, field, limit and rejection of the API against a real server.
//!
//! Helpers are in `broker` (a server), `client`, `lines` and `raw` (HTTP clients) and `verbs`
//! (common requests). The rest is one file per resource. `seed` is the v1 contract and `v1_gaps`
//! are its gaps. An ignored test shows where the server departs from the API and states why.

mod acts;
mod backlog;
mod bad_http;
mod bad_input;
mod batch;
mod broker;
mod client;
mod clock;
mod cluster;
mod cluster_status;
mod commit;
mod connections;
mod consume;
mod dedupe;
mod dev_clock;
mod dlq;
mod effects;
mod error_schema;
mod explain;
mod groups;
mod headers;
mod health;
mod input;
mod lines;
mod memory;
mod message_router;
mod metrics;
mod moved;
mod nonce;
mod older_nodes;
mod openapi;
mod operations;
mod operator;
mod overview;
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
mod series;
mod settings;
mod settle;
mod settle_table;
mod shards;
mod tls;
mod topics;
mod traces;
mod unread;
mod v1_gaps;
mod verbs;
mod web_pages;
mod worker;
