//! Audit chains: every accepted decision of the ledger, and every administrative act, each hashed
//! together with the one before.
//!
//! 1. Each namespace has one chain per shard. The first hash is that of the chain's name. Each
//!    later hash covers the previous hash (32 bytes) and the text of the record.
//! 2. Records are stored packed, and their texts are rendered again when they are read. **A text
//!    that was hashed once never changes**: a field added later is absent from records without it.
//! 3. Only decisions that were accepted and changed the ledger have a record. Rejections, replays
//!    and repeats have none.
//! 4. Administrative acts have a chain of their own per namespace and shard.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::act::ActRecord;
use crate::effect::{DeliveryRef, EffectRow, EffectState, Outcome};
use crate::format::Format;
use crate::id::{MessageId, ShardId, Text, TopicId};
use crate::time::Timestamp;

/// The hash of a record and of all records before it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHash(pub [u8; 32]);

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An accepted decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub enum Accepted {
    /// A fence was granted.
    Begin { request: Option<Text> },
    /// The holder reported the outcome, or that the outcome is unknown.
    Finish { state: EffectState, outcome: ChainHash },
    /// A person resolved the effect.
    Resolve { state: EffectState, outcome: ChainHash, reason: Text },
}

/// The record of one decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When it was accepted.
    pub at: Timestamp,
    /// Our user's customer.
    pub tenant: Text,
    /// The id of the topic, for effects of deliveries.
    pub topic: Option<TopicId>,
    /// Where the key is unique.
    pub scope: Text,
    /// The effect's name in that scope.
    pub key: Text,
    /// When the effect was created. A key that is reused after it expired is another effect.
    pub born: Timestamp,
    /// The fence of the execution.
    pub fence: u64,
    /// The holder of the fence, or the person who resolved the effect.
    pub by: Text,
    /// The decision.
    pub accepted: Accepted,
    /// The delivery, for effects of deliveries. Version 1 of the row lacks it.
    #[serde(skip)]
    pub delivery: Option<AuditDelivery>,
}

/// The delivery that an effect was last begun under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct AuditDelivery {
    pub message: MessageId,
    pub attempt: u32,
}

/// A record as it is hashed and shown. The order of the fields is part of the hash.
#[derive(Serialize)]
struct RecordText<'a> {
    seq: u64,
    at_ms: Timestamp,
    decision: &'static str,
    tenant: &'a str,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<TopicId>,
    key: &'a str,
    born_ms: Timestamp,
    fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

impl AuditRecord {
    pub(crate) fn of(
        now: Timestamp,
        row: &EffectRow,
        accepted: Accepted,
        format: Format,
    ) -> AuditRecord {
        let under = row.under.filter(|_| format >= Format::V2);
        let delivery = |under: DeliveryRef| AuditDelivery {
            message: under.message,
            attempt: under.hold.attempt,
        };
        let by = match (&row.resolution, &accepted) {
            (Some(resolution), Accepted::Resolve { .. }) => &resolution.by,
            (Some(_) | None, _) => &row.owner,
        };
        let name = &row.name;
        AuditRecord {
            at: now,
            tenant: name.tenant.clone(),
            topic: name.topic,
            scope: name.scope.clone(),
            key: name.key.clone(),
            born: row.born,
            fence: row.fence,
            by: by.clone(),
            accepted,
            delivery: under.map(delivery),
        }
    }

    /// Returns the text that is hashed.
    pub(crate) fn text(&self, seq: u64) -> String {
        let AuditRecord { at, tenant, topic, scope, key, born, fence, by, accepted, delivery } =
            self;
        let (decision, request, reason, ended) = match accepted {
            Accepted::Begin { request } => ("begin", request.as_deref(), None, None),
            Accepted::Finish { state, outcome } => ("finish", None, None, Some((state, outcome))),
            Accepted::Resolve { state, outcome, reason } => {
                ("resolve", None, Some(&**reason), Some((state, outcome)))
            }
        };
        let shown = RecordText {
            seq,
            at_ms: *at,
            decision,
            tenant,
            scope,
            topic: *topic,
            key,
            born_ms: *born,
            fence: *fence,
            message: delivery.map(|delivery| delivery.message.to_string()),
            attempt: delivery.map(|delivery| delivery.attempt),
            by,
            reason,
            request,
            state: ended.map(|(state, _)| state.as_str()),
            outcome: ended.map(|(_, outcome)| outcome.to_string()),
        };
        serde_json::to_string(&shown).expect("plain values can be written as JSON")
    }
}

/// Returns the hash that a record keeps of an outcome, enough to compare it with another outcome.
pub(crate) fn outcome_hash(outcome: &Outcome) -> ChainHash {
    let text = serde_json::to_vec(outcome).expect("plain values can be written as JSON");
    ChainHash(*blake3::hash(&text).as_bytes())
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// The number of the last record; the first is 1.
    pub seq: u64,
    /// Its hash.
    pub hash: ChainHash,
}

impl Tip {
    /// Returns the tip of a chain without records.
    pub(crate) fn root(namespace: &str, shard: ShardId) -> Tip {
        #[derive(Serialize)]
        struct Name<'a> {
            namespace: &'a str,
            shard: ShardId,
        }
        let name = serde_json::to_vec(&Name { namespace, shard });
        let name = name.expect("plain values can be written as JSON");
        Tip { seq: 0, hash: ChainHash(*blake3::hash(&name).as_bytes()) }
    }

    /// Returns the tip after one more record, and the text of that record.
    pub(crate) fn next(&self, record: &ChainRecord) -> (Tip, String) {
        let seq = self.seq + 1;
        let text = record.text(seq);
        let hash = blake3::Hasher::new().update(&self.hash.0).update(text.as_bytes()).finalize();
        (Tip { seq, hash: ChainHash(*hash.as_bytes()) }, text)
    }
}

