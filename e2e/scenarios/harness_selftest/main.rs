//! `harness_selftest [PART [VERSION]]`: tests that the fault tools work, each operation once.
//!
//! 1. `postgres`: a PostgreSQL instance is stopped, killed, paused and started again.
//! 2. `commit`: first the answer to a COMMIT is lost, then a COMMIT itself. PostgreSQL's state is
//!    checked.
//! 3. `netns`: a network drops exactly the packets it is configured to drop. Needs root.
//! 4. `patroni`: of three PostgreSQL nodes, the primary is killed, paused and switched over during
//!    writes. No acknowledged row may be lost. Without synchronous replication, as a control, rows
//!    are lost. Needs the packages patroni and etcd-server.
#![expect(clippy::print_stdout, reason = "command-line program")]

mod commit;
mod netns;
mod patroni;
mod postgres;
mod writer;

use std::time::Instant;

/// The oldest supported PostgreSQL version.
const VERSION: u32 = 15;

const PARTS: [&str; 4] = ["postgres", "commit", "netns", "patroni"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    if only.as_deref() == Some(netns::POST) {
        return netns::post(arguments).await;
    }
    let version = arguments.next().map_or(Ok(VERSION), |version| version.parse())?;
    let is_asked = |part: &&str| only.as_ref().is_none_or(|only| only == part);
    let parts: Vec<_> = PARTS.into_iter().filter(is_asked).collect();
    anyhow::ensure!(!parts.is_empty(), "usage: harness_selftest [{} [VERSION]]", PARTS.join("|"));
    let began = Instant::now();
    for part in &parts {
        match *part {
            "postgres" => postgres::run(version).await?,
            "commit" => commit::run(version).await?,
            "netns" => netns::run(version).await?,
            "patroni" => patroni::run(version).await?,
            other => unreachable!("{other} is in the list"),
        }
    }
    println!("{}: passed in {} s", parts.join(", "), began.elapsed().as_secs());
    Ok(())
}
