//! An HTTP/2 client that opens one stream with almost no flow-control window, so it receives no
//! line of the body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
/// The number of the setting INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: [u8; 2] = [0, 4];

/// The stream. Dropping it closes the connection.
pub struct Stalled {
    reader: JoinHandle<()>,
    /// Bytes of the body that arrived despite the window.
    body_bytes: Arc<AtomicU64>,
}

impl Stalled {
    /// Sends GET `path` with a flow-control window of `window` bytes.
    pub async fn get(address: SocketAddr, path: &str, window: u32) -> anyhow::Result<Stalled> {
        let mut stream = TcpStream::connect(address).await?;
        // Method GET and scheme http from the static table; path and authority with indexed names.
        let mut headers = vec![0x82, 0x86];
        literal(&mut headers, 0x04, path);
        literal(&mut headers, 0x01, &address.to_string());
        let initial_window = [&INITIAL_WINDOW[..], &window.to_be_bytes()].concat();
        let settings = frame(SETTINGS, 0, 0, &initial_window);
        let request = frame(HEADERS, WHOLE, 1, &headers);
        stream.write_all(&[PREFACE, &settings, &request].concat()).await?;
        let body_bytes = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&body_bytes);
        // Ends when the server closes the connection.
        let reader = tokio::spawn(async move { drop(read(stream, &seen).await) });
        Ok(Stalled { reader, body_bytes })
    }

    /// Waits until the server closes the connection.
    pub async fn closed(&mut self) {
        // The reader does not panic.
        let _ended = (&mut self.reader).await;
    }

    /// Bytes of the body received so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Acknowledges PING and SETTINGS frames, so that the server considers the connection alive.
async fn read(mut stream: TcpStream, body_bytes: &AtomicU64) -> std::io::Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
        let length = length.unwrap_or_default();
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        let is_asked = head[4] & ACK == 0;
        match head[3] {
            PING if is_asked => stream.write_all(&frame(PING, ACK, 0, &payload)).await?,
            SETTINGS if is_asked => stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?,
            DATA => {
                body_bytes.fetch_add(length as u64, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Appends a literal header without indexing, its name given by table index. Values are short.
fn literal(headers: &mut Vec<u8>, name: u8, value: &str) {
    const SHORT: usize = 127;
    headers.push(name);
    match value.len().checked_sub(SHORT) {
        None => headers.push(u8::try_from(value.len()).unwrap_or_default()),
        Some(rest) => headers.extend([127, u8::try_from(rest % 128).unwrap_or_default()]),
    }
    headers.extend(value.bytes());
}
