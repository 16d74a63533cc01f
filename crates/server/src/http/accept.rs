//! Accepts connections, so that slow, silent or surplus clients cost the other clients nothing.
//!
//! 1. The TLS handshake, if there is one, and the first bytes, which show the HTTP version, may take
//!    10 s. Headers must be complete within 30 s,
//!    also on a connection that is kept alive. An HTTP/2 connection without a stream is closed
//!    after 60 s.
//! 2. A client that reads nothing of an answer for 30 s is disconnected. Deliveries that it never
//!    received are given back. Over HTTP/2 it has 60 s per answer, see [`Answer`].
//! 3. A client whose machine has vanished is detected within 60 s, by TCP keepalive and user
//!    timeout.
//! 4. The number of connections is limited. [`Connections`] chooses which one is closed for a new
//!    one. If none can be closed, the new one is answered with 429.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use driftq_api::Error;
use driftq_api::error::details::ResourceExhausted;
use driftq_api::words::ExhaustedReason;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::access::is_open_path;
use super::answer::{AnswerBody, Unread};
use super::api_error::RETRY_AFTER_MS;
use super::connections::{Connection, Connections, Full, InFlight};
use super::request_log::new_id;
use super::router::ListenerRoutes;
use crate::tls::Tls;

/// How long the first bytes may take, up to those that show the HTTP version.
const FIRST_BYTES_TIME: Duration = Duration::from_secs(10);
/// The answer to a client that does not encrypt. Its request was not read.
const PLAIN_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
     content-length: 43\r\n\r\nthis server requires TLS; use an https URL\n";
/// How long the headers of a request may take, and how long a kept-alive HTTP/1.1 connection may be
/// silent.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// How long a connection may have no request in flight. For HTTP/1.1, `HEADER_TIME` ends first.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How long a connection without a request in flight may take to close.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// An HTTP/2 connection that is silent for this long is pinged, and is closed if the ping is not
/// answered within the same time.
const ALIVE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of streams per HTTP/2 connection. Another node has all its consumers on one
/// connection.
const STREAMS_MAX: u32 = 4_096;
/// How long a client may read nothing of an answer.
const STALL_TIME: Duration = Duration::from_secs(30);
/// A connection on which nothing is received for this long is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Interval between two probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// A connection is closed when neither a probe nor data was acknowledged for this long. Without
/// this limit, a client whose machine has vanished holds its connection and its messages until the
/// system gives up, after about 15 minutes.
const USER_TIMEOUT_MS: u32 = 60_000;
/// How long connections may take to close when the server stops.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Number of connections that the system queues until they are accepted. The system drops further
/// ones, and a dropped client retries a second later.
const BACKLOG: u32 = 4_096;
/// Bytes of a connection that are buffered before a request reads them, such as the body of a
/// request that waits for memory.
const BUFFER_BYTES: u32 = 64 * 1_024;
/// Slightly larger than the longest target that hyper allows (65 534 characters), so that a longer
/// target is answered with 414.
const HTTP1_BUFFER_BYTES: usize = 72 * 1_024;
/// Number of bytes read first. Most requests are shorter.
const FIRST_BYTES: usize = 4_096;
/// The first bytes that an HTTP/2 client sends.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The listening socket.
pub struct Listener {
    listener: TcpListener,
    connections: usize,
}

impl Listener {
    /// Listens on `address`.
    pub fn bind(address: std::net::SocketAddr, connections: usize) -> io::Result<Listener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // After a restart, the address is available immediately.
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit these options.
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_EVERY)?;
        sockopt::set_tcp_user_timeout(&socket, USER_TIMEOUT_MS)?;
        socket.bind(address)?;
        Ok(Listener { listener: socket.listen(BACKLOG)?, connections })
    }

    /// The address of the listener, with the port that the system assigned.
    pub fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until `stop` is set, then lets requests in flight finish.
