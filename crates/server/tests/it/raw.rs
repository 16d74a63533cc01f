//! A raw socket, for requests that a correct HTTP client never sends.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A raw connection.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Raw {
        Raw(TcpStream::connect(address).await.expect("it listens"))
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it takes bytes");
    }

    /// Shuts down the sending side.
    pub(crate) async fn end(&mut self) {
        // The server may have closed the connection already.
        let _closed = self.0.shutdown().await;
    }

    /// Reads the head of a response, up to the empty line.
    pub(crate) async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.0.read_u8().await.expect("a complete head");
            head.push(byte);
        }
        String::from_utf8(head).expect("a head is text")
    }

    /// Reads everything until the server closes the connection.
    pub(crate) async fn until_closed(&mut self) -> String {
        let mut bytes = Vec::new();
        // The bytes received before the end count, whether the connection was closed or reset.
        let _cut = self.0.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
