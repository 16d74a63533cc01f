//! Calls between clients and the node: they are delayed, lost and recorded.

use std::sync::Arc;

use driftq_checker::history::{
    Decision, MessageStatus, MessageStatusKind, Name, Op, Reply as Told, Right, Status, What,
};
use driftq_core::command::{
    Act, BeginDecision, CommitReceipt, ExplainState, Explained, ExplainedMessage, Full, PeekState,
    Peeked, RecordedCommand, Stale,
};
use driftq_core::effect::EffectState;
use driftq_core::{Command, Rejection, Reply, Ticket};

use crate::facts::operator::settings_text;
use crate::facts::{effect_of, in_words};
use crate::kinds::kind_of;
use crate::node::group_counters;
use crate::world::{CallReply, Outcome, SimEvent, World};

impl World {
    /// Sends a call of a client.
    pub(crate) fn call(&mut self, client: usize, op: Op, command: Command) -> Ticket {
        self.clients.next_ticket += 1;
        let ticket = Ticket(self.clients.next_ticket);
        self.stats.operations += 1;
        self.clients.calls.insert(ticket, client);
        self.clients.kinds.insert(ticket, kind_of(&command));
        let command = recorded(ticket, command);
        self.record(client as u32 + 1, What::Invoked { call: ticket.0, op });
        let delay = self.delay(5);
        self.later(delay, SimEvent::Request { ticket, command: Box::new(command) });
        ticket
    }

    /// A reply, or its absence, reaches a client.
    pub(crate) fn answer(&mut self, ticket: Ticket, reply: CallReply) {
        let Some(client) = self.clients.calls.remove(&ticket) else {
            return;
        };
        self.clients.kinds.remove(&ticket);
        let call = ticket.0;
        let (what, outcome) = match reply {
            CallReply::Answer(answered) => match *answered {
                Ok(reply) => {
                    self.saw_reply(&reply);
                    let group = self.clients.peeks.remove(&ticket);
                    (What::Done { call, reply: told(&reply, group) }, Outcome::Done(reply))
                }
                Err(rejection) => {
                    let (code, state) = code(&rejection);
                    self.saw_rejection(&rejection);
                    (What::Refused { call, code, state }, Outcome::Refused(rejection))
                }
            },
            CallReply::NotServing => {
                (What::Refused { call, code: "UNAVAILABLE".into(), state: None }, Outcome::NotSent)
            }
            CallReply::Nothing => (What::Unknown { call }, Outcome::Unknown),
        };
        self.record(client as u32 + 1, what);
        self.on_reply(client, ticket, outcome);
    }

    fn saw_rejection(&mut self, rejection: &Rejection) {
        let state = match rejection {
            Rejection::KeyConflict | Rejection::KeyConflictIn { .. } => "key conflict refused",
            Rejection::NonceConflict => "nonce conflict refused",
            Rejection::Unrouted => "message refused until it is routed",
            Rejection::Exhausted { full: Full::Messages(_), .. } => "backlog full: messages",
            Rejection::Exhausted { full: Full::Bytes(_), .. } => "backlog full: bytes",
            Rejection::StaleLease { state, .. } => {
                match state {
                    Stale::Leased => "stale ack refused",
                    Stale::Generation => "settle refused: generation",
                    Stale::Settled => "settle refused: settled",
                    Stale::Waiting => "settle refused: waiting",
                    Stale::Dead => "settle refused: dead",
                    // Tombstones are kept for a day, longer than a run. Only a restore loses one.
                    Stale::Gone => return,
                }
            }
            Rejection::CommitConflict => "commit refused: other content",
            Rejection::InPart { .. } => "commit refused: part of it",
            _ => {
                if let Some(state) = saw_effect_rejection(rejection) {
                    state
                } else {
                    return;
                }
            }
        };
        self.stats.saw(state);
    }

    fn saw_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Finished { repeated, .. } => {
                self.stats.saw(if *repeated { "finish repeated" } else { "finish accepted" });
            }
            Reply::Committed { repeated, .. } => {
                self.stats.saw(if *repeated { "commit repeated" } else { "commit done" });
            }
            _ => {}
        }
    }
}

