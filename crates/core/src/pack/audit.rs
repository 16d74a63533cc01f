//! Records of audit chains. A row holds the records of one commit; its key has the last one's
//! number.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::act::ActRecord;
use crate::audit::{AuditDelivery, AuditRecord, ChainHash, ChainRecord, Link, Tip};
use crate::id::Text;
use crate::limits::AUDIT_RECORDS_MAX;
use crate::pack::{
    Damaged, UNKNOWN_VERSION, V1, V2, V3, content, fingerprint, plain, seal_as, unseal,
};
use crate::row::{Hash16, Key, Row};

/// Returns the hash by which a chain is looked up.
pub(crate) fn chain_hash(chain: &Text) -> Hash16 {
    fingerprint(chain)
}

/// The body of a row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AuditBody<R> {
    /// The name of the chain in plain text, because the key has only its hash.
    namespace: Text,
    /// The chain's hash before the first record.
    before: ChainHash,
    records: Vec<R>,
}

/// Packs the records of a commit. `links` are consecutive in one chain.
pub(crate) fn audit_rows<'a>(links: &'a [&'a Link]) -> impl Iterator<Item = Row> + 'a {
    links.chunks(AUDIT_RECORDS_MAX).map(|run| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let key = Key::Audit { namespace: chain_hash(&first.chain), last: last.tip.seq };
        let decisions: Vec<&AuditRecord> = run.iter().filter_map(|link| link.decision()).collect();
        let acts: Vec<&ActRecord> = run.iter().filter_map(|link| link.act()).collect();
        let body = if acts.is_empty() {
            seal_decisions(&AuditBody::of(first, decisions))
        } else {
            seal_as(V3, &AuditBody::of(first, acts))
        };
        plain(key, body)
    })
}

impl Link {
    fn decision(&self) -> Option<&AuditRecord> {
        if let ChainRecord::Decision(record) = &self.record { Some(record) } else { None }
    }

    fn act(&self) -> Option<&ActRecord> {
        if let ChainRecord::Act(record) = &self.record { Some(record) } else { None }
    }
}

impl<R> AuditBody<R> {
    fn of(first: &Link, records: Vec<R>) -> AuditBody<R> {
        AuditBody { namespace: first.chain.clone(), before: first.before.hash, records }
    }

    fn map<T>(self, as_record: fn(R) -> T) -> AuditBody<T> {
        let AuditBody { namespace, before, records } = self;
        AuditBody { namespace, before, records: records.into_iter().map(as_record).collect() }
    }
}

/// Version 2 is version 1, followed by the deliveries by the number of their record. Records
/// without a delivery are written as version 1, so their bytes never change.
fn seal_decisions(body: &AuditBody<&AuditRecord>) -> Bytes {
    let numbered = body.records.iter().enumerate();
    let deliveries: BTreeMap<usize, AuditDelivery> =
        numbered.filter_map(|(at, record)| Some((at, record.delivery?))).collect();
    if deliveries.is_empty() { seal_as(V1, body) } else { seal_as(V2, &(body, deliveries)) }
}

/// Version 3 has administrative acts.
fn open_records(body: &[u8]) -> Result<AuditBody<ChainRecord>, &'static str> {
    let (mut body, deliveries) = match unseal(body)? {
        (V1, packed) => (content::<AuditBody<AuditRecord>>(packed)?, BTreeMap::new()),
        (V2, packed) => content::<(_, BTreeMap<usize, AuditDelivery>)>(packed)?,
        (V3, packed) => {
            return Ok(content::<AuditBody<ActRecord>>(packed)?.map(ChainRecord::Act));
        }
        _ => return Err(UNKNOWN_VERSION),
    };
    for (at, delivery) in deliveries {
        let record = body.records.get_mut(at).ok_or("it has a delivery without a record")?;
        record.delivery = Some(delivery);
    }
    Ok(body.map(ChainRecord::Decision))
}

/// Consecutive records of a chain.
pub(crate) struct AuditRun {
    pub(crate) chain: Text,
    pub(crate) before: Tip,
    pub(crate) records: Vec<ChainRecord>,
}

pub(crate) fn open_audit(row: &Row) -> Result<AuditRun, Damaged> {
    let damaged = |why| Damaged::of(&row.key, why);
    let Key::Audit { last, .. } = row.key else { return Err(damaged("it is not an audit row")) };
    let AuditBody { namespace, before, records } = open_records(&row.body).map_err(damaged)?;
    let seq = last.checked_sub(records.len() as u64);
    let seq = seq.ok_or_else(|| damaged("it has more records than its last number allows"))?;
    Ok(AuditRun { chain: namespace, before: Tip { seq, hash: before }, records })
}
