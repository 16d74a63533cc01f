//! Settling deliveries.

use serde::{Deserialize, Serialize};

use crate::Time;

/// The delivery that is meant: by its token, or by place and owner as in v1.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Settle {
    pub token: Option<String>,
    pub topic: Option<String>,
    pub group: Option<String>,
    pub partition: Option<u32>,
    pub offset: Option<u64>,
    pub owner: Option<String>,
    pub reason: Option<String>,
    pub delay_ms: Option<u64>,
    #[serde(rename = "final")]
    pub is_final: Option<bool>,
    pub release: Option<bool>,
    pub lease_ms: Option<u64>,
    pub op: Option<Op>,
}

/// What an item of `POST /v1/settle` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Op {
    Ack,
    Nack,
    Extend,
}

/// `POST /v1/settle`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleMany {
    /// 1 to 1 000 of them.
    pub items: Vec<Settle>,
}

/// What became of one.
#[derive(Debug, Serialize)]
pub struct Settled {
    /// `acked`, `nacked` or `extended`.
    pub status: &'static str,
    /// The new end of an extended lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// The answer to `POST /v1/settle`.
#[derive(Debug, Serialize)]
pub struct SettledMany {
    /// In the order of the request.
    pub results: Vec<crate::message::Item<Settled>>,
    /// How many are done.
    pub done: usize,
    /// How many are not.
    pub refused: usize,
}
