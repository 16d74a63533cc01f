//! When an idle group expires, the first offsets of its partitions stay where retention has moved
//! them.

use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::clock::{Clock, now_ms};
use serde_json::{Value, json};

use crate::scene::{Fixture, Seen};

/// The minimum of both settings.
const LIFETIME_MS: u64 = 60_000;
/// Retention runs eight times per retention period. Its progress is not visible from outside, so
/// wait.
const RETENTION_LOOKS: Duration = Duration::from_millis(LIFETIME_MS / 8 + 1_000);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 300;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let scene = expire(scene).await?;
    let body = json!({ "topic": "t", "group": "new", "owner": "w", "max": 5, "wait_ms": 2_000 });
    for _ in 0..3 {
        let reply = scene.api.post("receive", &body).await?;
        if reply.status != 200 {
            return Ok(Seen::Broken(format!("a new group from the earliest offset gets {reply}")));
        }
    }
    let reply = scene.api.post("produce", &json!({ "topic": "t", "value": "x" })).await?;
    Ok(Seen::kept_if(reply.status == 200, || format!("produce gets {reply}")))
}

/// Creates the topic `t` such that, at a restart, the retention of its messages and the expiry of
/// the group `g` are due together.
pub(crate) async fn expire(mut scene: Fixture) -> anyhow::Result<Fixture> {
    let settings = json!({ "retention_ms": LIFETIME_MS, "group_idle_ms": LIFETIME_MS });
    scene.topic("t", 1, settings).await?;
    let began = now_ms()?;
    settle_ten(&scene, Some(0)).await?;
    tokio::time::sleep(RETENTION_LOOKS).await;
    scene.server.restart_at(Clock::at(began + 30_500)?).await?;
    settle_ten(&scene, None).await?;
    tokio::time::sleep(RETENTION_LOOKS).await;
    // The first ten messages are due at once. The other ten and the group are due at the first
    // check after the restart.
    scene.server.restart_at(Clock::at(began + 93_500)?).await?;
    until(&scene, "topics/t", |topic| topic["groups"] == json!([])).await?;
    Ok(scene)
}

/// Produces ten messages and acks them, except for one that is nacked with a delay of a week.
async fn settle_ten(scene: &Fixture, nacked: Option<u64>) -> anyhow::Result<()> {
    for number in 0..10 {
        scene.produce("t", &format!("v{number}")).await?;
    }
    let mut count = 0;
    while count < 10 {
        let more = scene.receive("t", 10, 3_000).await?;
        anyhow::ensure!(!more.is_empty(), "the messages were not delivered");
        for delivery in &more {
            if delivery["offset"].as_u64() == nacked {
                scene.settle("nack", delivery, json!({ "delay_ms": 604_800_000 })).await?
            } else {
                scene.settle("ack", delivery, json!({})).await?
            }
        }
        count += more.len();
    }
    Ok(())
}

async fn until(scene: &Fixture, path: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let mut last = Value::Null;
    for _ in 0..LOOKS_MAX {
        let reply = scene.api.get(path).await?;
        if is_so(&reply.body) {
            return Ok(());
        }
        last = reply.body;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(anyhow::anyhow!("{last}")).context("the topic did not reach the expected state")
}
