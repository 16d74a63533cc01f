//! The router hook: an HTTP service of the operator that decides about messages.
//!
//! One request has all messages of a produce request. Its URL comes from the configuration alone, and
//! redirects are not followed.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_api::router::{RouterMessage, RouterRequest, RouterResponse, RoutingDecision};
use driftq_core::command::Produce;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde_json::value::RawValue;

use super::breaker::{Breaker, Permit};
use super::{Decided, stored};
use crate::metrics::Metrics;
use crate::secret::Secret;

/// The largest response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Where the hook is.
#[derive(Debug, Clone)]
pub struct HookConfig {
    /// Its URL, as http or https. It may contain a password.
    pub url: Secret,
    /// How long a produce waits for it.
    pub timeout: Duration,
}

/// Why the hook made no decision.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one is")]
pub enum HookError {
    #[error("the router did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the router cannot be reached: {0}")]
    Unreachable(String),
    #[error("the router answered with status {0}")]
    Status(StatusCode),
    #[error("the answer of the router is longer than {RESPONSE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the answer of the router is invalid: {0}")]
    Invalid(String),
    #[error("the router has failed repeatedly and is not called for a while")]
    Open,
}

impl HookError {
    /// Its label in metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            HookError::Timeout(_) => "timeout",
            HookError::Unreachable(_) => "unreachable",
            HookError::Status(_) => "status",
            HookError::TooLarge => "too_large",
            HookError::Invalid(_) => "invalid",
            HookError::Open => "open",
        }
    }
}

/// How a message is shown to the hook.
pub(crate) type Render = fn(&Produce) -> RouterMessage<'_>;

impl HookConfig {
    /// The URL, if it is one.
    pub(crate) fn parsed(&self) -> Option<Url> {
        Url::parse(self.url.reveal()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
    }
}

pub(super) struct Hook {
    url: Url,
    timeout: Duration,
    render: Render,
    http: Client,
    breaker: Breaker,
    metrics: Arc<Metrics>,
}

impl Hook {
    pub(super) fn new(
        config: &HookConfig,
        render: Render,
        metrics: Arc<Metrics>,
    ) -> Result<Hook, HookError> {
        let url = config.parsed().ok_or_else(|| HookError::Unreachable("not a URL".to_owned()))?;
        let http = Client::builder().redirect(Policy::none()).no_proxy().build();
        let http = http.map_err(|error| HookError::Unreachable(error.to_string()))?;
        let (timeout, breaker) = (config.timeout, Breaker::default());
        Ok(Hook { url, timeout, render, http, breaker, metrics })
    }

    /// One decision for each message.
    pub(super) async fn decide(&self, messages: &[&Produce]) -> Vec<Decided> {
        let began = Instant::now();
        let Some(permit) = self.breaker.permit(began) else {
            return vec![Err(HookError::Open); messages.len()];
        };
        let wait = self.timeout;
        // A producer that does not wait so long closes its connection, which drops this call.
        let abandoned = Abandoned { hook: self, began, has_ended: false };
        let call = tokio::time::timeout(wait, self.call_twice(messages)).await;
        abandoned.ended();
        let called = call.unwrap_or(Err(HookError::Timeout(wait)));
        let result = called.as_ref().err().map_or("ok", HookError::word);
        self.metrics.router_called(result, began.elapsed());
        match called {
            Ok(decisions) => {
                if self.breaker.succeeded() {
                    tracing::info!("the router answers again");
                }
                decisions
            }
            Err(error) => {
                if self.breaker.failed(Instant::now()) || permit == Permit::Trial {
                    tracing::warn!(
                        "{error}; until it answers, only one request in a while calls it"
                    );
                }
                vec![Err(error); messages.len()]
            }
        }
    }

    /// A service may close an idle connection just when it is used again.
    async fn call_twice(&self, messages: &[&Produce]) -> Result<Vec<Decided>, HookError> {
        match self.call(messages).await {
            Err(HookError::Unreachable(_)) => self.call(messages).await,
            called => called,
        }
    }

    async fn call(&self, messages: &[&Produce]) -> Result<Vec<Decided>, HookError> {
        let request =
            RouterRequest { messages: messages.iter().copied().map(self.render).collect() };
        let sent = self.http.post(self.url.clone()).json(&request).send().await;
        let mut response = sent.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::OK {
            return Err(HookError::Status(response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(HookError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let invalid = |error: serde_json::Error| HookError::Invalid(error.to_string());
        let RouterResponse { decisions } = serde_json::from_slice(&body).map_err(invalid)?;
        if decisions.len() != messages.len() {
            let why = format!("{} decisions for {} messages", decisions.len(), messages.len());
            return Err(HookError::Invalid(why));
        }
        // One decision that cannot be read leaves the others in force.
        let decision = |text: Box<RawValue>| {
            let read = serde_json::from_str::<Option<RoutingDecision>>(text.get());
            let read = read.map(|decision| decision.and_then(stored)).map_err(invalid);
            read.inspect_err(|error| tracing::debug!("{error}"))
        };
        Ok(decisions.into_iter().map(decision).collect())
    }
}

/// Counts a call as failed if it is dropped before it has ended.
struct Abandoned<'a> {
    hook: &'a Hook,
    began: Instant,
    has_ended: bool,
}

impl Abandoned<'_> {
    fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.hook.metrics.router_called("abandoned", self.began.elapsed());
            self.hook.breaker.failed(Instant::now());
        }
    }
}

/// The innermost cause. The outer ones repeat the URL, which may contain a secret.
fn unreachable(error: &reqwest::Error) -> HookError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text =
        if error.source().is_some() { cause.to_string() } else { "no connection".to_owned() };
    HookError::Unreachable(text)
}
