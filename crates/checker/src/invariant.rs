//! The promises, by their numbers.

use std::fmt;

/// A promise that a history can be seen to keep or break.
///
/// The numbers are those of the project's list of invariants; the ones left out need a standby,
/// a sink of effects, quotas or credentials. I55 and those after it are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// No loss: what was answered as produced is stored, what is sent to another shard is kept until it has
    /// arrived there, and in the end every group that should read it has settled it.
    I1,
    /// No phantom: nothing is stored, granted or delivered that nobody produced.
    I2,
    /// Same content: body, key and tenant arrive as they were sent, on every attempt, as a dead letter
    /// and after it.
    I3,
    /// One position: an id has one place and a place has one id, whoever looks and whenever.
    I4,
    /// Refused means absent: a refused produce, and what a refused commit would have produced, never shows
    /// up.
    I5,
    /// Unknown at most once: a message is stored no more often than it was sent, and once with a key; a
    /// message of a commit once, however often that is sent and whichever way it goes.
    I6,
    /// Real-time order: a produce sent after another was answered lies behind it.
    I7,
    /// No going back: batches, epochs, the clock, offsets, generations and the numbers of what goes to
    /// another shard only grow.
    I8,
    /// Attempts grow: each grant has a greater one than the last, and a delivery shows a granted
    /// attempt, once.
    I9,
    /// One lease: nothing is granted while a lease is open, and only the open lease can end.
    I10,
    /// Stale is refused: what names an older attempt or generation is never done.
    I11,
    /// Ack is final: what was answered as acked or committed is, and what is acked is never granted again.
    I12,
    /// An ack touches one: nothing that was delivered ends without its own ack or dead letter.
    I13,
    /// One end: nothing happens to a message after its end, nor in a generation that is over.
    I14,
    /// No early redelivery: a lease ends by its worker's word or when its time has come.
    I15,
    /// Backoff: what failed waits as long as the policy says, and no longer.
    I16,
    /// Idempotent ack: repeating an ack that was done is never refused; nor is repeating a commit, which is
    /// answered as it was, unless it says something else.
    I17,
    /// Attempts count: they are 1, 2, 3 … without a gap, and `spent` counts those not given back.
    I18,
    /// Limit: no grant beyond `max_attempts`.
    I19,
    /// Dead exactly once: the end, the reason and the dead letter are one commit, and it is there in
    /// the end. So is a message that another shard would not have, and the end of its way there.
    I20,
    /// No early death: exhausted, final, past its deadline or turned away, and the reason says which.
    I21,
    /// Dead letters are faithful: origin, reason, attempts, error and key are those of the message.
    I22,
    /// Redrive: a dead letter makes one new message, for its group only.
    I23,
    /// First grants in order: a cursor never goes back.
    I25,
    /// No skip: a cursor leaves no message out.
    I27,
    /// Producer order: what one producer sends one after the other lies in that order, and what one shard
    /// sends another is stored there in that order.
    I28,
    /// In flight: a partition has no more leases than its group allows, a consumer no more than its
    /// credit.
    I29,
    /// Size: nothing too large is stored, and nothing of another size than was sent.
    I31,
    /// One owner per epoch: claims of a shard have growing numbers, and whoever decides under one has made it.
    I32,
    /// Commit fencing: nothing is committed under an epoch after a later one was claimed.
    I33,
    /// Covered replies: what an answer or a refusal rests on is committed before it is told.
    I34,
    /// Step-down: a node decides nothing when the others may take it for gone, but for the moment in which a
    /// stopped one goes on.
    I35,
    /// One executor: the right to execute an effect is given under growing fences, to one holder at a time,
    /// again only after a failure that allows it or after doubt that its policy allows; and no message is
    /// done while an effect begun under it has no known outcome.
    I37,
    /// Stale finish refused: what an older right says is never done, and an effect ends by the word of the
    /// latest right, or of a person who ends doubt.
    I38,
    /// Replay is exact: once an outcome is known every begin is told it, byte for byte, and nothing else.
    I39,
    /// Mismatch: an effect that is known with another request is a conflict, and does not change.
    I40,
    /// Dedupe: inside the window one key is one message, and every answer names it, whatever a router says.
    I42,
    /// Expiry: after the window a key starts anew; an outcome is found until its time is over and not
    /// after it, and its time does not begin while its message is open.
    I43,
    /// Tenant scope: equal keys of two tenants never meet, neither of messages nor of effects.
    I45,
    /// Not before: no grant before the message is due.
    I49,
    /// Deadline: no first grant at or after the message's deadline.
    I50,
    /// No wedge: after the faults everything drains, and arrives.
    I51,
    /// Conservation: counters say what was committed.
    I52,
    /// All or nothing: the end of a delivery, the outcomes, the messages and the pointers of its commit are
    /// one batch.
    I55,
    /// Readable: a node finds the rows that were written, and nothing is left of what was deleted.
    I56,
    /// Restore: what was issued before a restore and is not in the backup is never accepted.
    I57,
    /// True answers: what an operator is shown was committed.
    I58,
    /// Pause: a paused group is given nothing.
    I59,
    /// Fair attempts: a message that dies as exhausted was shown to a consumer at every attempt that counted.
    I60,
    /// No unconfirmed jump: a forward jump of the authority clock is not followed before it is confirmed.
    I61,
}

impl Invariant {
    /// Every promise this crate knows, in order.
    pub const ALL: [Invariant; 50] = {
        use Invariant::*;
        [
            I1, I2, I3, I4, I5, I6, I7, I8, I9, I10, I11, I12, I13, I14, I15, I16, I17, I18, I19,
            I20, I21, I22, I23, I25, I27, I28, I29, I31, I32, I33, I34, I35, I37, I38, I39, I40,
            I42, I43, I45, I49, I50, I51, I52, I55, I56, I57, I58, I59, I60, I61,
        ]
    };
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
