//! Two nodes on PostgreSQL: one of them is lost, then the database.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use driftq_e2e::api::api;
use driftq_e2e::node::{Node, Sharing, free_address};
use driftq_e2e::postgres::{Cluster, Stop};

use crate::Night;
use crate::rig::{Operator, Row};

const POSTGRES_VERSION: u32 = 15;
const SHARING: Sharing = Sharing { shards: 4, lease_ms: 3_000 };
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(night: &Night) -> anyhow::Result<Vec<Row>> {
    let mut database = Cluster::start(POSTGRES_VERSION).await?;
    let addresses = [free_address()?, free_address()?];
    let start = async |address: SocketAddr| {
        Node::start(&night.driftq, address, address, &database.url(), SHARING).await
    };
    let (_first, mut second) = (start(addresses[0]).await?, start(addresses[1]).await?);
    for address in addresses {
        ready(address).await?;
    }
    let operator = Operator::start(night, addresses.to_vec()).await?;

    let section = operator.section_before("A lost node").await?;
    second.kill().await?;
    let lost = operator.answer_alert(section, "gone").await?;
    second.start_again().await?;
    ready(addresses[1]).await?;
    let lost = operator.await_end(lost).await?;

    let section = operator.section_before("A database outage").await?;
    database.stop(Stop::Immediate).await?;
    let outage = operator.answer_alert(section, "database: no answer for").await?;
    database.start_again().await?;
    Ok(vec![lost, operator.await_end(outage).await?])
}

async fn ready(address: SocketAddr) -> anyhow::Result<()> {
    let began = Instant::now();
    while api(address)?.get("readyz").await?.status != 200 {
        ensure!(began.elapsed() < READY_WITHIN, "{address} is not ready");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
