//! Length-prefixed frames in a byte stream.

use std::pin::Pin;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use driftq_core::CallError;
use futures_util::{Stream, StreamExt as _};

const LENGTH_BYTES: usize = 4;

/// Encodes `content` as a frame.
pub(crate) fn frame(content: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(LENGTH_BYTES + content.len());
    bytes.put_u32_le(u32::try_from(content.len()).expect("a batch is smaller than 4 GiB"));
    bytes.put_slice(content);
    bytes.freeze()
}

/// Encodes a call error in place of an answer. It is shorter than any answer. A node that does not
/// know a code decodes it as `Unknown`, which is correct.
pub(crate) fn pack_lost(lost: CallError) -> &'static [u8] {
    match lost {
        CallError::Unknown => &[],
        CallError::NotServing => &[1],
        CallError::Overloaded => &[2],
    }
}

pub(super) fn open_lost(frame: &[u8]) -> Option<CallError> {
    let all = [CallError::Unknown, CallError::NotServing, CallError::Overloaded];
    all.into_iter().find(|lost| pack_lost(*lost) == frame)
}

/// Splits a complete body into frames.
pub(crate) fn frames(body: &Bytes) -> Vec<Bytes> {
    let (mut rest, mut frames) = (BytesMut::from(&body[..]), Vec::new());
    while let Some(frame) = split(&mut rest) {
        frames.push(frame);
    }
    frames
}

fn split(seen: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_le_bytes(*seen.first_chunk::<LENGTH_BYTES>()?) as usize;
    if seen.len() - LENGTH_BYTES < length {
        return None;
    }
    seen.advance(LENGTH_BYTES);
    Some(seen.split_to(length).freeze())
}

/// Reads the next frame. `seen` holds the bytes received so far. Returns `None` at the end of the
/// stream.
pub(super) async fn next_frame<E>(
    stream: &mut Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    seen: &mut BytesMut,
) -> Option<Bytes> {
    loop {
        if let Some(frame) = split(seen) {
            return Some(frame);
        }
        seen.extend_from_slice(&stream.next().await?.ok()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_back_however_the_stream_is_cut() {
        let pieces: [&[u8]; 4] = [b"one", b"", b"three three", &[7; 1000]];
        let all: Vec<u8> = pieces.iter().flat_map(|piece| frame(piece)).collect();
        for size in [1, 3, 7, 4096] {
            let cut = all.chunks(size).map(|part| Ok::<_, ()>(Bytes::copy_from_slice(part)));
            let mut stream = std::pin::pin!(futures_util::stream::iter(cut));
            let mut seen = BytesMut::new();
            for piece in pieces {
                let next = next_frame(&mut stream, &mut seen).await;
                assert_eq!(next.as_deref(), Some(piece), "cut by {size}");
            }
            assert_eq!(next_frame(&mut stream, &mut seen).await, None);
        }
    }

    #[tokio::test]
    async fn half_a_piece_is_none() {
        let half = frame(b"whole").slice(..7);
        let mut stream = std::pin::pin!(futures_util::stream::iter([Ok::<_, ()>(half)]));
        assert_eq!(next_frame(&mut stream, &mut BytesMut::new()).await, None);
    }
}
