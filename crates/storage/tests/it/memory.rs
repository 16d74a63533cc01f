//! A commit of the memory engine in two steps.

use driftq_core::{BatchNo, ShardId, Timestamp};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine as _, EngineError, Memory};

const SHARD: ShardId = ShardId(0);

#[test]
fn a_claim_between_begin_and_end_fails() {
    let engine = Memory::new(|| Timestamp(0));
    let (owner, _) = wait(engine.claim(SHARD)).expect("it is free");
    engine.begin(owner).expect("it is the owner");
    assert!(matches!(wait(engine.claim(SHARD)), Err(EngineError::Unknown(_))));
    assert!(matches!(engine.begin(owner), Err(EngineError::Unknown(_))));
    engine.end(owner, Some((BatchNo(1), Vec::new()))).expect("it is the first batch");
    wait(engine.claim(SHARD)).expect("it is free again");
    assert_eq!(engine.begin(owner), Err(EngineError::Fenced));
}

#[test]
fn a_commit_without_its_end_stores_nothing() {
    let engine = Memory::new(|| Timestamp(0));
    let (owner, _) = wait(engine.claim(SHARD)).expect("it is free");
    engine.begin(owner).expect("it is the owner");
    engine.end(owner, None).expect("there is nothing to store");
    engine.begin(owner).expect("it has not been claimed");
    let second = engine.end(owner, Some((BatchNo(2), Vec::new())));
    assert_eq!(second, Err(EngineError::Fenced), "the first batch is missing");
}
