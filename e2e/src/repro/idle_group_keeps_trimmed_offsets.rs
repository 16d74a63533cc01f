//! A group that expires by idleness leaves the first offset of its partitions where retention has put it.

use std::time::Duration;

use anyhow::Context as _;
use driftq_e2e::clock::{Clock, now_ms};
use serde_json::{Value, json};

use crate::scene::{Scene, Seen};

/// The shortest that both settings allow.
const LIFETIME_MS: u64 = 60_000;
/// Retention is looked at eight times in its time; what it notes then is not shown anywhere.
const RETENTION_LOOKS: Duration = Duration::from_millis(LIFETIME_MS / 8 + 1_000);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 300;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Scene::start(driftq).await?;
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

/// The topic `t`, at whose restart the retention of messages and the expiry of the group `g` are due together.
pub(crate) async fn expire(mut scene: Scene) -> anyhow::Result<Scene> {
    let settings = json!({ "retention_ms": LIFETIME_MS, "group_idle_ms": LIFETIME_MS });
    scene.topic("t", 1, settings).await?;
    let began = now_ms()?;
    settle_ten(&scene, Some(0)).await?;
    tokio::time::sleep(RETENTION_LOOKS).await;
    scene.server.restart_at(Clock::at(began + 30_500)?).await?;
    settle_ten(&scene, None).await?;
    tokio::time::sleep(RETENTION_LOOKS).await;
    // The first ten are due at once. The other ten and the group are due at the first look after the restart.
    scene.server.restart_at(Clock::at(began + 93_500)?).await?;
    until(&scene, "topics/t", |topic| topic["groups"] == json!([])).await?;
    Ok(scene)
}

/// Ten messages, acked but for one that is nacked for a week.
async fn settle_ten(scene: &Scene, nacked: Option<u64>) -> anyhow::Result<()> {
    for number in 0..10 {
        scene.produce("t", &format!("v{number}")).await?;
    }
    let mut count = 0;
    while count < 10 {
        let more = scene.receive("t", 10, 3_000).await?;
        anyhow::ensure!(!more.is_empty(), "the messages are not delivered");
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

async fn until(scene: &Scene, path: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let mut last = Value::Null;
    for _ in 0..LOOKS_MAX {
        let reply = scene.api.get(path).await?;
        if is_so(&reply.body) {
            return Ok(());
        }
        last = reply.body;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(anyhow::anyhow!("{last}")).context("the topic does not become as expected")
}
