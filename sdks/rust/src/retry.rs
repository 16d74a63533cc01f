//! Sends requests again, as far as that is safe.
//!
//! The body of an error says whether the request happened: its `outcome` is `none` or `unknown`. A
//! broken connection is unknown, and one that could not be opened is none. After an unknown outcome,
//! only a request that the server recognizes is sent again.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use crate::error::{Error, Refusal, to_text};
use crate::http::{Client, Reply, SendError};

/// The longest wait before the second request, and before any.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long one request may take, if it can be sent again.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A request, and how it may be sent again.
pub(crate) struct Call<'a> {
    pub(crate) path: &'a str,
    /// Without a body it is a GET request.
    pub(crate) body: Option<&'a Value>,
    /// Whether the server recognizes a repeat: by a key, a token or a nonce.
    pub(crate) is_repeatable: bool,
    /// How long to try.
    pub(crate) timeout: Duration,
}

/// What one request came to.
enum Attempt {
    Done(Value),
    Refused(Refusal),
    /// It did not happen. Try again, after this time if the server names one.
    NotNow(String, Option<Duration>, Option<Refusal>),
    /// It may have happened.
    Unknown(String),
}

impl Call<'_> {
    pub(crate) async fn send(&self, client: &Client) -> Result<Value, Error> {
        let began = Instant::now();
        let (mut backoff, mut unknown) = (BACKOFF.0, None);
        loop {
            let left = self.timeout.saturating_sub(began.elapsed());
            let method = if self.body.is_some() { Method::POST } else { Method::GET };
            let sent = client.send(method, self.path, self.body);
            // A connection that hangs must leave time for another one.
            let within = if self.is_repeatable { left.min(REQUEST_TIME) } else { left };
            let attempt = match tokio::time::timeout(within, sent).await {
                Ok(sent) => attempt(sent),
                Err(_) => Attempt::Unknown("no answer in time".to_owned()),
            };
            let (why, after, refusal) = match attempt {
                Attempt::Done(body) => return Ok(body),
                // It says nothing about the earlier request.
                Attempt::Refused(Refusal { status: 401 | 403 | 404, message, .. })
                    if unknown.is_some() =>
                {
                    return Err(Error::OutcomeUnknown(message));
                }
                Attempt::Refused(refusal) => return Err(Error::refused(refusal)),
                Attempt::NotNow(why, after, refusal) => (why, after, refusal),
                Attempt::Unknown(why) => {
                    if !self.is_repeatable {
                        return Err(Error::OutcomeUnknown(why));
                    }
                    unknown = Some(why.clone());
                    (why, None, None)
                }
            };
            let wait = after.unwrap_or_else(|| backoff.mul_f64(fastrand::f64()));
            if began.elapsed() + wait >= self.timeout {
                // A later answer says nothing about an earlier request.
                return Err(match (unknown, refusal) {
                    (Some(why), _) => Error::OutcomeUnknown(why),
                    (None, Some(refusal)) => Error::refused(refusal),
                    (None, None) => Error::Unavailable(why),
                });
            }
            backoff = (backoff * 2).min(BACKOFF.1);
            tokio::time::sleep(wait).await;
        }
    }
}

fn attempt(sent: Result<Reply, SendError>) -> Attempt {
    let reply = match sent {
        Ok(reply) => reply,
        Err(error) if error.is_not_sent() => {
            return Attempt::NotNow(to_text(&error), None, None);
        }
        Err(error) => return Attempt::Unknown(to_text(&error)),
    };
    let status = reply.status;
    if (200..300).contains(&status) {
        return Attempt::Done(reply.body);
    }
    let refusal = Refusal::of(reply);
    let after = refusal.retry_after();
    match (status, refusal.body["outcome"].as_str()) {
        (429, _) => Attempt::NotNow(refusal.message.clone(), after, Some(refusal)),
        (408 | 503, Some("none")) => Attempt::NotNow(refusal.message, after, None),
        (500.., Some("none")) => Attempt::Refused(refusal),
        (408 | 500.., _) => Attempt::Unknown(refusal.message),
        _ => Attempt::Refused(refusal),
    }
}
