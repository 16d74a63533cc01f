//! The body of an answer on its way to the client.
//!
//! Over HTTP/1.1, a client that reads nothing is detected when writes to its socket stall. Over
//! HTTP/2, the connection continues, and data for which the client grants no window stays in
//! memory. Therefore, over HTTP/2:
//!
//! 1. An answer is passed to the HTTP layer in pieces of at most 16 KiB. The HTTP layer holds at
//!    most two of them: one that is being sent, and one that waits for window.
//! 2. The HTTP layer polls for the next piece when the client has granted window for the first byte
//!    of the last one, not for all of it. The last byte of a chunk is therefore a piece of its own.
//!    When the HTTP layer polls after that piece, the client has granted window for the whole
//!    chunk.
//! 3. An answer ends only when the client has granted window for all of it. Until then it counts as
//!    a request in flight and against its consumer's memory.
//! 4. If a client reads nothing of an answer for 60 s, its connection is closed.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use super::connections::InFlight;
use crate::budget::SMALL_BYTES;

/// How long an HTTP/2 client may read nothing of an answer.
const UNREAD_TIME: Duration = Duration::from_secs(60);
/// Interval of the check for such an answer.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The answers of an HTTP/2 connection that wait for the client, each with the time since when.
#[derive(Default)]
pub(super) struct Unread {
    answers: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    since: HashMap<u64, Instant>,
}

impl Unread {
    fn answers(&self) -> MutexGuard<'_, Waiting> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client has read nothing of an answer for too long.
    pub(super) async fn too_long(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Instant::now();
            if self.answers().since.values().any(|since| now - *since >= UNREAD_TIME) {
                return;
            }
        }
    }
}

/// The entry of one answer in [`Unread`].
struct Place {
    unread: Arc<Unread>,
    id: u64,
}

impl Place {
    fn new(unread: Arc<Unread>) -> Place {
        let mut answers = unread.answers();
        answers.last += 1;
        let id = answers.last;
        answers.since.insert(id, Instant::now());
        drop(answers);
        Place { unread, id }
    }

    /// Records that the client has granted window. `is_waiting`: whether the answer waits for the
    /// client again.
    fn set(&self, is_waiting: bool) {
        let mut answers = self.unread.answers();
        if is_waiting {
            answers.since.insert(self.id, Instant::now())
        } else {
            answers.since.remove(&self.id)
        };
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.unread.answers().since.remove(&self.id);
    }
}

/// The body of an answer. Its request is in flight until the body has ended.
pub(super) struct AnswerBody {
    body: Body,
    /// Bytes for which the client has granted no window yet.
    rest: Bytes,
    /// Set for HTTP/2.
    place: Option<Place>,
    _in_flight: Option<InFlight>,
}

impl AnswerBody {
    /// Creates an answer. `unread` is given for HTTP/2 connections.
    pub(super) fn new(
        body: Body,
        unread: Option<Arc<Unread>>,
        in_flight: Option<InFlight>,
    ) -> AnswerBody {
        // An answer without a body ends immediately.
        let unread = unread.filter(|_| !body.is_end_stream());
        let place = unread.map(Place::new);
        AnswerBody { body, rest: Bytes::new(), place, _in_flight: in_flight }
    }

    fn next_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let all_but_one = self.rest.len().saturating_sub(1);
        let piece = self.rest.split_to(all_but_one.clamp(1, SMALL_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.place.is_none() {
            return Pin::new(&mut self.body).poll_frame(cx);
        }
        let polled = self.next_piece(cx);
        if let Some(place) = &self.place {
            place.set(matches!(polled, Poll::Ready(Some(Ok(_)))));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // Over HTTP/2, the HTTP layer polls once more before the end. The client has then granted
        // window for the rest.
        self.place.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        match hint.exact() {
            Some(length) => SizeHint::with_exact(length + rest),
            None => hint,
        }
    }
}

/// Creates an answer with a JSON body.
pub(super) fn of_json(body: axum::body::Body) -> axum::http::Response<axum::body::Body> {
    let mut response = axum::http::Response::new(body);
    let kind = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt as _, StreamExt as _};
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_goes_in_pieces_and_counts_until_it_is_taken() {
        let unread = Arc::new(Unread::default());
        let body = Body::from(vec![b'x'; 2 * SMALL_BYTES + 1]);
        let mut answer = AnswerBody::new(body, Some(unread.clone()), None);
        assert_eq!(answer.size_hint().exact(), Some(2 * SMALL_BYTES as u64 + 1));
        for length in [SMALL_BYTES, SMALL_BYTES, 1] {
            let frame = answer.frame().await.expect("a piece").expect("no error");
            assert_eq!(frame.data_ref().map(Bytes::len), Some(length));
            assert!(!answer.is_end_stream());
            assert_eq!(unread.answers().since.len(), 1, "the answer waits for the client");
        }
        assert!(answer.frame().await.is_none());
        assert!(unread.answers().since.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_a_minute_is_noticed_and_one_that_waits_is_not() {
        let unread = Arc::new(Unread::default());
        let lines = futures_util::stream::iter([Ok::<_, Infallible>("line\n")])
            .chain(futures_util::stream::pending());
        let mut answer = AnswerBody::new(Body::from_stream(lines), Some(unread.clone()), None);
        let began = Instant::now();
        unread.too_long().await;
        assert!((60..=70).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        for _ in ["line", "\n"] {
            answer.frame().await.expect("a piece").expect("no error");
        }
        // The client has received the line, and the stream has no other.
        assert!(answer.frame().now_or_never().is_none());
        let waits = tokio::time::timeout(Duration::from_secs(3_600), unread.too_long()).await;
        assert!(waits.is_err(), "an idle stream is not a client that reads nothing");
    }

    #[tokio::test]
    async fn the_last_byte_of_a_chunk_goes_alone() {
        let chunks = ["line\n", "\n"].map(Ok::<_, Infallible>);
        let body = Body::from_stream(futures_util::stream::iter(chunks));
        let mut answer = AnswerBody::new(body, Some(Arc::default()), None);
        for piece in ["line", "\n", "\n"] {
            let frame = answer.frame().await.expect("a piece").expect("no error");
            assert_eq!(frame.data_ref().map(|data| &data[..]), Some(piece.as_bytes()));
        }
        assert!(answer.frame().await.is_none());
    }

    #[test]
    fn an_answer_without_a_body_is_over_at_once() {
        let unread = Arc::new(Unread::default());
        assert!(AnswerBody::new(Body::empty(), Some(unread.clone()), None).is_end_stream());
        assert!(unread.answers().since.is_empty());
    }
}