pub(crate) async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    routes: ListenerRoutes,
    mut stop: watch::Receiver<bool>,
) {
    let Listener { listener, connections } = listener;
    let connections = Connections::new(connections);
    // Every task holds a sender, so the channel is closed when all tasks have ended.
    let (working, mut ended) = mpsc::channel::<()>(1);
    let protocols = Arc::new(Protocols::new(tls));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|is_stopped| *is_stopped) => break,
        };
        let Ok((stream, remote)) = accepted else {
            // Most likely out of file handles, so an open connection must be closed first.
            connections.close_first();
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let admitted = loop {
            match connections.admit() {
                // The tasks of those connections have not run yet.
                Err(Full::Silent) => tokio::task::yield_now().await,
                admitted => break admitted,
            }
        };
        let Ok(mut admitted) = admitted else {
            // Over TLS, the answer would need a handshake, so the connection is only closed.
            if protocols.tls.is_none() {
                tokio::spawn(refuse(stream));
            }
            continue;
        };
        let client = Client { routes: routes.clone(), remote: ConnectInfo(remote), unread: None };
        let (protocols, stop, working) = (protocols.clone(), stop.clone(), working.clone());
        tokio::spawn(async move {
            let connection = admitted.connection().clone();
            let mut serving = pin!(protocols.serve(stream, client, &connection, stop));
            // Reads the bytes that the client has sent, and starts its request if they are
            // complete.
            let served = poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx))).await;
            admitted.first_bytes_read();
            if served.is_pending() {
                tokio::select! {
                    () = serving => {}
                    () = admitted.closed() => {}
                }
            }
            drop((admitted, working));
        });
    }
    drop((listener, working));
    if timeout(DRAIN_TIME, ended.recv()).await.is_err() {
        tracing::warn!("shutdown: some connections did not close in time");
    }
}

/// Rejects a connection above the limit.
async fn refuse(mut stream: TcpStream) {
    let (reason, retry_after_ms) = (ExhaustedReason::Connections, RETRY_AFTER_MS);
    let details =
        ResourceExhausted { reason, limit_reason: None, retry_after_ms, group: None, limit: None };
    let mut error = Error::new(details, "too many connections");
    error.request_id = new_id();
    let request_id = &error.request_id;
    tracing::debug!(%request_id, "connection rejected: too many connections");
    let body = serde_json::to_string(&error).expect("an error always serializes");
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nx-request-id: {}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        error.request_id,
        body.len()
    );
    let written = timeout(Duration::from_secs(1), stream.write_all(answer.as_bytes()));
    // It does not matter whether the client received the answer.
    let _told = written.await;
}

/// The HTTP settings of all connections.
struct Protocols {
    tls: Option<Tls>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    fn new(tls: Option<Tls>) -> Protocols {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(HTTP1_BUFFER_BYTES);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_TIME)
            .keep_alive_timeout(ALIVE_TIME);
        http2
            .max_concurrent_streams(STREAMS_MAX)
            .initial_connection_window_size(BUFFER_BYTES)
            .initial_stream_window_size(BUFFER_BYTES);
        Protocols { tls, http1, http2 }
    }

    /// Performs the TLS handshake, if there is one, and reads the first bytes.
    async fn open(&self, mut stream: TcpStream) -> io::Result<(ClientStream, Vec<u8>)> {
        let Some(tls) = &self.tls else {
            let first = first_bytes(&mut stream).await?;
            return Ok((ClientStream::Plain(stream), first));
        };
        if !starts_handshake(&stream).await? {
            // Unread bytes would reset the connection, and the client would not get the answer.
            let _unused = stream.read(&mut [0; FIRST_BYTES]).await?;
            stream.write_all(PLAIN_ANSWER.as_bytes()).await?;
            stream.shutdown().await?;
            return Err(io::ErrorKind::InvalidData.into());
        }
        let acceptor = TlsAcceptor::from(tls.current());
        let mut stream = acceptor.accept(stream).await?;
        let first = read_first_bytes(&mut stream, Vec::with_capacity(FIRST_BYTES)).await?;
        Ok((ClientStream::Tls(Box::new(stream)), first))
    }

    /// Serves one connection to its end.
    async fn serve(
        &self,
        stream: TcpStream,
        mut client: Client,
        connection: &Connection,
        mut stop: watch::Receiver<bool>,
    ) {
        // Answers are written completely, so waiting to fill a packet would only delay them.
        let _slower = stream.set_nodelay(true);
        let opened = tokio::select! {
            opened = timeout(FIRST_BYTES_TIME, self.open(stream)) => opened,
            _ = stop.wait_for(|is_stopped| *is_stopped) => return,
        };
        let Ok(Ok((stream, first))) = opened else { return };
        let is_http2 = first.starts_with(PREFACE);
        let io = TokioIo::new(WriteTimeoutStream { first: first.into(), stream, stalled: None });
        let unread = is_http2.then(Arc::<Unread>::default);
        client.unread.clone_from(&unread);
        let named = connection.clone();
        let service = service_fn(move |request| client.clone().answer(named.begin(), request));
        if let Some(unread) = unread {
            let serving = run(self.http2.serve_connection(io, service), connection, stop);
            tokio::select! {
                () = serving => {}
                () = unread.too_long() => {}
            }
        } else {
            run(self.http1.serve_connection(io, service), connection, stop).await;
        }
    }
}

