//! The invariants that a history is checked against.

use std::fmt;

/// A rule that a history keeps or breaks.
///
/// A grant leases a message to a consumer as one attempt. It is committed before the message is
/// delivered.
///
/// Number and text are those of `docs/invariants.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// 1: An accepted message is stored. A message for another shard stays in the outbox until
    /// that shard has stored or rejected it. At the end of a run, every group that should read
    /// the message has settled it.
    NoLoss,
    /// 2: Only produced messages are stored, granted or delivered.
    NoPhantom,
    /// 3: Value, key, tenant, labels and headers are returned as they were sent: on every
    /// attempt, in the dead letter and after a redrive.
    SameContent,
    /// 4: In every reply, a message id has one partition and offset, and an offset in a partition
    /// has one message id.
    OnePosition,
    /// 5: A rejected produce or commit never stores a message.
    RejectedIsAbsent,
    /// 6: A message is stored at most as often as it was sent. If it has an idempotency key, it
    /// is stored at most once within the dedupe window. A request with a nonce stores its messages
    /// once within 15 minutes. A message of a commit is stored once, however often the commit is
    /// sent and whichever shard it is routed to.
    StoredAtMostOnce,
    /// 7: If message A was accepted before message B of the same partition was sent, B has the
    /// greater offset.
    RealTimeOrder,
    /// 8: Batch numbers, epochs, the clock, offsets, generations and outbox numbers never
    /// decrease. One exception: after a restore, batch numbers, offsets, generations and outbox
    /// numbers continue from the backup.
    MonotonicNumbers,
    /// 9: Each grant of a message has a greater attempt number than the last one. A delivery
    /// carries a granted attempt, and each attempt is delivered at most once.
    AttemptsGrow,
    /// 10: A message is not granted while its lease is open, and only an open lease can end.
    OneLease,
    /// 11: A request that names an older attempt or generation changes nothing.
    StaleIsRejected,
    /// 12: A message that was reported as acked or committed is settled. It is granted again
    /// only after a seek, a restore or a repair.
    AckIsFinal,
    /// 13: A delivered message is settled only by its own ack or dead letter, unless a purge or
    /// a repair deletes it.
    AckSettlesOne,
    /// 14: A settled message does not change again, and a generation that has ended does not change either.
    OneEnd,
    /// 15: A lease ends early only if its worker settles it, the delivery is returned unread, its
    /// message is purged or lost in a repair, or the group is moved or deleted.
    NoEarlyRedelivery,
    /// 16: A failed message is due again after the wait that its worker requested or its retry
    /// policy sets, or at once when the last unknown outcome of its effects is resolved.
    Backoff,
    /// 17: Repeating a successful ack succeeds. Repeating a commit returns the same result, unless its
    /// content differs.
    IdempotentAck,
    /// 18: Attempts are numbered 1, 2, 3 … without a gap. `spent` is the number of attempts
    /// that were not given back.
    AttemptsCounted,
    /// 19: A message is not granted when its `spent` has reached `max_attempts`.
    MaxAttempts,
    /// 20: One commit ends the message, stores the reason and creates the dead letter. The dead
    /// letter exists at the end of a run. If the target topic rejects a message, one commit
    /// deletes the message from the outbox and creates the dead letter.
    DeadLetteredOnce,
    /// 21: A message is dead-lettered only if it is exhausted, rejected by its worker, past its deadline or
    /// rejected by its target topic, and the reason says which.
    NoEarlyDeadLetter,
    /// 22: A dead letter has the origin, reason, attempts, last error and key of its message.
    FaithfulDeadLetter,
    /// 23: A redrive turns a dead letter into one new message, for its own group only.
    RedrivenOnce,
    /// 25: First grants follow the order of offsets: a cursor never moves back without a seek.
    CursorMovesForward,
    /// 27: A cursor skips no message.
    NoSkip,
    /// 28: Messages that one producer sends one after the other are stored in that order. Messages that one
    /// shard sends to another are stored there in the order of its outbox.
    ProducerOrder,
    /// 29: No lease is granted beyond `max_in_flight` leases per partition and group, or beyond
    /// the `prefetch` of a consumer.
    InFlightLimit,
    /// 31: A stored message is within the size limit and has the size that was sent.
    MessageSize,
    /// 32: Each claim of a shard has a greater epoch than the last one, and only the claimant decides under
    /// it.
    OneOwnerPerEpoch,
    /// 33: Nothing is committed under an epoch after a later one was claimed.
    CommitFencing,
    /// 34: Everything that a reply or a rejection depends on is committed before it is sent.
    DurableReplies,
    /// 35: A node stops deciding before other nodes may consider it dead. A process that was paused
    /// may still decide in the first 5 ms after it resumes.
    StepDown,
    /// 37: The right to execute an effect has one holder at a time, under increasing fences. It is granted
    /// again only after a failure that allows a retry, or after doubt if the policy allows it. A message is
    /// not acked while an effect begun under it has no known outcome.
    OneExecutor,
    /// 38: A finish with an older fence changes nothing. An effect ends by the latest fence or by an
    /// operator who resolves it.
    StaleFinishIsRejected,
    /// 39: Once an outcome is final, every `begin` of the effect returns it until it expires,
    /// byte for byte. A message whose key was accepted as new begins a new effect.
    ExactReplay,
    /// 40: A known effect with a different request is a conflict and does not change.
    RequestMismatch,
    /// 42: Within the dedupe window, one idempotency key is one message, and every reply names it, even if
    /// a router would now choose another topic. A request is rejected as a conflict only if another
    /// one had its key or nonce.
    Dedupe,
    /// 43: After its window, a key is new again. An outcome is kept until its retention ends, and the
    /// retention does not start while its message is open.
    RecordExpiry,
    /// 45: Equal keys of two tenants never collide, for messages or for effects.
    TenantIsolation,
    /// 49: A message is not granted before it is due.
    NotBefore,
    /// 50: A message is not granted for the first time at or after its deadline. The core does not
    /// retry it after the deadline either; the checker verifies the first grant only.
    Deadline,
    /// 51: After the faults end, every message is delivered and settled, and every outbox is empty.
    EventualDrain,
    /// 52: Counters equal what was committed.
    Conservation,
    /// 55: The ack, the outcomes, the messages and the pointers of one commit are one batch.
    AtomicCommit,
    /// 56: A node can decode every row that was written. At the end of a run, no row of a
    /// deleted object remains, except rows that are listed as garbage.
    Readable,
    /// 57: A lease token or effect token that was issued before a restore is rejected. One
    /// exception: a commit that the backup contains returns its result again. A dead-letter id that
    /// was issued before the restore names the same dead letter or none.
    RestoreFencing,
    /// 58: Everything that an operator is shown was committed.
    TrueAnswers,
    /// 59: A paused group receives nothing.
    Pause,
    /// 60: An attempt counts toward `max_attempts` only if its delivery was written to a
    /// consumer. The rule does not apply to attempts during which the shard was claimed again
    /// or the clock jumped.
    FairAttempts,
    /// 61: While a server runs, the authority clock follows a forward jump of more than an hour
    /// only after it is confirmed.
    ConfirmedClockJump,
    /// 62: A worker that has left gets nothing for a minute, unless its shard is claimed again.
    Leave,
    /// 63: An act of an operator that changes something is recorded once, in the commit that
    /// changes it. The rule does not apply while a node of an older release is alive.
    RecordedActs,
}

