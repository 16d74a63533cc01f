//! The server behind a proxy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::rule::End;

/// The address that a proxy forwards to.
#[derive(Debug, Clone)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Target {
    pub(super) async fn connect(&self) -> io::Result<Server> {
        Ok(match self {
            Target::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Server::Tcp(stream)
            }
            Target::Unix(path) => Server::Unix(UnixStream::connect(path).await?),
        })
    }
}

/// A connection to the target.
pub(super) enum Server {
    Tcp(TcpStream),
    Unix(UnixStream),
}

type Read<'a> = Box<dyn AsyncRead + Send + Unpin + 'a>;
type Write<'a> = Box<dyn AsyncWrite + Send + Unpin + 'a>;

impl Server {
    pub(super) fn split(&mut self) -> (Read<'_>, Write<'_>) {
        match self {
            Server::Tcp(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
            Server::Unix(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
        }
    }

    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Server::Tcp(stream) => stream.shutdown().await,
            Server::Unix(stream) => stream.shutdown().await,
        }
    }

    /// Reads and discards everything up to the end of the stream.
    pub(super) async fn drain(&mut self) -> io::Result<u64> {
        let (mut read, _) = self.split();
        tokio::io::copy(&mut read, &mut tokio::io::sink()).await
    }

    /// Cuts the connection. Unix sockets have no reset, so they are closed.
    pub(super) async fn cut(mut self, end: End) {
        // A failure means that the connection has ended already.
        let _cut = match (&self, end) {
            (Server::Tcp(stream), End::Reset) => stream.set_zero_linger(),
            (Server::Tcp(_) | Server::Unix(_), _) => self.shutdown().await,
        };
    }
}
