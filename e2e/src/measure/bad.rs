//! Three hundred thousand bad requests: none may be the server's fault, and none may leave anything behind.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::try_join_all;

use crate::ask::Ask;
use crate::good::World;
use crate::mutate::{Spoilt, mutate};
use crate::openapi;
use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::Wire;
use driftq_e2e::usage::memory;

/// Requests that must have been refused.
const REFUSED: u64 = 300_000;
/// Memory is compared from here on. Resident memory at rest swings by 15 MB, so a comparison over fewer requests would
/// show that instead of a leak.
const WARM_UP: u64 = 100_000;
/// A hundred bytes a request.
const GROWTH_MAX: f64 = ((REFUSED - WARM_UP) * 100) as f64 / 1e6;
/// Between two worlds: some of the requests are good enough to change this one.
const ROUND: u64 = 2_048;
const CONNECTIONS: u64 = 32;
/// Some wait for a body or for messages that will not come: their client goes.
const PATIENCE: Duration = Duration::from_millis(250);

/// What became of requests.
#[derive(Default, Clone, Copy)]
struct Tally {
    done: u64,
    refused: u64,
    failed: u64,
    /// Without an answer: the server closed, or the client went.
    unanswered: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.done += other.done;
        self.refused += other.refused;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
    }
}

/// Resident memory when nobody asks for anything: what requests under way had, and what the allocator is
/// about to give back, is not what is looked for.
async fn at_rest(server: &Server) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        World::make(&mut server.connect().await?).await?;
        least = least.min(memory(server.pid()?)?.resident);
    }
    Ok(least)
}

pub(crate) async fn run(driftq: &str, seed: u64, verdict: &mut Verdict) -> anyhow::Result<()> {
    let server = Server::start(Side::Sqlite(driftq.to_owned())).await?;
    let described = openapi::requests()?;
    println!("bad requests: seed {seed}, {} from the description of the API", described.len());
    let (mut tally, mut early) = (Tally::default(), None);
    let mut round = 0;
    while tally.refused < REFUSED {
        // A fresh connection each time: a kept one may have been dropped meanwhile.
        let world = World::make(&mut server.connect().await?).await?;
        let mut requests = world.requests();
        requests.extend(described.iter().cloned());
        let clients = (0..CONNECTIONS).map(|number| {
            // A stream of its own for each, so that a run can be repeated.
            let rng = Rng::with_seed(seed ^ (round * CONNECTIONS + number));
            bother(server.address, &requests, rng)
        });
        for part in try_join_all(clients).await? {
            tally.add(part);
        }
        round += 1;
        if early.is_none() && tally.refused >= WARM_UP {
            early = Some(at_rest(&server).await?);
        }
    }
    let end = at_rest(&server).await?;
    let early = early.unwrap_or(end);
    let Tally { done, refused, failed, unanswered } = tally;
    println!("{refused} refused, {done} good enough, {unanswered} without an answer, 5xx {failed}");
    println!("{early:.1} MB after a third, {end:.1} MB after all");
    verdict.must(format!("{refused} bad requests, {failed} answers with 5xx"), failed == 0);
    verdict.under("growth by bad requests", end - early, GROWTH_MAX, " MB");
    // More would mean that the requests are no test.
    verdict.must(
        format!("most bad requests are answered: {unanswered} are not"),
        unanswered < refused / 10,
    );
    let complaints = server.complaints()?;
    verdict.must(format!("no panic and no error in the log{complaints}"), complaints.is_empty());
    Ok(())
}

async fn bother(address: SocketAddr, good: &[Ask], mut rng: Rng) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut kept = None;
    for _ in 0..ROUND / CONNECTIONS {
        let Spoilt { bytes, is_raw } = mutate(&good[rng.usize(..good.len())], &mut rng);
        let mut wire = match kept.take() {
            Some(wire) => wire,
            None => Wire::connect(address).await?,
        };
        let answer = async {
            if is_raw {
                return wire.status(&bytes).await;
            }
            let answer = wire.ask(&bytes).await?;
            // Without a body it is not ours but the HTTP library's, which closes.
            let is_over = answer.is_last || (answer.status >= 400 && answer.body.is_empty());
            let status = answer.status;
            kept = (!is_over).then_some(wire);
            Ok(status)
        };
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(500..)) => {
                tally.failed += 1;
                println!("5xx: {}", bytes.escape_ascii());
            }
            Ok(Ok(400..500)) => tally.refused += 1,
            Ok(Ok(_)) => tally.done += 1,
            Ok(Err(_)) | Err(_) => tally.unanswered += 1,
        }
    }
    Ok(tally)
}