impl Invariant {
    /// Every invariant, in order.
    pub const ALL: [Invariant; 52] = {
        use Invariant::*;
        [
            NoLoss,
            NoPhantom,
            SameContent,
            OnePosition,
            RejectedIsAbsent,
            StoredAtMostOnce,
            RealTimeOrder,
            MonotonicNumbers,
            AttemptsGrow,
            OneLease,
            StaleIsRejected,
            AckIsFinal,
            AckSettlesOne,
            OneEnd,
            NoEarlyRedelivery,
            Backoff,
            IdempotentAck,
            AttemptsCounted,
            MaxAttempts,
            DeadLetteredOnce,
            NoEarlyDeadLetter,
            FaithfulDeadLetter,
            RedrivenOnce,
            CursorMovesForward,
            NoSkip,
            ProducerOrder,
            InFlightLimit,
            MessageSize,
            OneOwnerPerEpoch,
            CommitFencing,
            DurableReplies,
            StepDown,
            OneExecutor,
            StaleFinishIsRejected,
            ExactReplay,
            RequestMismatch,
            Dedupe,
            RecordExpiry,
            TenantIsolation,
            NotBefore,
            Deadline,
            EventualDrain,
            Conservation,
            AtomicCommit,
            Readable,
            RestoreFencing,
            TrueAnswers,
            Pause,
            FairAttempts,
            ConfirmedClockJump,
            Leave,
            RecordedActs,
        ]
    };
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
