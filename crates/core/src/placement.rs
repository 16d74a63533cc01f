//! The shard of a topic or effect. It depends on the name alone, so that all nodes agree without a
//! lookup. The number of shards is fixed when a storage is created.

use crate::id::ShardId;

/// The prefix of dead-letter topics. A dead-letter topic is on the shard of its source topic.
const DEAD_LETTERS: &str = "dlq.";

/// Returns the shard of a topic, its groups and its messages.
pub fn shard_of_topic(namespace: &str, topic: &str, shards: u32) -> ShardId {
    shard_of(&[namespace, source_of(topic).unwrap_or(topic)], shards)
}

/// Whether a topic is a dead-letter topic.
pub fn is_dead_letters(topic: &str) -> bool {
    source_of(topic).is_some()
}

/// Returns the name of the topic whose dead letters the named topic keeps.
pub(crate) fn source_of(topic: &str) -> Option<&str> {
    topic.strip_prefix(DEAD_LETTERS)
}

/// Returns the shard of an effect that belongs to no delivery.
pub fn shard_of_effect(namespace: &str, scope: &str, key: &str, shards: u32) -> ShardId {
    shard_of(&[namespace, scope, key], shards)
}

fn shard_of(names: &[&str], shards: u32) -> ShardId {
    if shards <= 1 {
        return ShardId(0);
    }
    let mut hasher = blake3::Hasher::new_derive_key("driftq placement v1");
    for name in names {
        // The lengths are hashed too, so that different lists of names have different inputs.
        hasher.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes());
    }
    let hash = hasher.finalize();
    let first = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    ShardId((u64::from_be_bytes(*first) % u64::from(shards)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic on another shard would be lost, so these values must never change.
    #[test]
    fn names_stay_where_they_are() {
        let shards: Vec<u32> = ["orders", "receipts", "refunds", "dlq.orders"]
            .map(|topic| shard_of_topic("default", topic, 64).0)
            .to_vec();
        assert_eq!(shards, [3, 32, 0, 3]);
        assert_eq!(shard_of_topic("default", "orders", 1), ShardId(0));
        assert_eq!(shard_of_effect("default", "op/charge", "k", 64), ShardId(24));
    }

    #[test]
    fn topics_are_spread() {
        let mut counts = [0_u32; 16];
        for number in 0..16_000 {
            counts[shard_of_topic("default", &format!("topic-{number}"), 16).0 as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
