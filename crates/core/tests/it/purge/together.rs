//! Purges concurrent with other decisions and reads.

use driftq_core::command::{
    DeadFilter, Explain, ListDead, Missing, NackKind, Purge, Redrive, TopicName,
};
use driftq_core::limits::PURGE_MAX;
use driftq_core::{
    Command, Lane, MessageId, PipelineConfig, Rejection, Reply, SettingsPatch, ShardConfig,
    ShardId, Ticket, TopicId,
};

use crate::held::{Held, join, nack, produce, topic};

fn id(offset: u64) -> MessageId {
    MessageId { restore: 0, shard: ShardId(0), topic: TopicId(5), lane: Lane(0), offset }
}

fn purge(ids: Vec<MessageId>) -> Command {
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    Command::Purge(Box::new(Purge { topic, ids, by: "ops".into(), reason: "test".into() }))
}

#[test]
fn ids_that_are_not_dead_letters_of_the_topic_are_ignored() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    let nothing = || "Ok(Purged { purged: 0 })".to_owned();
    assert_eq!(format!("{:?}", held.ask(purge(vec![id(0)]))), nothing(), "no dead letters yet");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    held.ask(produce("m")).expect("stored");
    let (_, delivery) = held.deliveries.remove(0);
    held.ask(nack(&delivery.token, NackKind::Final)).expect("dead");
    let of_the_source = MessageId { topic: TopicId(1), ..id(0) };
    let of_no_lane = MessageId { lane: Lane(7), ..id(0) };
    let strangers = vec![of_the_source, of_no_lane, id(1), id(u64::MAX)];
    assert_eq!(format!("{:?}", held.ask(purge(strangers))), nothing());
    let most = vec![id(0); PURGE_MAX];
    assert_eq!(format!("{:?}", held.ask(purge(most))), "Ok(Purged { purged: 1 })");
    let refused = held.ask(purge(vec![id(0); PURGE_MAX + 1]));
    assert!(
        matches!(&refused, Err(Rejection::Invalid { field, .. }) if field == "ids"),
        "{refused:?}"
    );
}

#[test]
fn a_dead_letter_can_be_purged_in_the_batch_that_created_it() {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    held.ask(produce("m")).expect("stored");
    held.ask(produce("n")).expect("stored");
    let tokens = [0, 1].map(|at| held.deliveries[at].1.token.clone());
    // The first dead letter creates the dead-letter topic.
    held.ask(nack(&tokens[0], NackKind::Final)).expect("dead");
    let purged = held.arrive(purge(vec![id(1)]));
    held.arrive(nack(&tokens[1], NackKind::Final));
    held.turn();
    assert_eq!((held.commits.len(), held.reads.len()), (1, 0), "one batch, and nothing is read");
    held.settle();
    assert_eq!(held.answer(purged).as_deref(), Some("purged 1"));
    held.crash();
    let Command::Join(mut reader) = join(2, "undertaker", 9, 30_000) else { unreachable!() };
    reader.name.topic.topic = "dlq.orders".into();
    held.deliveries.clear();
    held.ask(Command::Join(reader)).expect("joined");
    let offsets: Vec<u64> = held.deliveries.iter().map(|(_, one)| one.hold.offset).collect();
    assert_eq!(offsets, [0]);
}

/// Three dead letters, none of them in memory.
fn three_dead() -> Held {
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    for _ in 0..3 {
        held.ask(produce("m")).expect("stored");
        let (_, delivery) = held.deliveries.remove(0);
        held.ask(nack(&delivery.token, NackKind::Final)).expect("dead");
    }
    held.crash();
    held
}

