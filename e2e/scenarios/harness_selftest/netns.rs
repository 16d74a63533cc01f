//! Checks which machines receive packets from which, after each network operation.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use driftq_e2e::netns::{Network, OUTSIDE};
use driftq_e2e::postgres::Cluster;
use tokio::net::UdpSocket;
use tokio::process::{Child, Command};

/// `harness_selftest post OWN ALL…`: the process that runs on each machine.
pub(crate) const POST: &str = "post";
const NAMES: [&str; 3] = ["a", "b", "c"];
const PORT: u16 = 7_000;
/// How often each machine sends to every other, and for how long.
const LETTERS_EVERY: Duration = Duration::from_millis(20);
const LISTEN_FOR: Duration = Duration::from_secs(1);

/// Pairs (sender, receiver) between which a packet arrived.
type Reached = BTreeSet<(String, String)>;

pub(crate) async fn run(version: u32) -> anyhow::Result<()> {
    let mut network = Network::make(&NAMES)?;
    let all: Reached = pairs(|_, _| true);
    ensure!(reached(&network).await? == all, "not every machine reaches every other");

    network.isolate("a")?;
    let without = pairs(|sender, receiver| sender != "a" && receiver != "a");
    ensure!(reached(&network).await? == without, "`a` is not isolated, or others are");
    network.heal()?;
    ensure!(reached(&network).await? == all, "packets are dropped after heal");

    network.drop_from("a", "b")?;
    network.drop_from("c", OUTSIDE)?;
    let one_way = |sender: &str, receiver: &str| {
        (sender, receiver) != ("a", "b") && (sender, receiver) != ("c", OUTSIDE)
    };
    ensure!(reached(&network).await? == pairs(one_way), "the wrong packets are dropped");
    network.heal()?;
    println!("netns: isolate, drop one way, heal: of 12 directions only the expected drop");

    asked(version, &mut network).await?;
    let left = std::process::id().to_string();
    drop(network);
    let names = Command::new("ip").args(["netns", "list"]).output().await?;
    ensure!(!String::from_utf8(names.stdout)?.contains(&left), "namespaces remain");
    Ok(())
}

/// Queries PostgreSQL on one machine from another over TCP.
async fn asked(version: u32, network: &mut Network) -> anyhow::Result<()> {
    let cluster = Cluster::start_in(version, network.namespace("a")?).await?;
    let url = cluster.url();
    ensure!(ask(network, &url).await?, "PostgreSQL does not answer");
    for (sender, receiver) in [("a", "b"), ("b", "a")] {
        network.drop_from(sender, receiver)?;
        ensure!(!ask(network, &url).await?, "it answers although one direction is dropped");
        network.heal()?;
        ensure!(ask(network, &url).await?, "it does not answer after heal");
    }
    network.isolate("a")?;
    ensure!(!ask(network, &url).await?, "it answers although it is isolated");
    ensure!(cluster.sql("SELECT 1").await? == "1", "its socket does not work");
    println!("netns: PostgreSQL in `a` answers `b` only while both directions work");
    Ok(())
}

async fn ask(network: &Network, url: &str) -> anyhow::Result<bool> {
    let mut psql = Command::from(network.command("b", "psql")?);
    psql.args([url, "-X", "-c", "SELECT 1"]).env("PGCONNECT_TIMEOUT", "2");
    Ok(psql.kill_on_drop(true).output().await?.status.success())
}

fn pairs(are: impl Fn(&str, &str) -> bool) -> Reached {
    let names = [NAMES[0], NAMES[1], NAMES[2], OUTSIDE];
    let all = names.into_iter().flat_map(|one| names.into_iter().map(move |other| (one, other)));
    all.filter(|(one, other)| one != other && are(one, other))
        .map(|(one, other)| (one.to_owned(), other.to_owned()))
        .collect()
}

/// Sends packets between all machines for a while. Returns the pairs that reached each other.
async fn reached(network: &Network) -> anyhow::Result<Reached> {
    let mut addresses = Vec::new();
    for name in NAMES {
        addresses.push((name, network.namespace(name)?.address()));
    }
    addresses.push((OUTSIDE, network.outside()));
    let all_names: Vec<_> =
        addresses.iter().map(|(name, address)| format!("{name}={address}:{PORT}")).collect();
    let own = std::env::current_exe()?;
    let mut posts: Vec<(&str, Child)> = Vec::new();
    for (name, _) in &addresses {
        let mut command = match *name {
            OUTSIDE => Command::new(&own),
            inside => Command::from(network.command(inside, &own)?),
        };
        command.arg(POST).arg(name).args(&all_names).stdout(Stdio::piped()).kill_on_drop(true);
        posts.push((name, command.spawn()?));
    }
    let mut reached = Reached::new();
    for (name, post) in posts {
        let said = post.wait_with_output().await?;
        ensure!(said.status.success(), "{name} failed");
        let senders = String::from_utf8(said.stdout)?;
        reached.extend(senders.lines().map(|sender| (sender.to_owned(), name.to_owned())));
    }
    Ok(reached)
}

/// Sends its name to all other machines and prints the names it receives.
pub(crate) async fn post(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let own = arguments.next().context("missing argument: OWN")?;
    let mut others = Vec::new();
    let mut socket = None;
    for argument in arguments {
        let (name, address) = argument.split_once('=').context("NAME=ADDRESS")?;
        let address: SocketAddr = address.parse()?;
        if name == own {
            socket = Some(UdpSocket::bind(address).await?);
        } else {
            others.push(address);
        }
    }
    let socket = socket.context("OWN is not in the list")?;
    let write = async {
        loop {
            for other in &others {
                // Fails while the receiver has not started.
                let _refused = socket.send_to(own.as_bytes(), other).await;
            }
            tokio::time::sleep(LETTERS_EVERY).await;
        }
    };
    let mut names = BTreeSet::new();
    let read = async {
        let mut letter = [0; 32];
        loop {
            // Fails after a peer has exited.
            if let Ok(n_bytes) = socket.recv(&mut letter).await {
                names.insert(String::from_utf8_lossy(&letter[..n_bytes]).into_owned());
            }
        }
    };
    let _time_is_up: Result<((), ()), _> =
        tokio::time::timeout(LISTEN_FOR, async { tokio::join!(write, read) }).await;
    for name in names {
        println!("{name}");
    }
    Ok(())
}
