//! Where connections go.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::rule::End;

/// What a proxy stands before.
#[derive(Debug, Clone)]
pub enum Target {
    /// An address.
    Tcp(SocketAddr),
    /// The file of a socket.
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

/// A connection to it.
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

    /// Reads what nobody wants, to its end.
    pub(super) async fn drain(&mut self) -> io::Result<u64> {
        let (mut read, _) = self.split();
        tokio::io::copy(&mut read, &mut tokio::io::sink()).await
    }

    /// Cuts it. The socket of a file knows no reset: it is closed.
    pub(super) async fn cut(mut self, end: End) {
        // What cannot be cut has ended by itself.
        let _cut = match (&self, end) {
            (Server::Tcp(stream), End::Reset) => stream.set_zero_linger(),
            (Server::Tcp(_) | Server::Unix(_), _) => self.shutdown().await,
        };
    }
}
