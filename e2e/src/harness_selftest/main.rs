//! `rig [PART [VERSION]]`: whether the tools that break things do what they say, each verb once.
//!
//! 1. `postgres`: a PostgreSQL of its own is stopped, killed, paused and started again.
//! 2. `commit`: the answer to a COMMIT is lost, then a COMMIT; what PostgreSQL has made of it.
//! 3. `netns`: machines on a network that loses what it is told to lose. Needs root.
//! 4. `patroni`: three PostgreSQL whose primary is killed, paused and switched while somebody writes: nothing that was
//!    acknowledged is lost, but without synchronous replication it can be. Needs the packages patroni and etcd-server.
#![expect(clippy::print_stdout, reason = "this is a program for people")]

mod commit;
mod netns;
mod patroni;
mod postgres;
mod writer;

use std::time::Instant;

/// The oldest PostgreSQL that is promised.
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
    anyhow::ensure!(!parts.is_empty(), "usage: rig [{} [VERSION]]", PARTS.join("|"));
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
    println!("{}: each does what it says, {} s", parts.join(", "), began.elapsed().as_secs());
    Ok(())
}