/// Reads the rows of every read in flight, purges the second dead letter, and only then completes
/// the reads.
fn purge_during_reads(held: &mut Held, command: Command) -> Ticket {
    let purged = held.arrive(purge(vec![id(1)]));
    held.turn();
    held.finish_read();
    held.turn();
    assert_eq!(held.reads.len(), 1, "the purge knows the dead letter and reads its row");
    let ticket = held.arrive(command);
    held.turn();
    assert_eq!(held.reads.len(), 2, "the other reads too");
    held.look();
    held.look();
    held.finish_read();
    while held.answer(purged).is_none() {
        held.turn();
        held.finish_commit();
    }
    assert_eq!(held.answer(purged).as_deref(), Some("purged 1"));
    held.finish_read();
    held.settle();
    assert!(held.damaged.is_empty());
    ticket
}

#[test]
fn a_page_read_for_a_consumer_does_not_restore_a_purged_dead_letter() {
    let mut held = three_dead();
    let Command::Join(mut reader) = join(2, "undertaker", 9, 30_000) else { unreachable!() };
    reader.name.topic.topic = "dlq.orders".into();
    purge_during_reads(&mut held, Command::Join(reader));
    let offsets: Vec<u64> = held.deliveries.iter().map(|(_, one)| one.hold.offset).collect();
    assert_eq!(offsets, [0, 2]);
}

#[test]
fn a_page_read_for_a_command_does_not_restore_a_purged_dead_letter() {
    let mut held = three_dead();
    let explain = Explain::Id { namespace: "default".into(), id: id(1) };
    let ticket = purge_during_reads(&mut held, Command::Explain(Box::new(explain)));
    assert_eq!(held.answer(ticket).as_deref(), Some("refused: no such message"));
}

#[test]
fn rows_read_for_a_list_do_not_restore_a_purged_dead_letter() {
    let mut held = three_dead();
    let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
    let filter = DeadFilter::default();
    let list = ListDead { topic, below: None, filter, limit: 9, values: false };
    let ticket = purge_during_reads(&mut held, Command::ListDead(Box::new(list)));
    let Ok(Reply::DeadLetters(dead)) = &held.answers[&ticket] else { panic!("it was answered") };
    let offsets: Vec<u64> = dead.letters.iter().map(|letter| letter.row.offset).collect();
    assert_eq!(offsets, [2, 0]);
}

/// An id issued after the backup is unknown after the restore, even if another dead letter has its
/// position.
#[test]
fn an_id_issued_before_a_restore_names_no_later_dead_letter() {
    let dead = |held: &mut Held, value: &str| {
        held.deliveries.clear();
        held.ask(produce(value)).expect("stored");
        let (_, delivery) = held.deliveries.remove(0);
        held.ask(nack(&delivery.token, NackKind::Final)).expect("dead");
    };
    let redrive = |id| {
        let topic = TopicName { namespace: "default".into(), topic: "orders".into() };
        let (by, reason) = ("ops".into(), "test".into());
        Command::Redrive(Redrive { topic, id, force: false, by, reason })
    };
    let mut held = Held::new();
    held.ask(topic(1, SettingsPatch::default())).expect("a topic");
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    dead(&mut held, "before the backup");
    let backup = held.engine.snapshot();
    dead(&mut held, "after the backup");
    let restored = ShardConfig { restore: 1, ..ShardConfig::default() };
    let mut held = Held::of(restored, backup, held.now, PipelineConfig::default());
    held.ask(join(1, "biller", 9, 30_000)).expect("joined");
    dead(&mut held, "after the restore");
    let purged = |held: &mut Held, ids| format!("{:?}", held.ask(purge(ids)));
    assert_eq!(purged(&mut held, vec![id(1)]), "Ok(Purged { purged: 0 })");
    let missing = Rejection::NotFound(Missing::Message);
    assert_eq!(held.ask(redrive(id(1))).expect_err("it is lost"), missing);
    assert!(held.ask(redrive(id(0))).is_ok(), "it was in the backup");
    let now = MessageId { restore: 1, ..id(1) };
    assert_eq!(purged(&mut held, vec![now, id(1)]), "Ok(Purged { purged: 1 })");
}
