//! The etcd in which Patroni stores the leader key.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::postgres::account;

/// An etcd process. Killed on drop.
pub(super) struct Etcd(Child);

impl Etcd {
    pub(super) fn start(
        directory: &Path,
        clients: SocketAddr,
        peers: SocketAddr,
    ) -> anyhow::Result<Etcd> {
        let log = File::create(directory.join("etcd.log"))?;
        let (clients, peers) = (format!("http://{clients}"), format!("http://{peers}"));
        let mut etcd = account::command("etcd".as_ref(), |program| Command::new(program));
        etcd.args(["--name", "etcd", "--enable-v2", "--data-dir"]).arg(directory.join("etcd"));
        etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        etcd.args(["--initial-cluster", &format!("etcd={peers}")]);
        let etcd = etcd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        Ok(Etcd(etcd.context("start etcd; is it installed?")?))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have exited already.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}
