//! Simulates machines on one network: one network namespace per machine, a bridge in a namespace of
//! its own, and nftables rules on the bridge that drop packets. Needs root, `ip` and `nft`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::processes::{Process, kill_now};

/// The name of the machine outside all namespaces: the process that created the network.
pub const OUTSIDE: &str = "outside";
/// How many /24 networks of 198.18.0.0/15 are tried. That range is not routed on the internet.
const NETWORKS: u32 = 512;
/// How long the remaining processes may take to exit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Namespaces that reach each other and the outside. Dropping it deletes them and kills all their
/// processes.
pub struct Network {
    /// The namespace of the bridge.
    bridge: String,
    namespaces: Vec<Namespace>,
    /// Pairs (sender, receiver) between which packets are dropped.
    lost: BTreeSet<(String, String)>,
    outside: Ipv4Addr,
}

/// One simulated machine.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    /// Its name in `ip netns`.
    full_name: String,
    address: Ipv4Addr,
}

impl Namespace {
    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns a command that runs in this namespace. `ip netns exec` execs the program, so the
    /// process id is the program's own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.full_name]).arg(program);
        command
    }
}

impl Network {
    /// Creates a network of namespaces with these names. Each reaches every other.
    pub fn make(names: &[&str]) -> anyhow::Result<Network> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let user = rustix::process::geteuid();
        ensure!(user.is_root(), "creating network namespaces requires root");
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("driftq-{}-{number}", std::process::id());
        let first = free_network(std::process::id() + number)?;
        let mut network = Network {
            bridge: format!("{id}-bridge"),
            namespaces: Vec::new(),
            lost: BTreeSet::new(),
            outside: host(first, 1),
        };
        network.lay(&format!("dq{}n{number}", std::process::id()))?;
        for (nth, name) in names.iter().enumerate() {
            let address = host(first, 2 + u32::try_from(nth)?);
            let full_name = format!("{id}-{name}");
            network.join(Namespace { name: (*name).to_owned(), full_name, address })?;
        }
        network.apply()?;
        Ok(network)
    }

    /// Returns the namespace with this name.
    pub fn namespace(&self, name: &str) -> anyhow::Result<&Namespace> {
        let found = self.namespaces.iter().find(|namespace| namespace.name == name);
        found.with_context(|| format!("namespace {name} does not exist"))
    }

    /// Returns a command that runs in this namespace.
    pub fn command(&self, name: &str, program: impl AsRef<OsStr>) -> anyhow::Result<Command> {
        Ok(self.namespace(name)?.command(program))
    }

    /// The address of the current process on the network.
    pub fn outside(&self) -> Ipv4Addr {
        self.outside
    }

    /// Silently drops all packets to and from this namespace.
    pub fn isolate(&mut self, name: &str) -> anyhow::Result<()> {
        for other in self.all_names().into_iter().filter(|other| other != name) {
            self.lost.insert((name.to_owned(), other.clone()));
            self.lost.insert((other, name.to_owned()));
        }
        self.apply()
    }

    /// Drops all packets from `sender` to `receiver`, but not in the other direction.
    pub fn drop_from(&mut self, sender: &str, receiver: &str) -> anyhow::Result<()> {
        self.lost.insert((sender.to_owned(), receiver.to_owned()));
        self.apply()
    }

    /// Stops dropping packets.
    pub fn heal(&mut self) -> anyhow::Result<()> {
        self.lost.clear();
        self.apply()
    }

    fn all_names(&self) -> Vec<String> {
        let names = self.namespaces.iter().map(|namespace| namespace.name.clone());
        names.chain([OUTSIDE.to_owned()]).collect()
    }

    /// Creates the bridge and connects the outside to it.
    fn lay(&self, interface: &str) -> anyhow::Result<()> {
        let bridge = self.bridge.as_str();
        ip(&["netns", "add", bridge])?;
        ip(&["-n", bridge, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", bridge, "link", "set", "bridge", "up"])?;
        let peer = ["type", "veth", "peer", "name", OUTSIDE, "netns", bridge];
        ip(&[&["link", "add", "name", interface][..], &peer].concat())?;
        self.plug(OUTSIDE)?;
        ip(&["address", "add", &format!("{}/24", self.outside), "dev", interface])?;
        ip(&["link", "set", interface, "up"])
    }

    fn join(&mut self, new: Namespace) -> anyhow::Result<()> {
        let (name, full_name) = (new.name.clone(), new.full_name.clone());
        let address = format!("{}/24", new.address);
        ip(&["netns", "add", &full_name])?;
        // From here on, dropping the network deletes the namespace.
        self.namespaces.push(new);
        let peer = ["type", "veth", "peer", "name", "eth0", "netns", &full_name];
        ip(&[&["-n", &self.bridge, "link", "add", "name", &name][..], &peer].concat())?;
        self.plug(&name)?;
        ip(&["-n", &full_name, "address", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &full_name, "link", "set", "eth0", "up"])?;
        ip(&["-n", &full_name, "link", "set", "lo", "up"])
    }

    fn plug(&self, port: &str) -> anyhow::Result<()> {
        ip(&["-n", &self.bridge, "link", "set", "dev", port, "master", "bridge", "up"])
    }

    /// Replaces the rules of the bridge atomically. ARP still passes, because no router forgets
    /// addresses either.
    fn apply(&self) -> anyhow::Result<()> {
        let mut rules = String::from(
            "table bridge driftq\ndelete table bridge driftq\ntable bridge driftq {\nchain lose {\n\
             type filter hook forward priority 0; policy accept;\n",
        );
        for (sender, receiver) in &self.lost {
            let rule = format!("iifname \"{sender}\" oifname \"{receiver}\" ether type ip drop\n");
            rules.push_str(&rule);
        }
        rules.push_str("}\n}\n");
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &self.bridge, "nft", "-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.stderr(Stdio::piped()).spawn().context("start ip; is it installed?")?;
        nft.stdin.take().context("its input is piped")?.write_all(rules.as_bytes())?;
        let said = nft.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "nft (is it installed?): {complaint}");
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            // A namespace with running processes would live on without a name.
            let pids = Command::new("ip").args(["netns", "pids", &namespace.full_name]).output();
            let pids = pids.map(|said| said.stdout).unwrap_or_default();
            let left = String::from_utf8_lossy(&pids);
            let left = left.lines().filter_map(|pid| Process::find(pid.trim().parse().ok()?));
            kill_now(&left.collect::<Vec<_>>(), TIMEOUT);
            let _removed = ip(&["netns", "delete", &namespace.full_name]);
        }
        // Deletes both ends of each veth pair too.
        let _removed = ip(&["netns", "delete", &self.bridge]);
    }
}

/// Returns the first address of a /24 network that no route covers.
fn free_network(begin: u32) -> anyhow::Result<u32> {
    for number in 0..NETWORKS {
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + ((begin + number) % NETWORKS) * 256;
        let network = format!("{}/24", Ipv4Addr::from(first));
        let routes = Command::new("ip").args(["-4", "route", "show", &network]).output();
        let routes = routes.context("start ip; is it installed?")?;
        if routes.stdout.is_empty() {
            return Ok(first);
        }
    }
    anyhow::bail!("all networks of 198.18.0.0/15 are in use")
}

fn host(first: u32, number: u32) -> Ipv4Addr {
    Ipv4Addr::from(first + number)
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let said = Command::new("ip").args(arguments).output().context("start ip; is it installed?")?;
    let complaint = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "ip {}: {complaint}", arguments.join(" "));
    Ok(())
}
