//! The payment provider: `POST /charges` charges once for each `Idempotency-Key`. `GET /charges/KEY`
//! returns the charge, for workers that ask the provider about an unknown outcome.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hyper::{Method, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::gate::{Gates, Phase, Point, Resume};
use super::http::{Body, Call, header, listen, response};

/// A request to charge an order.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) key: Option<String>,
    pub(super) at: Instant,
}

#[derive(Default)]
struct Books {
    requests: Vec<Request>,
    /// The order and the key of each charge.
    charges: Vec<(String, Option<String>)>,
    is_unavailable: bool,
}

/// A running provider.
pub(super) struct Provider {
    pub(super) url: String,
    pub(super) gates: Arc<Gates>,
    books: Arc<Mutex<Books>>,
    _connections: JoinSet<()>,
}

impl Provider {
    pub(super) async fn start(address: SocketAddr) -> std::io::Result<Provider> {
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (gates, books) = (Arc::new(Gates::default()), Arc::new(Mutex::new(Books::default())));
        let shared = (gates.clone(), books.clone());
        let connections = listen(listener, move |call| {
            let (gates, books) = shared.clone();
            async move { answer(&gates, &books, call).await }
        });
        Ok(Provider { url, gates, books, _connections: connections })
    }

    /// Forgets everything before the next check.
    pub(super) fn reset(&self) {
        self.gates.clear();
        *lock(&self.books) = Books::default();
    }

    /// Rejects every charge with 503, or no longer.
    pub(super) fn set_unavailable(&self, is_unavailable: bool) {
        lock(&self.books).is_unavailable = is_unavailable;
    }

    /// Charges an order, as another worker would.
    pub(super) fn charge(&self, order: &str, key: Option<String>) {
        lock(&self.books).charge(order, key);
    }

    /// Returns how often an order was charged.
    pub(super) fn charges(&self, order: &str) -> usize {
        lock(&self.books).charges.iter().filter(|(charged, _)| charged == order).count()
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        lock(&self.books).requests.clone()
    }
}

impl Books {
    /// Charges, unless this key has been charged before. Returns the number of the charge.
    fn charge(&mut self, order: &str, key: Option<String>) -> usize {
        let mut charges = self.charges.iter();
        if let Some(at) = charges.position(|(_, known)| key.is_some() && *known == key) {
            return at + 1;
        }
        self.charges.push((order.to_owned(), key));
        self.charges.len()
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(gates: &Gates, books: &Mutex<Books>, call: Call) -> Option<Response<Body>> {
    if let Some(key) = call.path().strip_prefix("/charges/") {
        let charges = lock(books).charges.clone();
        let at = charges.iter().position(|(_, known)| known.as_deref() == Some(key));
        return Some(at.map_or_else(|| response(404, "{}"), |at| charged(at + 1)));
    }
    if call.method != Method::POST || call.path() != "/charges" {
        return Some(response(404, r#"{"error":"the provider has POST /charges only"}"#));
    }
    let Value::String(order) = call.json()["id"].take() else {
        return Some(response(400, r#"{"error":"the body must be the value of the message"}"#));
    };
    let key = header(&call.headers, "idempotency-key");
    lock(books).requests.push(Request { key: key.clone(), at: call.at });
    if gates.meet(&[Point::Charge], Phase::Request, &call).await == Resume::Close {
        return None;
    }
    if lock(books).is_unavailable {
        return Some(response(503, "{}"));
    }
    let number = lock(books).charge(&order, key);
    match gates.meet(&[Point::Charge], Phase::Response, &call).await {
        Resume::Close => None,
        Resume::Pass => Some(charged(number)),
    }
}

fn charged(number: usize) -> Response<Body> {
    response(200, json!({ "charge": format!("ch_{number}") }).to_string())
}