/// Runs a connection to its end. No new request starts on it after it has been idle for too long,
/// or when the server stops.
async fn run(
    serving: impl GracefulConnection,
    connection: &Connection,
    mut stop: watch::Receiver<bool>,
) {
    let mut serving = pin!(serving);
    tokio::select! {
        // A broken connection needs no action.
        _broken = &mut serving => return,
        _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        () = connection.idle_for(IDLE_TIME, Instant::now()) => {}
    }
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        _broken = &mut serving => {}
        () = connection.idle_for(CLOSE_TIME, Instant::now()) => {}
    }
}

/// Reads the first bytes of a connection, at least up to those that show the HTTP version: the
/// complete HTTP/2 preface, or a byte that is not part of it. Bytes that have already arrived are
/// read directly, because tokio would wait for a readiness event.
async fn first_bytes(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut first = vec![0; FIRST_BYTES];
    let length = match rustix::net::recv(&*stream, &mut first[..], RecvFlags::DONTWAIT) {
        Ok((length, _)) => length,
        Err(Errno::WOULDBLOCK | Errno::INTR) => 0,
        Err(error) => return Err(error.into()),
    };
    first.truncate(length);
    read_first_bytes(stream, first).await
}

async fn read_first_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    mut first: Vec<u8>,
) -> io::Result<Vec<u8>> {
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        if stream.read_buf(&mut first).await? == 0 {
            break;
        }
    }
    Ok(first)
}

/// Whether the client starts a TLS handshake.
async fn starts_handshake(stream: &TcpStream) -> io::Result<bool> {
    const HANDSHAKE: u8 = 0x16;
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE)
}

/// A connection of a client.
enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            ClientStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            ClientStream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ClientStream::Plain(stream) => stream.is_write_vectored(),
            ClientStream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            ClientStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The client of a connection, and the routes that answer it.
#[derive(Clone)]
struct Client {
    routes: ListenerRoutes,
    remote: ConnectInfo<std::net::SocketAddr>,
    /// For HTTP/2: the answers that wait for the client.
    unread: Option<Arc<Unread>>,
}

impl Client {
    async fn answer(
        self,
        in_flight: Option<InFlight>,
        mut request: Request<Incoming>,
    ) -> io::Result<Response<AnswerBody>> {
        // The connection was closed for another one at this moment, so the request was not
        // executed.
        let in_flight = in_flight.ok_or(io::ErrorKind::ConnectionAborted)?;
        // Paths that need no key do not protect their connection from being closed.
        let in_flight = (!is_open_path(request.uri().path())).then_some(in_flight);
        request.extensions_mut().insert(self.remote);
        let response = self.routes.answer(request.map(Body::new)).await;
        Ok(response.map(|body| AnswerBody::new(body, self.unread, in_flight)))
    }
}

/// A stream whose writes fail with a timeout when the client reads nothing.
struct WriteTimeoutStream {
    /// Bytes that were already read from `stream`.
    first: Bytes,
    stream: ClientStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeoutStream {
    /// Runs the timeout while a write is pending.
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

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let length = self.first.len().min(buf.remaining());
            buf.put_slice(&self.first.split_to(length));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for WriteTimeoutStream {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_inherit_keepalive_and_user_timeout() {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port");
        let address = listener.address().expect("it is bound");
        let _client = TcpStream::connect(address).await.expect("it listens");
        let (accepted, _) = listener.listener.accept().await.expect("a client connects");
        assert_eq!(sockopt::socket_keepalive(&accepted), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&accepted), Ok(KEEPALIVE_IDLE));
        assert_eq!(sockopt::tcp_keepintvl(&accepted), Ok(KEEPALIVE_EVERY));
        assert_eq!(sockopt::tcp_user_timeout(&accepted), Ok(USER_TIMEOUT_MS));
    }
}
