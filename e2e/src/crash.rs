//! `crash BINARY KILLS`: the real server on SQLite, killed with SIGKILL at random moments under a load that
//! never pauses, restarted at once. At the end everything is drained and the checker judges what the clients
//! saw: nothing acknowledged is lost, nothing settled comes back, no stale attempt was let through.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

mod broker;
mod clients;
mod history;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use driftq_checker::history::What;

use broker::Broker;
use clients::{Client, GROUPS, consume, produce};
use history::History;

const PRODUCERS: u32 = 8;
const CONSUMERS: u32 = 4;
/// What must be under way at a kill for it to count.
const PRODUCES_MIN: u64 = 64;
const LEASES_MIN: u64 = 100;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().context("usage: crash BINARY KILLS")?;
    let kills: u32 = arguments.next().context("usage: crash BINARY KILLS")?.parse()?;
    let began = Instant::now();
    let mut broker = Broker::start(binary).await?;
    let client = Client::new(broker.url(), Arc::new(History::default()));
    client.set_up().await?;
    let mut tasks = Vec::new();
    for number in 0..PRODUCERS {
        tasks.push(tokio::spawn(produce(client.of(number))));
    }
    for (number, group) in (PRODUCERS..).zip(GROUPS.iter().cycle().take(CONSUMERS as usize * 3)) {
        tasks.push(tokio::spawn(consume(client.of(number), group)));
    }
    let (mut done, mut repeated) = (0, 0);
    while done < kills {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(150..700))).await;
        let (produces, leases) = client.under_way();
        client.history.push(u32::MAX, fault());
        broker.kill_and_restart().await?;
        match produces >= PRODUCES_MIN && leases >= LEASES_MIN {
            true => done += 1,
            // Too little was at stake: once more.
            false => repeated += 1,
        }
        anyhow::ensure!(repeated < 10 * kills + 50, "there is never enough under way");
    }
    client.history.push(u32::MAX, What::Healed);
    client.stopped.store(true, Ordering::Relaxed);
    client.drained().await?;
    client.ended.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    client.dead_letters().await?;
    client.history.push(u32::MAX, What::Ended);
    broker.stop().await;
    let events = client.history.take();
    let report = driftq_checker::check(&events);
    for violation in report.violations.iter().take(20) {
        println!("{violation:?}");
    }
    let tally = history::tally(&events);
    println!(
        "kills {done} ({repeated} repeated), acknowledged produces {}, acks {}, unknown {}, {} s",
        tally.produced,
        tally.acked,
        tally.unknown,
        began.elapsed().as_secs()
    );
    println!("violations {}", report.violations.len());
    let is_clean = report.violations.is_empty();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fault() -> What {
    What::Fault { fault: "crash".into(), point: "anywhere".into() }
}
