//! The answer to a poll over HTTP/2, and the deliveries in it.
//!
//! 1. The deliveries are confirmed when the client has granted window for the whole answer.
//! 2. If the client disconnects before, or reads nothing for a quarter of a lease, the deliveries
//!    are given back and count no attempt. The rest of the answer is not sent, because its leases
//!    have ended.
//!
//! Over HTTP/1.1, the deliveries are confirmed when the answer was written to the socket.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

use super::session::Unconfirmed;

/// Approximate bytes per step. A client that reads a step in time gets the same time for the next.
const STEP_BYTES: usize = 64 * 1024;

/// The answer to a poll over HTTP/2.
pub(super) struct PollAnswer {
    rest: Bytes,
    /// Bytes that the client is not known to have received.
    left: watch::Sender<usize>,
}

impl PollAnswer {
    /// Creates the answer that contains these deliveries.
    pub(super) fn body(content: Vec<u8>, unconfirmed: Unconfirmed) -> Body {
        let (left, watched) = watch::channel(content.len());
        tokio::spawn(give_back_unless_taken(watched, unconfirmed));
        Body::new(PollAnswer { rest: content.into(), left })
    }
}

/// Confirms the deliveries once the answer is received. In any other case they are given back.
async fn give_back_unless_taken(mut left: watch::Receiver<usize>, unconfirmed: Unconfirmed) {
    while let Ok(Ok(())) = timeout(unconfirmed.patience, left.changed()).await {
        if *left.borrow_and_update() == 0 {
            return unconfirmed.confirm();
        }
    }
}

impl hyper::body::Body for PollAnswer {
    type Data = Bytes;
    type Error = std::io::Error;

    /// When hyper polls for more, the client has granted window for the bytes before.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left.send(self.rest.len()).is_err() {
            return Poll::Ready(Some(Err(std::io::Error::other("the deliveries were given back"))));
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let step = STEP_BYTES.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(step)))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
