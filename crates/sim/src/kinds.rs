//! The kinds of client operations: the rows of the table of operations and faults.

use driftq_core::Command;

/// All kinds.
pub(crate) const OPERATIONS: [&str; 29] = [
    "ack",
    "audit",
    "begin",
    "commit",
    "create group",
    "create topic",
    "delete group",
    "delete topic",
    "explain",
    "extend",
    "finish",
    "join",
    "leave worker",
    "list",
    "nack",
    "patch",
    "pause",
    "peek",
    "pointer",
    "produce",
    "purge",
    "redrive",
    "repair",
    "resolve",
    "resume",
    "seek",
    "view",
    "would delete",
    "would purge",
];

/// The kind of a command.
pub(crate) fn kind_of(command: &Command) -> &'static str {
    match command {
        Command::Ack(_) => "ack",
        Command::ViewChain { .. } | Command::ReadAudit(_) => "audit",
        Command::Begin(_) => "begin",
        Command::Commit(_) => "commit",
        Command::CreateGroup(..) => "create group",
        Command::CreateTopic(_) => "create topic",
        Command::DeleteGroup(_) => "delete group",
        Command::DeleteTopic(_) => "delete topic",
        Command::Explain(_) => "explain",
        Command::Extend(_) | Command::ExtendEffect(_) => "extend",
        Command::Finish(_) => "finish",
        Command::Join(_) => "join",
        Command::ListDead(_) | Command::ListEffects(_) | Command::ListPointers(_) => "list",
        Command::Nack(_) => "nack",
        Command::PatchTopic(_) => "patch",
        Command::Pause(_) => "pause",
        Command::Peek(_) => "peek",
        Command::ViewPointer(_) => "pointer",
        Command::Produce(_) | Command::ProduceWithNonce(_) => "produce",
        Command::Purge(_) => "purge",
        Command::Redrive(_) => "redrive",
        Command::Resolve(_) => "resolve",
        Command::Resume(_) => "resume",
        Command::Seek(_) => "seek",
        Command::ViewTopic(_)
        | Command::ViewGroup(_)
        | Command::ViewEffect(_)
        | Command::ListTopics { .. }
        | Command::ViewAll { .. }
        | Command::ListGroups(_)
        | Command::ViewRouted(_) => "view",
        Command::WouldDeleteTopic(_) | Command::WouldDeleteGroup(_) => "would delete",
        Command::WouldPurge(_) => "would purge",
        Command::Repair(_) => "repair",
        Command::LeaveWorker { .. } => "leave worker",
        Command::Recorded(recorded) => kind_of(&recorded.command),
        Command::Leave(_)
        | Command::GiveBack(_)
        | Command::Arrive(_)
        | Command::Arrived(_)
        | Command::StorageLow(_) => unreachable!("no client sends it"),
    }
}