/// Sends a command of an operator as an act that is named after its call.
fn recorded(ticket: Ticket, command: Command) -> Command {
    let is_act = matches!(
        command,
        Command::CreateTopic(_)
            | Command::PatchTopic(_)
            | Command::DeleteTopic(_)
            | Command::CreateGroup(..)
            | Command::DeleteGroup(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Seek(_)
            | Command::Redrive(_)
            | Command::Purge(_)
            | Command::Resolve(_)
            | Command::Repair(_)
    );
    if !is_act {
        return command;
    }
    let act = Act { id: ticket.0.to_string().into(), by: "ops".into(), ..Act::default() };
    Command::Recorded(Box::new(RecordedCommand { act, command }))
}

fn saw_effect_rejection(rejection: &Rejection) -> Option<&'static str> {
    let state = match rejection {
        Rejection::RequestConflict => "effect refused: another request",
        Rejection::InProgress { .. } => "effect refused: in progress",
        Rejection::Parked { .. } => "effect refused: parked",
        Rejection::OutcomeConflict => "finish refused: another outcome",
        Rejection::StaleFence { fence, current, .. } => {
            if fence < current {
                "finish refused: stale fence"
            } else {
                "finish refused: fence is over"
            }
        }
        Rejection::Unfinished(_) => "ack refused: effects not finished",
        Rejection::EffectsExpired => "redrive refused: effects expired",
        _ => {
            return None;
        }
    };
    Some(state)
}

fn told(reply: &Reply, group: Option<Name>) -> Told {
    match reply {
        Reply::Purged { purged } => Told::Purged { count: *purged },
        Reply::Topic(view) => Told::Topic { settings: settings_text(&view.settings) },
        Reply::Pointer(pointer) => Told::Pointer { location: pointer.location.clone() },
        Reply::Explained(explained) => match &**explained {
            Explained::Group { view, .. } => Told::Group(group_counters(view)),
            Explained::Message(message) => Told::Inspected(explained_message(message)),
            Explained::Effect { .. } => Told::Ok,
        },
        Reply::Peeked(peeked) => Told::Inspected(peeked_messages(peeked, group)),
        Reply::Produced(receipt) => Told::Produced {
            id: receipt.id.to_string().into(),
            topic: receipt.final_topic.clone(),
            partition: receipt.partition,
            offset: receipt.offset,
            deduplicated: receipt.deduplicated,
        },
        Reply::Done | Reply::Extended { .. } => Told::Settled,
        Reply::Redriven { new, already } => {
            Told::Redriven { new: new.to_string().into(), already: *already }
        }
        Reply::Began(began) => {
            let row = &began.effect.row;
            let decision = match began.decision {
                BeginDecision::Execute => Decision::Execute,
                BeginDecision::Probe => Decision::Probe,
                BeginDecision::Replay => Decision::Replay(ended_as(row.state)),
                BeginDecision::Retryable => Decision::Retryable,
            };
            let right = Right { effect: effect_of(&row.name), life: row.born.0, fence: row.fence };
            let right = Box::new(right);
            Told::Began { decision, right, outcome: in_words(&row.outcome, row.renew) }
        }
        Reply::Committed { produced, repeated } => {
            let id = |told: &CommitReceipt| Some(told.receipt.as_ref()?.id.to_string().into());
            Told::Committed { produced: produced.iter().map(id).collect(), repeated: *repeated }
        }
        Reply::TopicCreated { .. }
        | Reply::TopicExists { .. }
        | Reply::TopicDeleted { .. }
        | Reply::GroupCreated { .. }
        | Reply::GroupExists { .. }
        | Reply::GroupDeleted { .. }
        | Reply::Sought(_)
        | Reply::Repaired(_)
        | Reply::Joined { .. }
        | Reply::Group(_)
        | Reply::Topics(_)
        | Reply::All(_)
        | Reply::Groups(_)
        | Reply::DeadLetters(_)
        | Reply::Arrived(_)
        | Reply::Elsewhere(_)
        | Reply::Each(_)
        | Reply::Pointers(_)
        | Reply::Finished { .. }
        | Reply::Effect(_)
        | Reply::TakenKey(_)
        | Reply::Effects(_)
        | Reply::Chain(_)
        | Reply::Audit(_)
        | Reply::WouldDeleteTopic { .. }
        | Reply::WouldDeleteGroup { .. } => Told::Ok,
    }
}

