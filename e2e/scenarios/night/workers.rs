//! Failures of workers and producers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Night;
use crate::rig::{Rig, Row};

type Rows = anyhow::Result<Vec<Row>>;

fn no_backoff(max_attempts: u32) -> Value {
    json!({ "max_attempts": max_attempts, "backoff_ms": 0, "max_backoff_ms": 0 })
}

/// Two workers are killed while they hold messages.
pub(crate) async fn dead_workers(night: &Night) -> Rows {
    let settings = json!({ "lease_ms": 3_000, "retry_policy": no_backoff(20) });
    let rig = Rig::start(night, settings).await?;
    let section = rig.operator.section_before("Dead workers").await?;
    let workers = [rig.stalled_worker("worker-1")?, rig.stalled_worker("worker-2")?];
    rig.produce(10).await?;
    rig.until_leased(4).await?;
    drop(workers);
    let row = rig.operator.answer_alert(section, "no consumer is connected").await?;
    let _worker = rig.healthy_worker("worker-1")?;
    Ok(vec![rig.operator.await_end(row).await?])
}

/// One of two workers takes long for each message.
pub(crate) async fn slow_consumer(night: &Night) -> Rows {
    let rig = Rig::start(night, json!({})).await?;
    let section = rig.operator.section_before("A slow consumer").await?;
    rig.produce(150).await?;
    let work = async |owner: &str, time: Duration| -> anyhow::Result<()> {
        loop {
            let delivery = rig.receive(owner).await?;
            tokio::time::sleep(time).await;
            rig.settle("ack", &delivery, json!({})).await?;
        }
    };
    let workers = async {
        tokio::try_join!(
            work("worker-1", Duration::from_millis(600)),
            work("worker-2", Duration::from_millis(1_500)),
        )
    };
    let row = tokio::select! {
        row = rig.operator.answer_alert(section, "the slowest is worker-2") => row?,
        failed = workers => failed.map(|_| unreachable!("workers never end"))?,
    };
    let _workers = [rig.healthy_worker("worker-3")?, rig.healthy_worker("worker-4")?];
    Ok(vec![rig.operator.await_end(row).await?])
}

/// A worker fails on one message each time.
pub(crate) async fn poison_message(night: &Night) -> Rows {
    let rig = Rig::start(night, json!({ "retry_policy": no_backoff(3) })).await?;
    let section = rig.operator.section_before("A poison message").await?;
    rig.produce(1).await?;
    for _ in 0..3 {
        let delivery = rig.receive("worker-1").await?;
        rig.settle("nack", &delivery, json!({ "reason": "cannot parse: no amount" })).await?;
    }
    let row = rig.operator.answer_alert(section, "cannot parse: no amount").await?;
    let _worker = rig.healthy_worker("worker-1")?;
    let redriven =
        rig.operator.run("driftq dlq redrive orders --by eva --comment 'fixed in 41f3' --yes");
    anyhow::ensure!(redriven.await? == "redriven: 1\n", "the dead letter is redriven");
    Ok(vec![rig.operator.await_end(row).await?])
}

/// A group is paused and forgotten.
pub(crate) async fn paused_group(night: &Night) -> Rows {
    let rig = Rig::start(night, json!({})).await?;
    let section = rig.operator.section_before("A paused group").await?;
    let _worker = rig.healthy_worker("worker-1")?;
    let pause = "driftq group pause orders biller --by eva --reason 'bad deploy 41f2'";
    rig.operator.run(pause).await?;
    rig.produce(3).await?;
    let row = rig.operator.answer_alert(section, "paused by eva").await?;
    rig.operator.run("driftq group resume orders biller").await?;
    Ok(vec![rig.operator.await_end(row).await?])
}

/// A worker settles nothing while producers continue.
pub(crate) async fn full_partition(night: &Night) -> Rows {
    let settings = json!({ "lease_ms": 60_000, "max_backlog_messages": 20 });
    let rig = Rig::start(night, settings).await?;
    let section = rig.operator.section_before("A full partition").await?;
    let worker = rig.stalled_worker("worker-1")?;
    rig.produce(20).await?;
    rig.until_leased(2).await?;
    let producer = async || -> anyhow::Result<()> {
        let message = json!({ "topic": "orders", "value": "pay" });
        loop {
            let reply = rig.api.post("produce", &message).await?;
            anyhow::ensure!(reply.status == 429, "a full partition accepts a message: {reply}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let row = tokio::select! {
        row = rig.operator.answer_alert(section, "partition 0 is full") => row?,
        failed = producer() => failed.map(|()| unreachable!("the producer never ends"))?,
    };
    drop(worker);
    let _worker = rig.healthy_worker("worker-1")?;
    Ok(vec![rig.operator.await_end(row).await?])
}
