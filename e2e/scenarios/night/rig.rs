//! A server, its Prometheus, and an operator who reads the page.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::directory::Directory;
use driftq_e2e::server::{Launch, Server};
use driftq_e2e::worker::Worker;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::Night;
use crate::page::Section;
use crate::prometheus::Prometheus;

/// The addresses on the page: of the server that is asked, and of another node.
const ADDRESSES: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8081"];
/// An output may change from moment to moment. It must be as shown within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// The result of a failure.
pub(crate) struct Row {
    pub(crate) failure: String,
    pub(crate) command: String,
    pub(crate) cause: &'static str,
    pub(crate) alert: String,
    /// From the failure until the alert fired.
    pub(crate) fired: Duration,
    /// From the repair until the alert ended.
    pub(crate) ended: Option<Duration>,
}

/// An operator at a terminal, with the server of the page at `servers[0]`.
pub(crate) struct Operator<'a> {
    night: &'a Night,
    pub(crate) prometheus: Prometheus,
    servers: Vec<SocketAddr>,
}

impl<'a> Operator<'a> {
    pub(crate) async fn start(
        night: &'a Night,
        servers: Vec<SocketAddr>,
    ) -> anyhow::Result<Operator<'a>> {
        let prometheus = Prometheus::start(&servers).await?;
        Ok(Operator { night, prometheus, servers })
    }

    /// Returns the section about a failure that has not happened yet.
    pub(crate) async fn section_before(&self, failure: &str) -> anyhow::Result<&'a Section> {
        let section = self.night.page.section(failure)?;
        let is_firing = self.prometheus.is_firing(&section.alert).await?;
        ensure!(!is_firing, "{} fires before the failure", section.alert);
        Ok(section)
    }

    /// Waits for the alert, then runs the command of the section.
    pub(crate) async fn answer_alert(
        &self,
        section: &Section,
        cause: &'static str,
    ) -> anyhow::Result<Row> {
        let fired = self.prometheus.until(&section.alert, true).await?;
        let began = Instant::now();
        loop {
            let compared = section.compare(&self.run(&section.command).await?, cause);
            match compared {
                Ok(()) => break,
                Err(error) if began.elapsed() > SHOWN_WITHIN => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        let (failure, command) = (section.heading.clone(), section.command.clone());
        Ok(Row { failure, command, cause, alert: section.alert.clone(), fired, ended: None })
    }

    /// Waits until the alert has ended after the repair.
    pub(crate) async fn await_end(&self, row: Row) -> anyhow::Result<Row> {
        let ended = self.prometheus.until(&row.alert, false).await?;
        Ok(Row { ended: Some(ended), ..row })
    }

    /// Runs a command of the page and returns its output.
    pub(crate) async fn run(&self, command: &str) -> anyhow::Result<String> {
        let mut typed = command.to_owned();
        for (shown, server) in ADDRESSES.iter().zip(&self.servers) {
            typed = typed.replace(shown, &server.to_string());
        }
        let ran = Command::new("bash")
            .args(["-c", &format!("set -euo pipefail\nexec 2>&1\n{typed}")])
            .env("PATH", self.path()?)
            .env("DRIFTQ_URL", format!("http://{}", self.servers[0]))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let mut printed = String::from_utf8(ran.stdout)?;
        for (shown, server) in ADDRESSES.iter().zip(&self.servers) {
            printed = printed.replace(&server.to_string(), shown);
        }
        ensure!(ran.status.success(), "`{command}` failed:\n{printed}");
        Ok(printed)
    }

    fn path(&self) -> anyhow::Result<OsString> {
        let programs = Path::new(&self.night.driftq).parent().context("the directory of driftq")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [programs.to_owned()].into_iter().chain(std::env::split_paths(&path));
        Ok(std::env::join_paths(all)?)
    }
}

/// A server on SQLite, with the topic `orders` and the group `biller`.
pub(crate) struct Rig<'a> {
    pub(crate) operator: Operator<'a>,
    pub(crate) api: Api,
    driftq: &'a str,
    // Dropped before its directory.
    _server: Server,
    _directory: Directory,
}

impl<'a> Rig<'a> {
    pub(crate) async fn start(night: &'a Night, settings: Value) -> anyhow::Result<Rig<'a>> {
        let directory = Directory::make()?;
        let data = directory.path().join("data");
        Rig::launch(night, settings, directory, &data).await
    }

    /// Starts the server on a disk.
    pub(crate) async fn start_on(night: &'a Night, disk: &Path) -> anyhow::Result<Rig<'a>> {
        Rig::launch(night, json!({}), Directory::make()?, &disk.join("data")).await
    }

    async fn launch(
        night: &'a Night,
        settings: Value,
        directory: Directory,
        data: &Path,
    ) -> anyhow::Result<Rig<'a>> {
        let mut launch = Launch::sqlite(&night.driftq, data, &[]);
        launch.log = directory.path().join("server.log");
        let server = launch.start().await?;
        server.ready().await?;
        let api = server.api()?;
        let topic = json!({ "name": "orders", "settings": settings });
        api.post("topics", &topic).await?.ok()?;
        api.put("topics/orders/groups/biller", &json!({})).await?.ok()?;
        let operator = Operator::start(night, vec![server.address]).await?;
        Ok(Rig { operator, api, driftq: &night.driftq, _server: server, _directory: directory })
    }

    pub(crate) async fn produce(&self, count: usize) -> anyhow::Result<()> {
        let message = |number: usize| {
            let envelope = json!({ "idempotency_key": format!("order-{number}") });
            json!({ "topic": "orders", "value": "pay", "envelope": envelope })
        };
        let messages: Vec<Value> = (0..count).map(message).collect();
        self.api.post("produce/batch", &json!({ "messages": messages })).await?.ok()?;
        Ok(())
    }

    /// Starts a worker process that holds up to two messages and settles none.
    pub(crate) fn stalled_worker(&self, owner: &str) -> anyhow::Result<Worker> {
        self.worker(&["--owner", owner])
    }

    /// Starts a worker process that acks every message at once.
    pub(crate) fn healthy_worker(&self, owner: &str) -> anyhow::Result<Worker> {
        self.worker(&["--owner", owner, "--ack"])
    }

    fn worker(&self, more: &[&str]) -> anyhow::Result<Worker> {
        let mut command = Command::new(self.driftq);
        command.args(["consume", "orders", "biller"]).args(more);
        command.env("DRIFTQ_URL", self.api.url()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker::start(&mut command)
    }

    pub(crate) async fn receive(&self, owner: &str) -> anyhow::Result<Value> {
        let body = json!({ "topic": "orders", "group": "biller", "owner": owner, "max": 1, "wait_ms": 20_000 });
        let mut reply = self.api.post("receive", &body).await?.ok()?;
        let message = reply["messages"][0].take();
        ensure!(message.is_object(), "nothing was delivered");
        Ok(message)
    }

    pub(crate) async fn settle(
        &self,
        verb: &str,
        delivery: &Value,
        more: Value,
    ) -> anyhow::Result<()> {
        let mut body = more;
        body["token"] = delivery["lease"]["token"].clone();
        self.api.post(verb, &body).await?.ok()?;
        Ok(())
    }

    /// Waits until this many messages are leased.
    pub(crate) async fn until_leased(&self, count: u64) -> anyhow::Result<()> {
        for _ in 0..500 {
            let group = self.api.get("topics/orders/groups/biller").await?.ok()?;
            if group["leased"] == count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("{count} messages should be leased")
    }
}
