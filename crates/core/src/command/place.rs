//! Which shard decides a command.

use crate::command::{BeginOf, Claim, Command, EffectQuery, Explain, Reply};
use crate::effect::Scope;
use crate::id::ShardId;
use crate::name::TopicName;
use crate::placement::shard_of_effect;

/// Where a command is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandTarget {
    /// On this shard.
    Shard(ShardId),
    /// On every shard. [`together`] merges the replies.
    Every,
    /// On the shard that the sender names. The command contains ids that only that shard knows.
    Known,
}

impl Command {
    /// Returns where this command is decided, given the number of shards.
    pub fn place(&self, shards: u32) -> CommandTarget {
        let topic = |name: &TopicName| CommandTarget::Shard(name.shard(shards));
        let claim = |claim: &Claim| match claim {
            Claim::Token(token, _) => CommandTarget::Shard(token.shard),
            Claim::Owner { name, .. } => topic(&name.topic),
        };
        let effect = |query: &EffectQuery| match &query.scope {
            Scope::Op(name) => {
                let EffectQuery { namespace, key, .. } = query;
                CommandTarget::Shard(shard_of_effect(namespace, &format!("op/{name}"), key, shards))
            }
            Scope::Delivery(name) => topic(&name.topic),
            Scope::Produce(name) => topic(name),
        };
        match self {
            Command::Recorded(recorded) => recorded.command.place(shards),
            Command::CreateTopic(create) => topic(&create.name),
            Command::PatchTopic(patch) => topic(&patch.name),
            Command::DeleteTopic(name)
            | Command::WouldDeleteTopic(name)
            | Command::ViewTopic(name)
            | Command::ListGroups(name) => topic(name),
            Command::CreateGroup(name, _)
            | Command::DeleteGroup(name)
            | Command::WouldDeleteGroup(name)
            | Command::Resume(name)
            | Command::ViewGroup(name) => topic(&name.topic),
            Command::Pause(pause) => topic(&pause.name.topic),
            Command::Seek(seek) => topic(&seek.name.topic),
            Command::Produce(produce) => topic(&produce.topic),
            Command::ProduceWithNonce(part) => {
                part.messages.first().map_or(CommandTarget::Known, |first| topic(&first.topic))
            }
            Command::Join(join) => topic(&join.name.topic),
            Command::Ack(of) => claim(of),
            Command::Nack(nack) => claim(&nack.claim),
            Command::Extend(extend) => claim(&extend.claim),
            Command::Redrive(redrive) => topic(&redrive.topic),
            Command::Peek(peek) => topic(&peek.topic),
            Command::ListDead(list) => topic(&list.topic),
            Command::Purge(purge) | Command::WouldPurge(purge) => topic(&purge.topic),
            Command::Repair(repair) => topic(&repair.topic),
            Command::Explain(explain) => match &**explain {
                Explain::Id { id, .. } => CommandTarget::Shard(id.shard),
                Explain::Message { topic: name, .. } => topic(name),
                Explain::Group(name) => topic(&name.topic),
                Explain::Effect(query) => effect(query),
            },
            Command::Begin(begin) => match &begin.of {
                BeginOf::Delivery { token, .. } => CommandTarget::Shard(token.shard),
                BeginOf::Scope { name, .. } => effect(name),
            },
            Command::Finish(finish) => CommandTarget::Shard(finish.token.shard),
            Command::ExtendEffect(extend) => CommandTarget::Shard(extend.token.shard),
            Command::Commit(commit) => CommandTarget::Shard(commit.token.shard),
            Command::Resolve(resolve) => effect(&resolve.name),
            Command::ViewEffect(query) => effect(query),
            Command::ViewPointer(query) => topic(&query.topic),
            Command::ListPointers(list) => topic(&list.topic),
            Command::ViewRouted(key) => CommandTarget::Shard(key.target),
            Command::ListEffects(list) => CommandTarget::Shard(list.shard),
            Command::ViewChain { shard, .. } => CommandTarget::Shard(*shard),
            Command::ReadAudit(read) => CommandTarget::Shard(read.shard),
            Command::ListTopics { .. }
            | Command::ViewAll { .. }
            | Command::LeaveWorker { .. }
            | Command::StorageLow(_) => CommandTarget::Every,
            Command::Leave(_) | Command::GiveBack(_) | Command::Arrive(_) | Command::Arrived(_) => {
                CommandTarget::Known
            }
        }
    }
}

/// Merges the replies of all shards.
pub fn merge_replies(replies: Vec<Reply>) -> Reply {
    let mut merged = None;
    for reply in replies {
        merged = Some(match (merged, reply) {
            (Some(Reply::Topics(mut topics)), Reply::Topics(more)) => {
                topics.extend(more);
                Reply::Topics(topics)
            }
            (Some(Reply::All(mut all)), Reply::All(more)) => {
                all.topics.extend(more.topics);
                all.groups.extend(more.groups);
                Reply::All(all)
            }
            // Only lists differ between shards.
            (Some(first), _) => first,
            (None, first) => first,
        });
    }
    match merged {
        Some(Reply::Topics(mut topics)) => {
            topics.sort_by(|one, other| one.name.cmp(&other.name));
            Reply::Topics(topics)
        }
        Some(Reply::All(mut all)) => {
            all.topics.sort_by(|one, other| one.name.cmp(&other.name));
            all.groups
                .sort_by(|one, other| (&one.topic, &one.name).cmp(&(&other.topic, &other.name)));
            Reply::All(all)
        }
        Some(other) => other,
        // There is at least one shard.
        None => Reply::Done,
    }
}
