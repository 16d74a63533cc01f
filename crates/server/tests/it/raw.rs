//! Bytes on a socket, for requests that no decent client sends.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection without manners.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Raw {
        Raw(TcpStream::connect(address).await.expect("it listens"))
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it takes bytes");
    }

    /// Says that nothing more comes.
    pub(crate) async fn end(&mut self) {
        // It may have closed already.
        let _closed = self.0.shutdown().await;
    }

    /// Reads the head of an answer, up to the empty line.
    pub(crate) async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.0.read_u8().await.expect("a whole head");
            head.push(byte);
        }
        String::from_utf8(head).expect("a head is text")
    }

    /// Everything until the server closes.
    pub(crate) async fn until_closed(&mut self) -> String {
        let mut bytes = Vec::new();
        // Cut off or ended: what came before counts.
        let _cut = self.0.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
