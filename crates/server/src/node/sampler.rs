//! Takes samples of the shards for their series.

use std::time::Duration;

use super::Node;
use crate::clock::NodeClock;
use crate::series::Step;

/// How long before the end of a slot its sample is taken.
const BEFORE_MS: u64 = 50;
/// A shard that does not answer in time adds its counts later.
const WAIT: Duration = Duration::from_secs(1);

/// Takes a sample of every shard shortly before each slot ends.
pub(crate) async fn sample_regularly(node: Node, clock: NodeClock) {
    loop {
        let into_ms = (clock.now().0 + BEFORE_MS) % Step::Fine.ms();
        tokio::time::sleep(Duration::from_millis(Step::Fine.ms() - into_ms)).await;
        let _late = tokio::time::timeout(WAIT, node.sample()).await;
    }
}
