//! A router hook that misbehaves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

const HUGE_BYTES: usize = 8 << 20;

/// How the hook answers a call.
#[derive(Clone, Copy)]
pub(crate) enum Conduct {
    /// With a topic by chance for each message.
    Decides,
    /// With a topic that does not exist.
    DecidesWrong,
    Fails,
    /// With a body that is larger than the server reads.
    Huge,
    Nonsense,
    /// With one decision too many.
    Miscounts,
    /// Perhaps too late.
    Slow,
    Hangs,
}

/// A running hook.
pub(crate) struct Hook {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    topics: Vec<String>,
    calls: AtomicUsize,
    /// Of every call, instead of one by chance.
    conduct: Mutex<Option<Conduct>>,
}

impl Hook {
    pub(crate) async fn start(topics: &[&str]) -> anyhow::Result<Hook> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/route", listener.local_addr()?);
        let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
        let shared =
            Arc::new(Shared { topics, calls: AtomicUsize::new(0), conduct: Mutex::new(None) });
        let app = Router::new().route("/route", post(answer)).with_state(shared.clone());
        tokio::spawn(async { axum::serve(listener, app).await });
        Ok(Hook { url, shared })
    }

    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Lets it answer every call in this way.
    pub(crate) fn conduct(&self, conduct: Conduct) {
        *self.shared.conduct.lock().unwrap_or_else(PoisonError::into_inner) = Some(conduct);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Json(request): Json<Value>) -> Response<Body> {
    shared.calls.fetch_add(1, Ordering::SeqCst);
    let set = *shared.conduct.lock().unwrap_or_else(PoisonError::into_inner);
    let conduct = set.unwrap_or_else(|| match fastrand::u8(..40) {
        0 => Conduct::Fails,
        1 => Conduct::Huge,
        2 => Conduct::Nonsense,
        3 => Conduct::Miscounts,
        4 => Conduct::Slow,
        5 => Conduct::Hangs,
        6 => Conduct::DecidesWrong,
        _ => Conduct::Decides,
    });
    let count = request["messages"].as_array().map_or(0, Vec::len);
    let decisions = |count: usize| {
        let decision = || {
            let topic = &shared.topics[fastrand::usize(..shared.topics.len())];
            json!({ "label": "by chance", "target_topic": topic })
        };
        let decisions: Vec<Value> = (0..count).map(|_| decision()).collect();
        json!({ "decisions": decisions }).to_string()
    };
    let body = match conduct {
        Conduct::Decides => decisions(count),
        Conduct::DecidesWrong => {
            json!({ "decisions": vec![json!({ "target_topic": "nowhere" }); count] }).to_string()
        }
        Conduct::Fails => return status(500),
        Conduct::Huge => "x".repeat(HUGE_BYTES),
        Conduct::Nonsense => "no JSON".to_owned(),
        Conduct::Miscounts => decisions(count + 1),
        Conduct::Slow => {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..400))).await;
            decisions(count)
        }
        Conduct::Hangs => std::future::pending().await,
    };
    Response::new(body.into())
}

fn status(code: u16) -> Response<Body> {
    let mut response = Response::default();
    *response.status_mut() = axum::http::StatusCode::from_u16(code).unwrap_or_default();
    response
}
