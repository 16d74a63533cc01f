//! A thousand consumers without messages.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::{Wire, get, post};
use driftq_e2e::usage::{cpu, memory};

const STREAMS: usize = 1_000;
/// Longer than the heartbeat interval, because heartbeats are part of the cost.
const IDLE: Duration = Duration::from_secs(20);
/// Wait after opening the streams, before the measurement.
const SETTLE: Duration = Duration::from_secs(2);
/// Messages that show, at the end, that the streams still work.
const MESSAGES: usize = 200;
/// A blank line as an HTTP chunk.
const HEARTBEAT: &str = "1\r\n\n\r\n";
const DELIVERY: Duration = Duration::from_secs(3);

pub(crate) async fn run(driftq: &str, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    let mut wire = server.connect().await?;
    wire.json(&post("/v1/topics", &json!({ "name": "idle", "partitions": 4 }))).await?;
    let pid = server.pid()?;
    let before = memory(pid)?.resident;
    let mut streams = try_join_all((0..STREAMS).map(|number| open(&server, number))).await?;
    sleep(SETTLE).await;
    let each_kb = (memory(pid)?.resident - before) * 1e3 / STREAMS as f64;
    let (begin, used) = (Instant::now(), cpu(pid)?);
    sleep(IDLE).await;
    let share = (cpu(pid)? - used).as_secs_f64() / begin.elapsed().as_secs_f64();
    verdict.note("memory of an idle stream", each_kb, " kB");

    let message = |at: usize| json!({ "topic": "idle", "key": format!("k{at}"), "value": "v" });
    let messages: Vec<_> = (0..MESSAGES).map(message).collect();
    wire.json(&post("/v1/produce/batch", &json!({ "messages": messages }))).await?;
    let until = Instant::now() + DELIVERY;
    let seen = join_all(streams.iter_mut().map(|stream| read(stream, until))).await;
    let alive = seen.iter().filter(|seen| seen.contains(HEARTBEAT)).count();
    let delivered: usize = seen.iter().map(|seen| seen.matches("\"lease\":").count()).sum();
    verdict.under("CPU of 1000 idle streams", share * 100.0, 2.0, " % of a core");
    verdict.must(format!("{alive} of {STREAMS} streams had a heartbeat"), alive == STREAMS);
    let is_all = delivered == MESSAGES;
    verdict.must(format!("{delivered} of {MESSAGES} messages then delivered"), is_all);
    let complaints = server.complaints()?;
    verdict.must(format!("no error in the log{complaints}"), complaints.is_empty());
    Ok(())
}

async fn open(server: &Server, number: usize) -> anyhow::Result<Wire> {
    let mut wire = server.connect().await?;
    let path = format!("/v1/consume?topic=idle&group=crowd&owner=worker-{number}");
    let status = wire.ask(&get(&path)).await?.status;
    anyhow::ensure!(status == 200, "a stream is rejected with {status}");
    Ok(wire)
}

/// Returns everything received until a point in time.
async fn read(stream: &mut Wire, until: Instant) -> String {
    let mut seen = String::new();
    while let Ok(Ok(bytes)) = timeout_at(until, stream.next_bytes()).await {
        seen.push_str(&String::from_utf8_lossy(bytes));
    }
    seen
}
