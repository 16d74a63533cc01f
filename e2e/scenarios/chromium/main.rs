//! `chromium BINARY`: a page of another origin, in Debian's Chromium, against a server on loopback
//! without an API key.
//!
//! The page uses every kind of request that a browser can send: elements, forms, beacons, and
//! `fetch` with and without CORS. It addresses the server by IP address, by name, and by a name of
//! its own that was rebound to this machine. Then Chromium navigates to the server by the rebound
//! name itself. No request may change or reveal anything.
#![expect(clippy::print_stdout, reason = "command-line program")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::response::Html;
use axum::routing::{get, post};
use driftq_e2e::broker::Broker;
use driftq_e2e::directory::Directory;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

const PAGE: &str = include_str!("page.html");
const MESSAGES: usize = 50;
/// Minimum number of requests: 20 to each of three names of the server.
const REQUESTS_MIN: usize = 3 * 20;
/// Includes the start of the browser.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How long Chromium stays on the page it was sent to directly.
const STAY: Duration = Duration::from_secs(10);

/// The report of the page when it has finished.
#[derive(Deserialize)]
struct Done {
    sent: usize,
    /// Responses that a script could read.
    readable: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let binary = std::env::args().nth(1).context("usage: chromium BINARY")?;
    let directory = Directory::make()?;
    let server = Broker::start(&binary, &directory.path().join("data"), None).await?;
    let token = fill(&server).await?;
    let before = state(&server).await?;

    let (done, mut dones) = mpsc::channel(1);
    let page = serve_page(done).await?;
    let port = server.url().split([':', '/']).nth(4).context("a port")?.to_owned();
    let url = format!("http://evil.example:{}/?server={port}&token={token}", page.port());
    let mut browser = start_browser(&directory.path().join("page"), &url)?;
    let done: Done = timeout(TIMEOUT, dones.recv())
        .await
        .context("the page did not finish; does Chromium start?")?
        .context("the page server stopped")?;
    browser.kill().await?;

    let rebound =
        format!("http://evil.example:{port}/v1/consume?topic=work&group=rebound&owner=page");
    let mut browser = start_browser(&directory.path().join("rebound"), &rebound)?;
    // It navigates at once, and there is no signal for that.
    tokio::time::sleep(STAY).await;
    browser.kill().await?;

    let after = state(&server).await?;
    let rejected = rejected(&server).await?;
    println!("chromium: {} requests of a page, {rejected} rejected by the server", done.sent);
    ensure!(done.sent >= REQUESTS_MIN, "the page sent {} requests", done.sent);
    ensure!(rejected >= done.sent / 2, "the server saw {rejected} of {} requests", done.sent);
    ensure!(done.readable.is_empty(), "the page could read: {:?}", done.readable);
    ensure!(after == before, "state changed:\nbefore {before:#}\nafter {after:#}");
    println!("chromium: 0 state changes, 0 answers read");
    Ok(())
}

async fn ask(server: &Broker, path: &str, body: Option<Value>) -> anyhow::Result<String> {
    let url = format!("{}{path}", server.url());
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client.post(url).json(&body),
        None => client.get(url),
    };
    let answer = request.send().await?.error_for_status().context("a good request")?;
    Ok(answer.text().await?)
}

/// Creates a topic with messages and leases one of them. Returns its token, which the page is
/// given.
async fn fill(server: &Broker) -> anyhow::Result<String> {
    ask(server, "/topics", Some(json!({ "name": "work" }))).await?;
    let messages = vec![json!({ "topic": "work", "value": "job" }); MESSAGES];
    ask(server, "/produce/batch", Some(json!({ "messages": messages }))).await?;
    let receive = json!({ "topic": "work", "group": "ours", "owner": "us", "lease_ms": 3_600_000 });
    let received: Value = serde_json::from_str(&ask(server, "/receive", Some(receive)).await?)?;
    Ok(received["messages"][0]["lease"]["token"].as_str().context("a token")?.to_owned())
}

/// Returns everything a page could have changed: topics, messages, groups, leases.
async fn state(server: &Broker) -> anyhow::Result<Value> {
    let lists = [
        ("/topics?detail=true", "topics", &["name", "messages", "dead_letters", "groups"][..]),
        ("/topics/work/groups", "groups", &["group", "backlog", "open", "leased", "waiting"][..]),
    ];
    let mut all = Vec::new();
    for (path, list, fields) in lists {
        let answer: Value = serde_json::from_str(&ask(server, path, None).await?)?;
        for one in answer[list].as_array().context("a list")? {
            ensure!(fields.iter().all(|field| !one[field].is_null()), "{one} lacks a field");
            all.push(fields.iter().map(|field| one[field].clone()).collect::<Value>());
        }
    }
    Ok(Value::Array(all))
}

/// Returns how many requests the server has answered with 4xx.
async fn rejected(server: &Broker) -> anyhow::Result<usize> {
    let url = server.url().replace("/v1", "/metrics");
    let page = reqwest::get(url).await?.text().await?;
    let line =
        page.lines().find(|line| line.starts_with("driftq_requests_total") && line.contains("4xx"));
    let count = line.and_then(|line| line.rsplit(' ').next()).context("a count of requests")?;
    Ok(count.parse::<f64>()? as usize)
}

async fn serve_page(done: mpsc::Sender<Done>) -> anyhow::Result<SocketAddr> {
    let said = move |body: String| async move {
        if let Ok(said) = serde_json::from_str(&body) {
            // Only the first report counts.
            let _again = done.try_send(said);
        }
    };
    let router = Router::new().route("/", get(async || Html(PAGE))).route("/done", post(said));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// Starts Chromium at a page, with a profile of its own. The host name of the page resolves to this
/// machine.
fn start_browser(profile: &Path, url: &str) -> anyhow::Result<Child> {
    let mut command = Command::new("chromium");
    command
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .arg("--host-resolver-rules=MAP evil.example 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command.spawn().context("start chromium: on Debian, `apt install chromium`")
}
