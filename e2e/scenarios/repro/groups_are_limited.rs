//! A shard accepts 2 000 000 cursors (groups × partitions) and rejects the next group instead of
//! using more memory.

use serde_json::json;

use crate::scene::{Fixture, Seen};

const PARTITIONS: u32 = 1_024;
/// The first group that does not fit is number 1 954.
const GROUPS: usize = 1_960;

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Seen> {
    let scene = Fixture::start(driftq).await?;
    let topic = json!({ "name": "wide", "partitions": PARTITIONS });
    scene.api.post("topics", &topic).await?.ok()?;
    let (before, _) = scene.memory()?;
    for number in 1..=GROUPS {
        let poll =
            json!({ "topic": "wide", "group": format!("g{number}"), "owner": "w", "wait_ms": 0 });
        let reply = scene.api.post("receive", &poll).await?;
        if reply.status != 200 {
            let is_limit = reply.status == 429 && reply.body["reason"] == "cursors";
            return Ok(Seen::kept_if(is_limit, || format!("group {number} gets {reply}")));
        }
    }
    let (after, _) = scene.memory()?;
    Ok(Seen::Broken(format!(
        "{GROUPS} groups of {PARTITIONS} partitions were accepted; memory from {before:.0} to {after:.0} MB"
    )))
}
