//! HTTP servers on loopback whose connections can be closed instead of answered.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request with its complete body.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) at: Instant,
}

impl Call {
    async fn read(request: Request<Incoming>) -> Result<Call, hyper::Error> {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let body = body.collect().await?.to_bytes();
        let at = Instant::now();
        Ok(Call { method: head.method, target, headers: head.headers, body, at })
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the body, or the query as an object of texts.
    pub(super) fn json(&self) -> Value {
        if !self.body.is_empty() {
            return serde_json::from_slice(&self.body).unwrap_or_default();
        }
        let url = format!("http://localhost{}", self.target);
        let Ok(url) = reqwest::Url::parse(&url) else { return Value::Null };
        url.query_pairs().into_owned().map(|(name, text)| (name, Value::String(text))).collect()
    }
}

/// Accepts connections until the returned set is dropped. If `answer` returns `None`, the connection
/// is closed without a response. If the client closes it first, the future of `answer` is dropped.
pub(super) fn listen<F>(
    listener: TcpListener,
    answer: impl Fn(Call) -> F + Clone + Send + 'static,
) -> JoinSet<()>
where
    F: Future<Output = Option<Response<Body>>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    let answer = answer.clone();
                    async move {
                        let call = Call::read(request).await.map_err(io::Error::other)?;
                        answer(call).await.ok_or_else(|| io::Error::other("closed on purpose"))
                    }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                // A worker that dies breaks its connections.
                let _broken = builder.serve_connection(TokioIo::new(stream), service).await;
            });
            while connections.try_join_next().is_some() {}
        }
    });
    tasks
}

/// Returns a response with a complete body.
pub(super) fn response(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body: Bytes = body.into();
    let has_body = !body.is_empty();
    let body = Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status.try_into().expect("a valid status");
    if has_body {
        let json = "application/json".parse().expect("a valid header");
        response.headers_mut().insert(CONTENT_TYPE, json);
    }
    response
}

/// Returns the text of a header, without the quotes that some clients send.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?.trim_matches('"');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Distinct items in the order of their first occurrence.
pub(super) fn distinct<T: Clone + Eq + std::hash::Hash>(items: &[T]) -> Vec<T> {
    let mut seen: HashMap<T, ()> = HashMap::new();
    items.iter().filter(|item| seen.insert((*item).clone(), ()).is_none()).cloned().collect()
}
