//! Raw requests, for input that no client library sends.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends bytes and returns the response up to the end of the stream, or up to `within`.
pub(crate) async fn exchange(
    address: SocketAddr,
    bytes: &[u8],
    within: Duration,
) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let mut answer = Vec::new();
    let talk = async {
        stream.write_all(bytes).await?;
        while stream.read_buf(&mut answer).await? > 0 {}
        anyhow::Ok(())
    };
    // Some responses never end, and some servers close in the middle of a request. The bytes read
    // so far count.
    let _ended = tokio::time::timeout(within, talk).await;
    Ok(answer)
}

/// Returns the status of an HTTP/1.1 response, if there is one.
pub(crate) fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.get(..12)?).ok()?;
    line.strip_prefix("HTTP/1.1 ")?.parse().ok()
}
