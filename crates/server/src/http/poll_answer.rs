//! The answer of a poll on HTTP/2, and the deliveries in it.
//!
//! 1. The deliveries are the client's when it has granted room for the whole answer.
//! 2. If the client goes before, or takes nothing for a quarter of a lease, they go back and count no attempt. The rest of
//!    the answer is not sent: its leases are over.
//!
//! With HTTP/1.1 an answer is the client's when it was handed to the socket.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

use super::session::Unconfirmed;

/// Bytes of one step, about. A client that takes a step in time gets as long for the next.
const STEP_BYTES: usize = 64 * 1024;

/// Such an answer.
pub(super) struct PollAnswer {
    rest: Bytes,
    /// Bytes that the client has not taken, as far as is known.
    left: watch::Sender<usize>,
}

impl PollAnswer {
    /// The answer with these deliveries.
    pub(super) fn body(content: Vec<u8>, unconfirmed: Unconfirmed) -> Body {
        let (left, watched) = watch::channel(content.len());
        tokio::spawn(give_back_unless_taken(watched, unconfirmed));
        Body::new(PollAnswer { rest: content.into(), left })
    }
}

/// However else it ends, the deliveries go back.
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

    /// When it is asked for more, the client has taken what came before.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left.send(self.rest.len()).is_err() {
            return Poll::Ready(Some(Err(std::io::Error::other("the deliveries went back"))));
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
