//! Queue semantics: a deterministic state machine without I/O, clock, randomness or threads.
//!
//! A [`Pipeline`] receives inputs and returns the outputs to perform. Inside it a [`Shard`] decides
//! commands. The program that performs the outputs (a server, a simulator, a test) adds nothing to
//! the semantics.

mod act;
pub mod activity;
pub mod attention;
pub mod audit;
mod call_error;
pub mod change;
mod clock;
pub mod command;
mod dead_row;
pub mod effect;
mod format;
mod id;
mod jitter;
mod jump_guard;
pub mod limits;
mod message;
mod name;
pub mod node_codec;
pub mod ownership;
mod pack;
mod packer;
mod pipeline;
pub mod placement;
mod read_view;
mod recovery;
mod refusal;
mod retry;
pub mod row;
mod session;
mod settings;
mod shard;
mod time;
mod token;
mod validate;
pub mod view;

pub use call_error::{CallError, MAX_MOVE_WAIT_MS};
pub use clock::Clock;
pub use command::{Command, Rejection, Reply};
pub use format::Format;
pub use id::{
    BatchNo, ConsumerId, Epoch, Generation, GroupId, Lane, MessageId, NUMBER_MAX, NodeId,
    NotAMessageId, Offset, OwnerId, ShardId, Text, TopicId,
};
pub use jump_guard::{
    BootRecord, ClockOrigin, ClockRecord, HeldJump, JUMP_MS_MAX, JumpGuard, StoredClock,
};
pub use message::{
    DEFAULT_TENANT, Death, DeathReason, Envelope, Extension, Message, Receipt, Routing, Trace,
};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use pack::fuzzing;
pub use pack::{Damaged, verify};
pub use pipeline::{
    Batch, CommandResult, Input, Output, Pipeline, PipelineConfig, ReadId, Release, Ticket,
};
pub use recovery::{Recovered, Recovery};
pub use retry::{RetryPolicy, RetryRequest};
pub use session::{HEARTBEAT_MS, Line, STALLED_MS, Session};
pub use settings::{
    AutoCreateGroups, DedupeCompare, InvalidSetting, OnDoubt, SettingName, Settings,
    SettingsChange, SettingsPatch, Unkeyed,
};
pub use shard::{Image, Shard, ShardConfig};
pub use time::Timestamp;
pub use token::{
    EffectToken, LeaseToken, NotAToken, TOKEN_CHARS_MAX, Token, TokenKeys, TokenKind, TokenVersion,
};
pub use validate::is_topic_name;
