//! Stands between the agents and the server: records requests, and makes some of them fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::http1::{Request, respond};
use crate::scenario::{Fault, How};

/// Headers of a connection, not of a request.
const OWN: [&str; 4] = ["host", "connection", "content-length", "accept-encoding"];

/// A running proxy. Dropping it closes its connections.
pub(crate) struct Proxy {
    pub(crate) url: String,
    shared: Arc<Shared>,
    _connections: JoinSet<()>,
}

struct Shared {
    server: String,
    http: reqwest::Client,
    state: Mutex<State>,
}

struct State {
    faults: Vec<Fault>,
    seen: Vec<Request>,
    /// When each of them came.
    times: Vec<Instant>,
    /// When the settles with a rejected item were answered.
    rejected: Vec<Instant>,
}

impl Proxy {
    pub(crate) async fn start(server: &str, faults: Vec<Fault>) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let state =
            Mutex::new(State { faults, seen: Vec::new(), times: Vec::new(), rejected: Vec::new() });
        let http = reqwest::Client::builder().no_proxy().build()?;
        let shared = Arc::new(Shared { server: server.to_owned(), http, state });
        let mut connections = JoinSet::new();
        let accepts = shared.clone();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                let shared = accepts.clone();
                open.spawn(async move {
                    // A connection that fails is closed, as it would be without a proxy.
                    let _failed = shared.serve(connection).await;
                });
            }
        });
        Ok(Proxy { url, shared, _connections: connections })
    }

    /// How many requests to this route have come.
    pub(crate) fn seen(&self, route: &str) -> usize {
        self.shared.state().seen.iter().filter(|request| request.route == route).count()
    }

    /// When the requests to this route came whose body contains `with`.
    pub(crate) fn times(&self, route: &str, with: &str) -> Vec<Instant> {
        let state = self.shared.state();
        let of = state.seen.iter().zip(&state.times).filter(|(request, _)| {
            request.route == route && String::from_utf8_lossy(&request.body).contains(with)
        });
        of.map(|(_, at)| *at).collect()
    }

    /// When the first settle with a rejected item after `since` was answered.
    pub(crate) fn rejected_since(&self, since: Instant) -> Option<Instant> {
        self.shared.state().rejected.iter().copied().find(|at| *at > since)
    }

    /// Whether a request to some route had this header.
    pub(crate) fn has_header(&self, route: &str, name: &str, value: &str) -> bool {
        let state = self.shared.state();
        let mut of = state.seen.iter().filter(|request| request.route == route);
        of.any(|request| request.headers.get(name).is_some_and(|is| is.contains(value)))
    }

    /// The largest `max` of the receives.
    pub(crate) fn receive_sizes(&self) -> Vec<u64> {
        let state = self.shared.state();
        let receives = state.seen.iter().filter(|request| request.route == "POST /v1/receive");
        receives.filter_map(|request| request.json()["max"].as_u64()).collect()
    }

    /// Every fault that has not happened as often as the scenario says.
    pub(crate) fn left(&self) -> Vec<String> {
        let state = self.shared.state();
        let left = state.faults.iter().filter(|fault| fault.times > 0);
        left.map(|fault| format!("{} {} times", fault.on, fault.times)).collect()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, mut connection: TcpStream) -> anyhow::Result<()> {
        while let Some(request) = Request::read(&mut connection).await? {
            let came = Instant::now();
            let how = self.meets(&request);
            let asked = async {
                match how {
                    Some(
                        How::LostRequest | How::Busy | How::Unavailable | How::UnavailableItems,
                    ) => Ok((0, Vec::new())),
                    _ => self.forward(&request).await,
                }
            };
            let (status, body) = tokio::select! {
                answer = asked => answer?,
                () = is_closed(&connection) => return Ok(()),
            };
            let items = request.json()["items"].as_array().map_or(0, Vec::len);
            let is_rejected = request.route == "POST /v1/settle"
                && String::from_utf8_lossy(&body).contains("STALE_LEASE");
            {
                let mut state = self.state();
                state.seen.push(request);
                state.times.push(came);
                if is_rejected {
                    state.rejected.push(Instant::now());
                }
            }
            let error = |code: &str, outcome: &str| {
                json!({ "error": code, "message": "by the proxy", "retryable": true,
                    "retry_after_ms": 50, "outcome": outcome })
                .to_string()
                .into_bytes()
            };
            let (status, body) = match how {
                None => (status, body),
                Some(How::LostReply | How::LostRequest) => return Ok(()),
                Some(How::Hangs) => {
                    is_closed(&connection).await;
                    return Ok(());
                }
                Some(How::Busy) => (429, error("OVERLOADED", "none")),
                Some(How::Unavailable) => (503, error("UNAVAILABLE", "none")),
                Some(How::Unknown) => (503, error("UNAVAILABLE", "unknown")),
                Some(How::Broken) => (500, Vec::new()),
                Some(How::UnavailableItems) => {
                    let item = json!({ "error": "UNAVAILABLE", "message": "by the proxy",
                        "retryable": true, "outcome": "none" });
                    (200, json!({ "results": vec![item; items] }).to_string().into_bytes())
                }
                Some(How::NoFeatures) => (200, br#"{"features":[]}"#.to_vec()),
            };
            respond(&mut connection, status, &body).await?;
        }
        Ok(())
    }

    /// Takes the fault of this request.
    fn meets(&self, request: &Request) -> Option<How> {
        let body = String::from_utf8_lossy(&request.body);
        let mut state = self.state();
        let mut of = state.faults.iter_mut().filter(|fault| {
            (fault.times > 0 || fault.always)
                && fault.on == request.route
                && body.contains(&fault.with)
        });
        let fault = of.next()?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        fault.times = fault.times.saturating_sub(1);
        Some(fault.how)
    }

    async fn forward(&self, request: &Request) -> anyhow::Result<(u16, Vec<u8>)> {
        let url = format!("{}{}", self.server, request.target);
        let mut sends = self.http.request(request.method.parse()?, url);
        for (name, value) in &request.headers {
            if !OWN.contains(&name.as_str()) {
                sends = sends.header(name, value);
            }
        }
        let answer = sends.body(request.body.clone()).send().await.context("the server")?;
        Ok((answer.status().as_u16(), answer.bytes().await?.to_vec()))
    }
}

/// Returns when the client has closed the connection.
async fn is_closed(connection: &TcpStream) {
    while let Ok(n) = connection.peek(&mut [0]).await {
        if n == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
