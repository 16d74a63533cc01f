//! The payment provider: it charges orders, records each charge in a file, and kills its callers.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context as _;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::scenario::Scenario;

/// How long a worker waits for the provider.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(1_500);

/// A worker's request: the order, the idempotency key of the charge, and the worker's process id.
#[derive(Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) order: usize,
    pub(crate) key: String,
    pub(crate) worker: u32,
}

/// Kills the broker. The sender in the request is notified when the broker is dead.
pub(crate) type Killer = mpsc::Sender<oneshot::Sender<()>>;

/// A running provider.
#[derive(Clone)]
pub(crate) struct Provider {
    deduplicates: bool,
    path: PathBuf,
    books: Arc<Mutex<Books>>,
    killer: Killer,
}

struct Books {
    file: File,
    /// Charges by idempotency key, and by order.
    by_key: HashMap<String, String>,
    by_order: HashMap<usize, String>,
    /// Orders that have met their scenario.
    met: BTreeMap<usize, Scenario>,
}

impl Provider {
    /// Creates the file of charges and listens. Returns the URL too.
    pub(crate) async fn open(
        path: &Path,
        deduplicates: bool,
        killer: Killer,
    ) -> anyhow::Result<(Provider, String)> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        let books =
            Books { file, by_key: HashMap::new(), by_order: HashMap::new(), met: BTreeMap::new() };
        let books = Arc::new(Mutex::new(books));
        let provider = Provider { deduplicates, path: path.to_owned(), books, killer };
        let routes = axum::Router::new()
            .route("/charge", post(charge))
            .route("/told", post(told))
            .with_state(provider.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok((provider, url))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether this order meets its scenario now. Each order does so once.
    fn meets(&self, order: usize, fate: Scenario) -> bool {
        Scenario::of(order) == fate && self.books().met.insert(order, fate).is_none()
    }

    /// Records a charge, unless the provider deduplicates and the key is known.
    fn write(&self, charge: &Charge) -> anyhow::Result<String> {
        let mut books = self.books();
        if self.deduplicates
            && let Some(known) = books.by_key.get(&charge.key)
        {
            return Ok(known.clone());
        }
        let name = format!("ch_{}", fastrand::u64(..));
        writeln!(books.file, "{} {} {name}", charge.order, charge.key)?;
        books.file.sync_data()?;
        books.by_key.insert(charge.key.clone(), name.clone());
        books.by_order.insert(charge.order, name.clone());
        Ok(name)
    }

    /// Returns the charge of an order, as an operator would look it up.
    pub(crate) fn find(&self, order: usize) -> Option<String> {
        self.books().by_order.get(&order).cloned()
    }

    /// How many orders have met each scenario.
    pub(crate) fn met(&self) -> BTreeMap<Scenario, usize> {
        let mut met = BTreeMap::new();
        for fate in self.books().met.values() {
            *met.entry(*fate).or_default() += 1;
        }
        met
    }

    /// How often each order was charged, according to the file.
    pub(crate) fn truth(&self) -> anyhow::Result<BTreeMap<usize, usize>> {
        let mut charged = BTreeMap::new();
        for line in std::fs::read_to_string(&self.path)?.lines() {
            let order = line.split(' ').next().and_then(|order| order.parse().ok());
            *charged.entry(order.context("a line begins with its order")?).or_default() += 1;
        }
        Ok(charged)
    }
}

async fn charge(
    State(provider): State<Provider>,
    Json(charge): Json<Charge>,
) -> Result<Json<String>, StatusCode> {
    if provider.meets(charge.order, Scenario::KilledBefore) {
        return kill(charge.worker).await;
    }
    let written = tokio::task::block_in_place(|| provider.write(&charge));
    let name = written.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    if provider.meets(charge.order, Scenario::KilledBeforeAnswer) {
        return kill(charge.worker).await;
    }
    if provider.meets(charge.order, Scenario::LateAnswer) {
        tokio::time::sleep(TIMEOUT * 2).await;
    }
    if provider.meets(charge.order, Scenario::BrokerKilled) {
        let (dead, is_dead) = oneshot::channel();
        let asked = provider.killer.send(dead).await;
        asked.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        is_dead.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    }
    Ok(Json(name))
}

/// Called by a worker that has read the answer to its charge. The worker waits for this response
/// before it continues.
async fn told(
    State(provider): State<Provider>,
    Json(charge): Json<Charge>,
) -> Result<Json<String>, StatusCode> {
    if provider.meets(charge.order, Scenario::KilledAfterAnswer) {
        kill(charge.worker).await
    } else {
        Ok(Json(String::new()))
    }
}

/// Kills the worker that waits for the response. No response is sent.
async fn kill(worker: u32) -> Result<Json<String>, StatusCode> {
    let pid = i32::try_from(worker).ok().and_then(Pid::from_raw).ok_or(StatusCode::BAD_REQUEST)?;
    kill_process(pid, Signal::KILL).map_err(|_| StatusCode::BAD_REQUEST)?;
    tokio::time::sleep(Duration::MAX).await;
    Err(StatusCode::BAD_REQUEST)
}
