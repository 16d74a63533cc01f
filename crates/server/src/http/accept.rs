//! Accepting connections: who is slow or too many must not cost the others anything.
//!
//! 1. Headers must come within a time, first ones and those of a connection that is kept.
//! 2. A client that takes nothing of an answer for 30 s is dropped; what it was given and never saw goes
//!    back.
//! 3. Connections are bounded; one too many is told so and closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use driftq_api::{Error, ErrorCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;
use tower::ServiceExt as _;

use super::guard::new_request_id;

/// How long the headers of a request may take, and how long a kept connection may say nothing.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what it is sent.
/// A connection of HTTP/2 on which nothing comes for so long is asked whether it lives, and has as long to say so.
const ALIVE_TIME: Duration = Duration::from_secs(5);
/// Streams of one connection of HTTP/2: another node has all its consumers on one.
const STREAMS_MAX: u32 = 4_096;
const STALL_TIME: Duration = Duration::from_secs(30);
/// How long connections may take to end when the server stops.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// Where connections come in.
pub struct Listener {
    listener: TcpListener,
    connections: usize,
}

impl Listener {
    /// Listens at `address`.
    pub async fn bind(address: std::net::SocketAddr, connections: usize) -> io::Result<Listener> {
        Ok(Listener { listener: TcpListener::bind(address).await?, connections })
    }

    /// Where it listens, with the port the system gave.
    pub fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until `stop` is set, then lets requests under way end.
pub async fn serve(listener: Listener, router: Router, mut stop: watch::Receiver<bool>) {
    let Listener { listener, connections } = listener;
    let room = Arc::new(Semaphore::new(connections));
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(ALIVE_TIME).keep_alive_timeout(ALIVE_TIME);
    http2.max_concurrent_streams(STREAMS_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|is_stopped| *is_stopped) => break,
        };
        let Ok((stream, remote)) = accepted else {
            // Out of file handles, most likely: those that are open must end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            tokio::spawn(refuse(stream));
            continue;
        };
        // Answers are written whole: waiting to fill a packet only delays them.
        let _slower = stream.set_nodelay(true);
        let io = TokioIo::new(Flowing { stream, stalled: None });
        let service = router.clone().map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(ConnectInfo(remote));
            request
        });
        let service = TowerToHyperService::new(service);
        let connection = builder.serve_connection_with_upgrades(io, service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A connection that breaks is the client's business.
            let _broken = connection.await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// One connection too many.
async fn refuse(mut stream: TcpStream) {
    let mut error = Error::new(ErrorCode::ResourceExhausted, "too many connections")
        .with("reason", "connections")
        .with("retry_after_ms", 1_000);
    error.request_id = new_request_id();
    let body = serde_json::to_string(&error).expect("an error is plain");
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nx-request-id: {}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        error.request_id,
        body.len()
    );
    let written = tokio::time::timeout(Duration::from_secs(1), stream.write_all(answer.as_bytes()));
    // Whether it was read is its business.
    let _told = written.await;
}

/// A stream that fails when nothing can be written for too long.
struct Flowing {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Flowing {
    /// Keeps the time while a write waits.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIME)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Flowing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Flowing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
