//! Three hundred thousand bad requests. None may cause a server error, and none may leak memory.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::try_join_all;

use crate::ask::Ask;
use crate::good::World;
use crate::mutate::{Mutated, mutate};
use crate::openapi;
use crate::server::{Server, Side};
use crate::verdict::Verdict;
use crate::wire::Wire;
use driftq_e2e::usage::memory;

/// Number of requests that must be rejected.
const REFUSED: u64 = 300_000;
/// Memory is compared from here on. Resident memory at rest varies by 15 MB, so a comparison over
/// fewer requests would measure that instead of a leak.
const WARM_UP: u64 = 100_000;
/// A hundred bytes per request.
const GROWTH_MAX: f64 = ((REFUSED - WARM_UP) * 100) as f64 / 1e6;
/// Requests per world. Some requests are valid enough to change the world.
const ROUND: u64 = 2_048;
const CONNECTIONS: u64 = 32;
/// Some requests wait for a body or for messages that never arrive. The client then disconnects.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Counts of outcomes.
#[derive(Default, Clone, Copy)]
struct Tally {
    done: u64,
    refused: u64,
    failed: u64,
    /// The server closed the connection, or the client timed out.
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

/// Resident memory without requests in flight. Memory of open requests, and memory that the
/// allocator is about to return, do not count as a leak.
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
        // A new connection each time, because a kept one may have been closed meanwhile.
        let world = World::make(&mut server.connect().await?).await?;
        let mut requests = world.requests();
        requests.extend(described.iter().cloned());
        let clients = (0..CONNECTIONS).map(|number| {
            // A seed for each client, so that a run can be repeated.
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
    println!("{refused} rejected, {done} accepted, {unanswered} without an answer, 5xx {failed}");
    println!("{early:.1} MB after a third, {end:.1} MB after all");
    verdict.must(format!("{refused} bad requests, {failed} answers with 5xx"), failed == 0);
    verdict.under("growth by bad requests", end - early, GROWTH_MAX, " MB");
    // With more unanswered requests, the test would be meaningless.
    verdict.must(
        format!("most bad requests are answered ({unanswered} are not)"),
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
        let Mutated { bytes, is_raw } = mutate(&good[rng.usize(..good.len())], &mut rng);
        let mut wire = match kept.take() {
            Some(wire) => wire,
            None => Wire::connect(address).await?,
        };
        let answer = async {
            if is_raw {
                return wire.status(&bytes).await;
            }
            let answer = wire.ask(&bytes).await?;
            // A response without a body is from the HTTP library, which then closes the connection.
            let is_over = answer.is_last || (answer.status >= 400 && answer.body.is_empty());
            let status = answer.status;
            kept = (!is_over).then_some(wire);
            Ok(status)
        };
        match tokio::time::timeout(TIMEOUT, answer).await {
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