/// The states in an explanation, if the message still exists.
fn explained_message(message: &ExplainedMessage) -> Vec<MessageStatus> {
    let groups = message.groups.iter().filter(|_| message.message.is_some());
    let shown = groups.map(|group| MessageStatus {
        id: message.id.to_string().into(),
        offset: message.offset,
        group: group.group.clone(),
        state: match group.state {
            ExplainState::Ready => MessageStatusKind::Ready,
            ExplainState::Leased => MessageStatusKind::Leased,
            ExplainState::Waiting => MessageStatusKind::Waiting,
            ExplainState::Settled => MessageStatusKind::Settled,
            ExplainState::Dead => MessageStatusKind::Dead,
            ExplainState::Trimmed => MessageStatusKind::Trimmed,
        },
        attempts: group.attempts,
    });
    shown.collect()
}

fn peeked_messages(peeked: &Peeked, group: Option<Name>) -> Vec<MessageStatus> {
    let Some(group) = group else { return Vec::new() };
    let shown = peeked.messages.iter().filter_map(|message| {
        Some(MessageStatus {
            id: message.id.to_string().into(),
            offset: message.offset,
            group: group.clone(),
            state: match message.state? {
                PeekState::Ready => MessageStatusKind::Ready,
                PeekState::Leased => MessageStatusKind::Leased,
                PeekState::Waiting => MessageStatusKind::Waiting,
                PeekState::Settled => MessageStatusKind::Settled,
            },
            attempts: message.attempts,
        })
    });
    shown.collect()
}

/// The status of a replayed outcome in the history.
fn ended_as(state: EffectState) -> Status {
    match state {
        EffectState::Succeeded => Status::Succeeded,
        EffectState::FailedFinal => Status::FailedFinal,
        EffectState::FailedRetryable => Status::FailedRetryable,
        EffectState::InProgress | EffectState::InDoubt | EffectState::Parked => Status::Unknown,
    }
}

fn code(rejection: &Rejection) -> (Name, Option<Name>) {
    let plain = |code: &str| (Arc::from(code), None);
    match rejection {
        Rejection::Invalid { .. } | Rejection::DeadlinePassed | Rejection::TokenRequired => {
            plain("INVALID_ARGUMENT")
        }
        Rejection::Unrouted => plain("UNAVAILABLE"),
        Rejection::NotFound(_) => plain("NOT_FOUND"),
        Rejection::TopicExists { .. } | Rejection::PointerExists(_) => plain("ALREADY_EXISTS"),
        Rejection::NotOwner
        | Rejection::OlderNodes
        | Rejection::NewerRows
        | Rejection::NotDelivered
        | Rejection::HasConsumers
        | Rejection::Unfinished(_)
        | Rejection::NotInDoubt(_)
        | Rejection::EffectsExpired
        | Rejection::Undeliverable
        | Rejection::DeadLetterTopic => plain("FAILED_PRECONDITION"),
        Rejection::StaleLease { state, .. } => ("STALE_LEASE".into(), Some(state.as_str().into())),
        Rejection::TooLarge { .. } => plain("TOO_LARGE"),
        Rejection::StaleFence { state, .. } => ("STALE_FENCE".into(), Some(state.as_str().into())),
        Rejection::InProgress { .. } => plain("IN_PROGRESS"),
        Rejection::Parked { .. } => plain("IN_DOUBT"),
        Rejection::KeyConflict
        | Rejection::NonceConflict
        | Rejection::KeyConflictIn { .. }
        | Rejection::RequestConflict
        | Rejection::OutcomeConflict
        | Rejection::CommitConflict => plain("CONFLICT"),
        Rejection::InPart { why, .. } => code(why),
        Rejection::Exhausted { .. } => plain("RESOURCE_EXHAUSTED"),
        Rejection::Poisonous | Rejection::Damaged { .. } => plain("INTERNAL"),
    }
}
