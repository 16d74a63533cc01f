//! Checks requests with a nonce: of `StoredAtMostOnce` that they are stored once, and of `Dedupe`
//! that only another request is a conflict.
//!
//! Each request of a history with commits has one message. A shard remembers a nonce for
//! [`NONCE_MS`] by its own clock. The shard of the requested topic remembers for as long which shard
//! the message went to, so a router that answers differently each time stores it once.

use crate::ids::{FastMap, NameId};
use crate::invariant::Invariant::{Dedupe, StoredAtMostOnce};
use crate::report::Findings;
use crate::timeline::{Ask, Batch, Outcome, Put, Step, Timeline};

/// How long a nonce is remembered.
const NONCE_MS: u64 = 900_000;
/// The clocks of two shards differ by less than the rest.
const NONCE_MS_ELSEWHERE: u64 = NONCE_MS / 2;

/// Checks every nonce.
pub(crate) fn judge(timeline: &Timeline<'_>, findings: &mut Findings) {
    let mut nonces: FastMap<u64, NameId> = FastMap::default();
    // The first message of each nonce, and whether it was sent with others too.
    let mut bodies: FastMap<NameId, (u64, bool)> = FastMap::default();
    for call in timeline.calls.iter() {
        let Ask::Produce(send) = call.ask else { continue };
        let Some(nonce) = send.nonce else { continue };
        let body = send.content.body;
        nonces.insert(body, nonce);
        let (first, is_mixed) = bodies.entry(nonce).or_insert((body, false));
        *is_mixed |= *first != body;
    }
    for call in timeline.calls.iter() {
        let (Ask::Produce(send), Outcome::Refused { code: "CONFLICT", .. }) =
            (call.ask, call.outcome)
        else {
            continue;
        };
        if let Some(nonce) = send.nonce.filter(|nonce| !bodies[nonce].1) {
            let nonce = timeline.places.names.key(nonce);
            let detail = format_args!(
                "a request with nonce {nonce} was rejected as a conflict, but no other request had it"
            );
            findings.add(Dedupe, call.answered, detail);
        }
    }
    // When and where the message of a nonce was last stored.
    let mut stored: FastMap<NameId, (u64, u32)> = FastMap::default();
    for batch in &timeline.batches {
        for step in timeline.steps_of(batch) {
            let Some(nonce) = request_of(step, &nonces) else { continue };
            let former = stored.insert(nonce, (batch.now, batch.shard));
            if let Some((former, shard)) = former
                && batch.now
                    < former + if shard == batch.shard { NONCE_MS } else { NONCE_MS_ELSEWHERE }
            {
                stored_twice(timeline, findings, batch, nonce, former);
            }
        }
    }
}

/// The nonce whose request stored a message with this step.
fn request_of(step: &Step<'_>, nonces: &FastMap<u64, NameId>) -> Option<NameId> {
    let Step::Stored(Put { stored, for_group: None, .. }) = step else { return None };
    nonces.get(&stored.message.body).copied().filter(|_| !stored.dead_letter)
}

fn stored_twice(
    timeline: &Timeline<'_>,
    findings: &mut Findings,
    batch: &Batch,
    nonce: NameId,
    former: u64,
) {
    let (nonce, now) = (timeline.places.names.key(nonce), batch.now);
    let detail =
        format_args!("a request with nonce {nonce} was stored at {now}, and before at {former}");
    findings.add(StoredAtMostOnce, batch.seq, detail);
}