/// A record and its position in its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what their types say")]
pub struct Link {
    /// Its chain: a namespace, or that of the acts in it.
    pub chain: Text,
    pub before: Tip,
    pub record: ChainRecord,
    pub tip: Tip,
}

/// A record of a chain. The records of one chain are of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainRecord {
    /// A decision of the ledger.
    Decision(AuditRecord),
    /// An administrative act.
    Act(ActRecord),
}

impl ChainRecord {
    /// Returns the text that is hashed.
    fn text(&self, seq: u64) -> String {
        match self {
            ChainRecord::Decision(record) => record.text(seq),
            ChainRecord::Act(record) => record.text(seq),
        }
    }
}

/// Returns the name of the chain of the administrative acts in a namespace. No namespace has a
/// slash in its name.
pub fn chain_of_acts(namespace: &str) -> Text {
    format!("{namespace}/acts").into()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::effect::EffectResult;
    use crate::id::Lane;

    fn record(accepted: Accepted) -> AuditRecord {
        AuditRecord {
            at: Timestamp(1_800_000_000_123),
            tenant: "acme".into(),
            topic: Some(TopicId(300)),
            scope: "effect/orders/biller".into(),
            key: "order \"77\" ü\u{1}".into(),
            born: Timestamp(1_800_000_000_000),
            fence: 2,
            by: "worker-a".into(),
            accepted,
            delivery: None,
        }
    }

    fn outcome(result: Option<EffectResult>, error: &str) -> ChainHash {
        outcome_hash(&Outcome { code: -7, result, error: error.into() })
    }

    /// Hashes in exported files depend on every byte, so these texts must never change.
    #[test]
    fn texts_and_hashes_stay_what_they_are() {
        let done = outcome(Some(EffectResult::Json("{\"charge\": \"ch_1\"}".into())), "");
        let failed = outcome(None, "declined");
        let (topic, lane, restore) = (TopicId(300), Lane(4), 1);
        let message = MessageId { restore, shard: ShardId(3), topic, lane, offset: 77 };
        let bare = AuditRecord {
            topic: None,
            scope: "op/charge".into(),
            by: "".into(),
            ..record(Accepted::Begin { request: None })
        };
        let records = [
            record(Accepted::Begin { request: Some("own:abc".into()) }),
            record(Accepted::Finish { state: EffectState::Succeeded, outcome: done }),
            record(Accepted::Finish { state: EffectState::InDoubt, outcome: failed }),
            record(Accepted::Resolve {
                state: EffectState::FailedRetryable,
                outcome: failed,
                reason: "no charge there".into(),
            }),
            bare,
            AuditRecord {
                delivery: Some(AuditDelivery { message, attempt: 3 }),
                ..record(Accepted::Begin { request: None })
            },
        ];
        let mut tip = Tip::root("default", ShardId(3));
        let mut lines = format!("{}\n", tip.hash);
        for record in &records {
            let (next, text) = tip.next(&ChainRecord::Decision(record.clone()));
            tip = next;
            lines += &format!("{text}\n{}\n", tip.hash);
        }
        expect![[r#"
            48339f772868f09ec4ef16b9366935031aaa6873fdf8658b4f3e2b2aa7ca2799
            {"seq":1,"at_ms":1800000000123,"decision":"begin","tenant":"acme","scope":"effect/orders/biller","topic":300,"key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2,"by":"worker-a","request":"own:abc"}
            4761debfa4eaaa2d557e0d460512b03e7752d744d291f218e99fe78937cad8f4
            {"seq":2,"at_ms":1800000000123,"decision":"finish","tenant":"acme","scope":"effect/orders/biller","topic":300,"key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2,"by":"worker-a","state":"SUCCEEDED","outcome":"dcd42ffedcb544f39758afdf59213b83c97c9df57cd2f66cda8654b59eae6371"}
            c554d455b6604809eb1d6311543df23b030296b8ccdd9af304e1fc1bfc02af14
            {"seq":3,"at_ms":1800000000123,"decision":"finish","tenant":"acme","scope":"effect/orders/biller","topic":300,"key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2,"by":"worker-a","state":"IN_DOUBT","outcome":"7c2cfb9f7291c9172d610396c804a5947ee1e75c92b0c13d186d06f7d7975ea6"}
            51ad28875382dce572717730a09facc9a1d7c97f79acf5cf75df9d51091d2288
            {"seq":4,"at_ms":1800000000123,"decision":"resolve","tenant":"acme","scope":"effect/orders/biller","topic":300,"key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2,"by":"worker-a","reason":"no charge there","state":"FAILED_RETRYABLE","outcome":"7c2cfb9f7291c9172d610396c804a5947ee1e75c92b0c13d186d06f7d7975ea6"}
            cbc1b9e6a062b25298e70bd441ed7c4a649f1f24fbdb5575d59c49b7f2f1b665
            {"seq":5,"at_ms":1800000000123,"decision":"begin","tenant":"acme","scope":"op/charge","key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2}
            e18bebda159b58319f6d4abc5b8ed5745003412be634be7ff091502f6cd616e0
            {"seq":6,"at_ms":1800000000123,"decision":"begin","tenant":"acme","scope":"effect/orders/biller","topic":300,"key":"order \"77\" ü\u0001","born_ms":1800000000000,"fence":2,"message":"m_aeb2yaqeju","attempt":3,"by":"worker-a"}
            66e3ff7ed64c827a187ceb49adfb70d07adb0d24d2a42c3f807e994b619d40a7
        "#]].assert_eq(&lines);
    }
}
