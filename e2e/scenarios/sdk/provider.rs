//! The provider: acts once for each idempotency key, and counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::http1::{Request, respond};
use crate::scenario::Conduct;

/// Longer than an agent waits.
const HANG_TIME: Duration = Duration::from_secs(5);

/// A running provider.
pub(crate) struct Provider {
    pub(crate) url: String,
    books: Arc<Mutex<Books>>,
    _connections: JoinSet<()>,
}

/// What the provider did.
#[derive(Default)]
struct Books {
    conducts: std::vec::IntoIter<Conduct>,
    /// The idempotency key of each call.
    calls: Vec<String>,
    /// Results by idempotency key.
    acts: BTreeMap<String, String>,
}

impl Provider {
    pub(crate) async fn start(conducts: Vec<Conduct>) -> anyhow::Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let books = Books { conducts: conducts.into_iter(), ..Books::default() };
        let books = Arc::new(Mutex::new(books));
        let mut connections = JoinSet::new();
        let kept = books.clone();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                let books = kept.clone();
                open.spawn(async move {
                    // A caller that dies closes the connection.
                    let _failed = serve(&books, connection).await;
                });
            }
        });
        Ok(Provider { url, books, _connections: connections })
    }

    pub(crate) fn calls(&self) -> usize {
        lock(&self.books).calls.len()
    }

    pub(crate) fn acts(&self) -> usize {
        lock(&self.books).acts.len()
    }

    /// The number of idempotency keys.
    pub(crate) fn keys(&self) -> usize {
        let mut keys = lock(&self.books).calls.clone();
        keys.sort();
        keys.dedup();
        keys.len()
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(books: &Mutex<Books>, mut connection: TcpStream) -> anyhow::Result<()> {
    while let Some(request) = Request::read(&mut connection).await? {
        if let Some(key) = request.route.strip_prefix("GET /acts/") {
            let result = lock(books).acts.get(key).cloned();
            let status = if result.is_some() { 200 } else { 404 };
            respond(&mut connection, status, result.unwrap_or_default().as_bytes()).await?;
            continue;
        }
        let key = request.headers.get("idempotency-key").cloned().unwrap_or_default();
        let (conduct, result) = lock(books).call(key);
        match conduct {
            Conduct::Acts => respond(&mut connection, 200, result.as_bytes()).await?,
            Conduct::Declines => respond(&mut connection, 402, b"{}").await?,
            Conduct::IsBusy => respond(&mut connection, 429, b"{}").await?,
            Conduct::Fails | Conduct::ActsAndFails => {
                respond(&mut connection, 500, b"{}").await?;
            }
            Conduct::ActsAndCloses => return Ok(()),
            Conduct::ActsAndHangs => tokio::time::sleep(HANG_TIME).await,
        }
    }
    Ok(())
}

impl Books {
    /// Acts, unless the conduct says otherwise or it has acted for this key. Returns the result.
    fn call(&mut self, key: String) -> (Conduct, String) {
        let conduct = self.conducts.next().unwrap_or(Conduct::Acts);
        self.calls.push(key.clone());
        if matches!(conduct, Conduct::Declines | Conduct::IsBusy | Conduct::Fails) {
            return (conduct, String::new());
        }
        let next = json!({ "act": self.acts.len() + 1 }).to_string();
        (conduct, self.acts.entry(key).or_insert(next).clone())
    }
}
