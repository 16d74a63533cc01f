//! The body of an answer on its way to the client.
//!
//! With HTTP/1.1, a client that takes nothing is noticed when nothing can be written. With HTTP/2 the connection goes on,
//! and what the client grants no room for stays in memory. There:
//!
//! 1. An answer is handed over in pieces of at most 16 KiB. The HTTP layer holds two of them at most: one that is being
//!    sent, and one for which it waits for room.
//! 2. The HTTP layer asks for the next piece when the client has granted room for the first byte of the last one, not for
//!    all of it. So the last byte of a chunk is a piece of its own. When more is asked for after it, the client has granted
//!    room for the whole chunk.
//! 3. An answer is not over before the client has granted room for all of it. Until then it counts: as a request in flight,
//!    and as memory of its consumer.
//! 4. A connection with an answer of which the client takes nothing for 60 s is closed.

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

/// How long the client of an HTTP/2 connection may take nothing of an answer.
const UNREAD_TIME: Duration = Duration::from_secs(60);
/// How often a connection looks for such an answer.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The answers of an HTTP/2 connection that wait for the client, and since when.
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

    /// Waits until the client has taken nothing of an answer for too long.
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

/// One answer among them.
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

    /// The client has room. Whether it waits for the client again is what `is_waiting` says.
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

/// The body of an answer. Its request is in flight until it has ended.
pub(super) struct Answer {
    body: Body,
    /// What the client has no room for yet.
    rest: Bytes,
    /// With HTTP/2.
    place: Option<Place>,
    _in_flight: Option<InFlight>,
}

impl Answer {
    /// An answer on a connection of HTTP/2, if `unread` is given.
    pub(super) fn new(
        body: Body,
        unread: Option<Arc<Unread>>,
        in_flight: Option<InFlight>,
    ) -> Answer {
        // One without a body is over at once.
        let unread = unread.filter(|_| !body.is_end_stream());
        let place = unread.map(Place::new);
        Answer { body, rest: Bytes::new(), place, _in_flight: in_flight }
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

impl hyper::body::Body for Answer {
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
        // With HTTP/2 it is asked for more before it is over: then the client has granted room for the rest.
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

/// An answer whose body is JSON.
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
        let mut answer = Answer::new(body, Some(unread.clone()), None);
        assert_eq!(answer.size_hint().exact(), Some(2 * SMALL_BYTES as u64 + 1));
        for length in [SMALL_BYTES, SMALL_BYTES, 1] {
            let frame = answer.frame().await.expect("a piece").expect("no error");
            assert_eq!(frame.data_ref().map(Bytes::len), Some(length));
            assert!(!answer.is_end_stream());
            assert_eq!(unread.answers().since.len(), 1, "it waits for the client");
        }
        assert!(answer.frame().await.is_none());
        assert!(unread.answers().since.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_a_minute_is_noticed_and_one_that_waits_is_not() {
        let unread = Arc::new(Unread::default());
        let lines = futures_util::stream::iter([Ok::<_, Infallible>("line\n")])
            .chain(futures_util::stream::pending());
        let mut answer = Answer::new(Body::from_stream(lines), Some(unread.clone()), None);
        let began = Instant::now();
        unread.too_long().await;
        assert!((60..=70).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        for _ in ["line", "\n"] {
            answer.frame().await.expect("a piece").expect("no error");
        }
        // It has taken the line, and the stream has no other.
        assert!(answer.frame().now_or_never().is_none());
        let waits = tokio::time::timeout(Duration::from_secs(3_600), unread.too_long()).await;
        assert!(waits.is_err(), "an idle stream is not a client that takes nothing");
    }

    #[tokio::test]
    async fn the_last_byte_of_a_chunk_goes_alone() {
        let chunks = ["line\n", "\n"].map(Ok::<_, Infallible>);
        let body = Body::from_stream(futures_util::stream::iter(chunks));
        let mut answer = Answer::new(body, Some(Arc::default()), None);
        for piece in ["line", "\n", "\n"] {
            let frame = answer.frame().await.expect("a piece").expect("no error");
            assert_eq!(frame.data_ref().map(|data| &data[..]), Some(piece.as_bytes()));
        }
        assert!(answer.frame().await.is_none());
    }

    #[test]
    fn an_answer_without_a_body_is_over_at_once() {
        let unread = Arc::new(Unread::default());
        assert!(Answer::new(Body::empty(), Some(unread.clone()), None).is_end_stream());
        assert!(unread.answers().since.is_empty());
    }
}
