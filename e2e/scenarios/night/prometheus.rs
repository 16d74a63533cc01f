//! Debian's Prometheus, with the alert rules of the repository.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use driftq_e2e::directory::Directory;
use driftq_e2e::node::free_address;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::rules;

/// How long Prometheus may take to start, and an alert to fire or to end.
const TIMEOUT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Prometheus {
    url: String,
    http: reqwest::Client,
    // Killed on drop, before its directory is deleted.
    _process: Child,
    _directory: Directory,
}

impl Prometheus {
    /// Starts Prometheus. Returns when it has scraped all servers.
    pub(crate) async fn start(servers: &[SocketAddr]) -> anyhow::Result<Prometheus> {
        let directory = Directory::make()?;
        let [rules, config, data] =
            ["rules.yml", "prometheus.yml", "data"].map(|name| directory.path().join(name));
        std::fs::write(&rules, rules::read()?)?;
        let targets: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
        let targets = targets.join(", ");
        std::fs::write(
            &config,
            format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
                 rule_files: [\"{}\"]\n\
                 scrape_configs: [ {{ job_name: driftq, static_configs: [ {{ targets: [{targets}] }} ] }} ]\n",
                rules.display()
            ),
        )?;
        let listen = free_address()?;
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", data.display()));
        command.args([&format!("--web.listen-address={listen}"), "--log.level=error"]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().context("start prometheus; is it installed?")?;
        let url = format!("http://{listen}/api/v1");
        let http = reqwest::Client::builder().no_proxy().build()?;
        let prometheus = Prometheus { url, http, _process: process, _directory: directory };
        let began = Instant::now();
        loop {
            let up = prometheus.ask("query?query=up%3D%3D1").await;
            let up = up.ok().and_then(|up| Some(up["result"].as_array()?.len()));
            if up == Some(servers.len()) {
                return Ok(prometheus);
            }
            ensure!(began.elapsed() < TIMEOUT, "Prometheus does not scrape the servers");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ask(&self, what: &str) -> anyhow::Result<Value> {
        let answer = self.http.get(format!("{}/{what}", self.url)).send().await?;
        let mut answer: Value = serde_json::from_slice(&answer.bytes().await?)?;
        Ok(answer["data"].take())
    }

    pub(crate) async fn is_firing(&self, alert: &str) -> anyhow::Result<bool> {
        let answer = self.ask("alerts").await?;
        let mut alerts = answer["alerts"].as_array().context("a list of alerts")?.iter();
        Ok(alerts.any(|one| one["state"] == "firing" && one["labels"]["alertname"] == alert))
    }

    /// Waits until the alert fires, or until it has ended. Returns how long it took.
    pub(crate) async fn until(&self, alert: &str, fires: bool) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while self.is_firing(alert).await? != fires {
            let what = if fires { "does not fire" } else { "does not end" };
            ensure!(began.elapsed() < TIMEOUT, "{alert} {what}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(began.elapsed())
    }
}
