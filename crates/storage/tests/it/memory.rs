//! A commit in two halves.

use driftq_core::{BatchNo, ShardId, Timestamp};
use driftq_storage::conformance::wait;
use driftq_storage::{Engine as _, EngineError, Memory};

const SHARD: ShardId = ShardId(0);

#[test]
fn between_its_halves_no_claim_comes() {
    let engine = Memory::new(|| Timestamp(0));
    let (owner, _) = wait(engine.claim(SHARD)).expect("it is free");
    engine.begin(owner).expect("it is the owner");
    assert!(matches!(wait(engine.claim(SHARD)), Err(EngineError::Unknown(_))));
    assert!(matches!(engine.begin(owner), Err(EngineError::Unknown(_))));
    engine.end(owner, Some((BatchNo(1), Vec::new()))).expect("it is the first");
    wait(engine.claim(SHARD)).expect("it is free again");
    assert_eq!(engine.begin(owner), Err(EngineError::Fenced));
}

#[test]
fn without_its_second_half_nothing_has_happened() {
    let engine = Memory::new(|| Timestamp(0));
    let (owner, _) = wait(engine.claim(SHARD)).expect("it is free");
    engine.begin(owner).expect("it is the owner");
    engine.end(owner, None).expect("nothing is to be done");
    engine.begin(owner).expect("nobody has claimed it");
    let second = engine.end(owner, Some((BatchNo(2), Vec::new())));
    assert_eq!(second, Err(EngineError::Fenced), "the first is missing");
}
