//! The proxy between the worker and the server. It records the effects that the worker begins.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::gate::{Gates, Phase, Point, Resume};
use super::http::{Body, Call, listen, response};

/// Headers of a connection, not of a request.
const CONNECTION_HEADERS: [&str; 5] =
    ["host", "connection", "content-length", "transfer-encoding", "expect"];

/// An effect that the worker was allowed to execute, or whose outcome it got.
#[derive(Clone)]
pub(super) struct Begun {
    /// Scope and key.
    pub(super) name: (String, String),
    pub(super) downstream_key: Option<String>,
    /// The request of the worker.
    pub(super) request: Value,
    /// When the worker got the response.
    pub(super) at: Instant,
}

/// A running proxy.
pub(super) struct Proxy {
    pub(super) url: String,
    shared: Arc<Shared>,
    _connections: JoinSet<()>,
}

struct Shared {
    http: reqwest::Client,
    gates: Gates,
    state: Mutex<State>,
    /// Whether receives wait in the proxy, so that the check gets the next delivery.
    holds_receives: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    server: String,
    begun: Vec<Begun>,
    /// The outcomes that the worker has recorded.
    outcomes: Vec<String>,
    receives: usize,
}

impl Proxy {
    pub(super) async fn start(address: SocketAddr) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            http: reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?,
            gates: Gates::default(),
            state: Mutex::new(State::default()),
            holds_receives: watch::Sender::new(false),
        });
        let answers = shared.clone();
        let connections = listen(listener, move |call| {
            let shared = answers.clone();
            async move { shared.answer(call).await }
        });
        Ok(Proxy { url, shared, _connections: connections })
    }

    /// Forwards to another server from now on.
    pub(super) fn reset(&self, server: &str) {
        self.shared.gates.clear();
        *self.shared.state() = State { server: server.to_owned(), ..State::default() };
        self.hold_receives(false);
    }

    pub(super) fn gates(&self) -> &Gates {
        &self.shared.gates
    }

    pub(super) fn hold_receives(&self, holds: bool) {
        self.shared.holds_receives.send_replace(holds);
    }

    pub(super) fn begun(&self) -> Vec<Begun> {
        self.shared.state().begun.clone()
    }

    pub(super) fn outcomes(&self) -> Vec<String> {
        self.shared.state().outcomes.clone()
    }

    /// Returns how many receives have come since the last reset.
    pub(super) fn receives(&self) -> usize {
        self.shared.state().receives
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, call: Call) -> Option<Response<Body>> {
        let points = points(&call);
        if points.contains(&Point::Finish) {
            self.record_outcomes(&call.json());
        }
        if self.gates.meet(&points, Phase::Request, &call).await == Resume::Close {
            return None;
        }
        match call.path() {
            "/v1/receive" => self.receive(&call).await,
            "/v1/consume" => self.stream(&call).await,
            _ => {
                let (status, body) = self.forward(&call).await?;
                if points.contains(&Point::Begin) {
                    self.record_begin(&call, &body);
                }
                match self.gates.meet(&points, Phase::Response, &call).await {
                    Resume::Close => None,
                    Resume::Pass => Some(response(status, body)),
                }
            }
        }
    }

    /// Forwards a receive. It waits while the check takes a delivery.
    async fn receive(&self, call: &Call) -> Option<Response<Body>> {
        self.state().receives += 1;
        let mut holds = self.holds_receives.subscribe();
        loop {
            holds.wait_for(|holds| !*holds).await.ok()?;
            tokio::select! {
                answer = self.forward(call) => {
                    return answer.map(|(status, body)| response(status, body));
                }
                _ = holds.wait_for(|holds| *holds) => {}
            }
        }
    }

    /// Forwards a stream. It ends when the check takes a delivery, and the next one waits.
    async fn stream(&self, call: &Call) -> Option<Response<Body>> {
        self.state().receives += 1;
        let mut holds = self.holds_receives.subscribe();
        holds.wait_for(|holds| !*holds).await.ok()?;
        let answer = self.send(call).await?;
        let status = answer.status().as_u16();
        let is_held = async move { holds.wait_for(|holds| *holds).await.is_ok() };
        let chunks = answer.bytes_stream().take_until(Box::pin(is_held));
        let frames = chunks.map_ok(Frame::data).map_err(std::io::Error::other);
        let mut response = response(status, Bytes::new());
        *response.body_mut() = StreamBody::new(frames).boxed_unsync();
        Some(response)
    }

    async fn forward(&self, call: &Call) -> Option<(u16, Bytes)> {
        let answer = self.send(call).await?;
        Some((answer.status().as_u16(), answer.bytes().await.ok()?))
    }

    /// `None` if the server of the check has stopped.
    async fn send(&self, call: &Call) -> Option<reqwest::Response> {
        let url = format!("{}{}", self.state().server, call.target);
        let mut request = self.http.request(call.method.clone(), url).body(call.body.clone());
        for (name, value) in &call.headers {
            if !CONNECTION_HEADERS.contains(&name.as_str()) {
                request = request.header(name, value);
            }
        }
        request.send().await.ok()
    }

    /// Records the outcomes of a finish or a commit.
    fn record_outcomes(&self, request: &Value) {
        let effects = request["effects"].as_array().into_iter().flatten();
        let outcomes = effects.chain([request]).filter_map(|effect| effect["status"].as_str());
        self.state().outcomes.extend(outcomes.map(str::to_owned));
    }

    fn record_begin(&self, call: &Call, body: &[u8]) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let (Some(scope), Some(key)) = (text("scope"), text("key")) else { return };
        self.state().begun.push(Begun {
            name: (scope, key),
            downstream_key: text("downstream_key"),
            request: call.json(),
            at: Instant::now(),
        });
    }
}

/// Returns what a request does.
fn points(call: &Call) -> Vec<Point> {
    match call.path() {
        "/v1/effects/begin" | "/v1/effects/reacquire" => vec![Point::Begin],
        "/v1/effects/finish" => vec![Point::Finish],
        "/v1/ack" => vec![Point::Ack],
        "/v1/settle" => {
            let request = call.json();
            let mut items = request["items"].as_array().into_iter().flatten();
            if items.any(|item| item["op"] == "ack") { vec![Point::Ack] } else { vec![] }
        }
        "/v1/commit" => {
            let request = call.json();
            let has_effects = request["effects"].as_array().is_some_and(|list| !list.is_empty());
            let mut points = if has_effects { vec![Point::Finish] } else { vec![] };
            if request["settle"] != "nack" {
                points.push(Point::Ack);
            }
            points
        }
        _ => vec![],
    }
}
