//! Messages without a key in a topic of 64 partitions, against a topic of one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle_load::{Keys, Life, create};
use crate::load::Drive;
use crate::server::{Server, Side};
use crate::single::is_stored;
use crate::verdict::Verdict;
use crate::wire::post;

const TOPIC: &str = "unread";
const MANY: u32 = 64;
const ROUNDS: usize = 20;
/// The ranks between which the median of 20 figures lies with 95 % confidence.
const MEDIAN_FROM: usize = 5;
const MEDIAN_TO: usize = 14;
const CONNECTIONS: usize = 64;
const WORKERS: usize = 8;
const BATCH: usize = 100;
const VALUE_BYTES: usize = 256;
const LIFE_WARM_UP: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(1_500);
const DRIVE: Drive = Drive {
    warm_up: Duration::from_millis(300),
    window: WINDOW,
    pause: Duration::ZERO,
    is_good: is_stored,
};

/// The loads, each with the smallest ratio of 64 partitions to one.
const LOADS: [(&str, f64); 3] =
    [("single messages", 0.9), ("batches of 100", 0.9), ("produce, receive and ack", 0.9)];

pub(crate) async fn run(driftq: &str) -> anyhow::Result<Verdict> {
    let one = start(driftq, 1).await?;
    let many = start(driftq, MANY).await?;
    let mut ratios = [(); LOADS.len()].map(|()| Vec::with_capacity(ROUNDS));
    for round in 1..=ROUNDS {
        for (load, ratios) in ratios.iter_mut().enumerate() {
            // In turns, so that neither side is always the first.
            let (of_one, of_many) = if round % 2 == 0 {
                let of_one = measure(&one, load).await?;
                (of_one, measure(&many, load).await?)
            } else {
                let of_many = measure(&many, load).await?;
                (measure(&one, load).await?, of_many)
            };
            let (what, _) = LOADS[load];
            let ratio = of_many / of_one;
            println!("round {round}, {what}: {of_one:.0}/s, {of_many:.0}/s, ratio {ratio:.2}");
            ratios.push(ratio);
        }
    }
    let mut verdict = Verdict::new("bench-partitions");
    for ((what, bar), mut ratios) in LOADS.into_iter().zip(ratios) {
        ratios.sort_unstable_by(f64::total_cmp);
        let (from, to) = (ratios[MEDIAN_FROM], ratios[MEDIAN_TO]);
        println!(
            "      {what}: median {:.2}, 95 % interval {from:.2} to {to:.2}",
            ratios[ROUNDS / 2]
        );
        verdict.at_least(&format!("{what}, upper end of the median\'s interval"), to, bar, "");
    }
    Ok(verdict)
}

async fn start(driftq: &str, partitions: u32) -> anyhow::Result<Server> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    // Nothing reads this topic, so its backlog must not be limited.
    let room = json!({ "max_backlog_messages": 1_u64 << 40, "max_backlog_bytes": 1_u64 << 50 });
    let topic = json!({ "name": TOPIC, "partitions": partitions, "settings": room });
    server.connect().await?.json(&post("/v1/topics", &topic)).await?;
    create(server.address, partitions).await?;
    Ok(server)
}

/// Returns the requests or messages per second of a load.
async fn measure(server: &Server, load: usize) -> anyhow::Result<f64> {
    let message = json!({ "topic": TOPIC, "value": "v".repeat(VALUE_BYTES) });
    let request = match load {
        0 => post("/v1/produce", &message),
        1 => {
            let messages: Vec<Value> = vec![message; BATCH];
            post("/v1/produce/batch", &json!({ "messages": messages }))
        }
        _ => {
            let life = Life::start(&[server.address], WORKERS, Keys::None).await?;
            life.go_on(LIFE_WARM_UP).await?;
            let window = life.window(WINDOW).await?;
            life.stop().await?;
            return Ok(window.per_second);
        }
    };
    Ok(DRIVE.run(server.address, &vec![request; CONNECTIONS]).await?.per_second)
}
