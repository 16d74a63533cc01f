//! Effects: what a handler does in another system, recorded so that it happens once.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;
use crate::effect_error::EffectError;
use crate::error::Error;
use crate::fail::{Fail, Kind};
use crate::http::Client;
use crate::produce::nonce;
use crate::retry::Call;

/// How long the ledger is asked. The lease of the message ends the attempt before that.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What to do when the outcome of an effect is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDoubt {
    /// Execute again with the same downstream key, because the provider deduplicates by it.
    Retry,
    /// Ask the provider first.
    Probe,
    /// Wait for a person, because the provider does not deduplicate.
    Park,
}

/// The right to execute an effect.
#[derive(Debug, Clone)]
pub struct Execution {
    downstream_key: String,
    fence: u64,
}

impl Execution {
    /// The idempotency key for the provider. It is the same each time the effect is executed.
    pub fn downstream_key(&self) -> &str {
        &self.downstream_key
    }

    /// A number that grows with each execution, for providers that reject lower ones.
    pub fn fence(&self) -> u64 {
        self.fence
    }
}

/// What a provider says about an earlier execution.
#[derive(Debug)]
pub enum Probed<T> {
    /// It happened, with this result.
    Happened(T),
    /// It did not happen.
    NotHappened,
}

/// An effect of a message. [`Effect::run`] executes it, unless its outcome is recorded.
#[must_use = "the effect is executed by `run`"]
pub struct Effect<'a> {
    context: &'a Context,
    body: Value,
    in_commit: bool,
}

impl<'a> Effect<'a> {
    pub(crate) fn new(context: &'a Context, key: String) -> Effect<'a> {
        let body = json!({
            "lease_token": context.delivery().lease.token, "key": key, "nonce": nonce(),
            "owner": context.owner(),
        });
        Effect { context, body, in_commit: false }
    }

    /// Sets the content of the request. The same key with another request is rejected.
    pub fn request(mut self, request: impl Into<String>) -> Effect<'a> {
        self.body["request"] = request.into().into();
        self
    }

    /// Sets what to do when the outcome is unknown.
    pub fn on_doubt(mut self, policy: OnDoubt) -> Effect<'a> {
        self.body["on_doubt"] = match policy {
            OnDoubt::Retry => "retry",
            OnDoubt::Probe => "probe",
            OnDoubt::Park => "park",
        }
        .into();
        self
    }

    /// Sets how long the provider remembers the downstream key.
    pub fn window(mut self, window: Duration) -> Effect<'a> {
        self.body["provider_window_ms"] = (window.as_millis() as u64).into();
        self
    }

    /// Records a success in the commit of the handler instead of at once.
    pub fn finish_in_commit(mut self) -> Effect<'a> {
        self.in_commit = true;
        self
    }

    /// Executes the effect with `execute`, or returns its recorded result.
    pub async fn run<T, F>(self, execute: F) -> Result<T, Fail>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(Execution) -> Result<T, EffectError>,
    {
        let ask =
            async |_: Execution| Err(EffectError::Unknown("the handler has no probe".to_owned()));
        self.run_or_probe(execute, ask).await
    }

    /// Like [`Effect::run`]. If the policy is [`OnDoubt::Probe`] and the outcome of an earlier
    /// execution is unknown, `probe` asks the provider.
    pub async fn run_or_probe<T, F, P>(self, execute: F, probe: P) -> Result<T, Fail>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(Execution) -> Result<T, EffectError>,
        P: AsyncFnOnce(Execution) -> Result<Probed<T>, EffectError>,
    {
        let began = match self.ask("effects/begin", &self.body).await {
            Ok(began) => began,
            Err(Error::Refused(refusal))
                if matches!(&*refusal.code, "IN_PROGRESS" | "IN_DOUBT") =>
            {
                return Err(Fail::release(refusal.retry_after()));
            }
            Err(error) => return Err(error.into()),
        };
        let execution = Execution {
            downstream_key: began["downstream_key"].as_str().unwrap_or_default().to_owned(),
            fence: began["fence"].as_u64().unwrap_or_default(),
        };
        let token = began["token"].as_str().unwrap_or_default().to_owned();
        match began["decision"].as_str() {
            Some("EXECUTE") => {
                let outcome = execute(execution).await;
                self.finish(token, outcome).await
            }
            Some("IN_DOUBT") => match probe(execution).await {
                Ok(Probed::Happened(result)) => self.finish(token, Ok(result)).await,
                Ok(Probed::NotHappened) => {
                    let why = "the provider has not executed it";
                    self.finish(token, Err(EffectError::not_happened(why))).await
                }
                // An error of the probe says nothing about the execution.
                Err(
                    EffectError::NotHappened(why)
                    | EffectError::Declined(why, _)
                    | EffectError::Unknown(why),
                ) => self.finish(token, Err(EffectError::Unknown(why))).await,
            },
            _ => recorded(&began),
        }
    }

    /// Records the outcome, before anything else can fail.
    async fn finish<T: Serialize>(
        &self,
        token: String,
        outcome: Result<T, EffectError>,
    ) -> Result<T, Fail> {
        let (finish, answer) = match outcome {
            Ok(result) => {
                let value = serde_json::to_value(&result);
                let value =
                    value.unwrap_or_else(|error| json!({ "unreadable": error.to_string() }));
                (json!({ "token": token, "status": "SUCCEEDED", "result": value }), Ok(result))
            }
            Err(EffectError::NotHappened(why)) => {
                let finish = json!({ "token": token, "status": "FAILED_RETRYABLE", "error": why });
                (finish, Err(Fail::retry(why)))
            }
            Err(EffectError::Declined(why, code)) => {
                let finish = json!({
                    "token": token, "status": "FAILED_FINAL", "error": why, "code": code,
                });
                (finish, Err(Fail(Kind::Declined { reason: why, code })))
            }
            Err(EffectError::Unknown(why)) => {
                let finish = json!({ "token": token, "status": "UNKNOWN", "error": why });
                (finish, Err(Fail::retry(why)))
            }
        };
        if self.in_commit && answer.is_ok() {
            self.context.finish_in_commit(finish);
            return answer;
        }
        match record(self.context.client(), finish).await {
            // The effect happened, so another attempt is of no use.
            Err(Error::Refused(refusal)) if answer.is_ok() => Err(Fail::reject(format!(
                "the effect succeeded, and its result cannot be recorded: {refusal}"
            ))),
            Err(error) => Err(error.into()),
            Ok(()) => answer,
        }
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let call = Call { path, body: Some(body), is_repeatable: true, timeout: TIMEOUT };
        call.send(self.context.client()).await
    }
}

/// Records an outcome. If its result cannot be stored, the outcome is recorded without it, so that it
/// is not unknown, and the rejection is returned.
pub(crate) async fn record(client: &Client, mut finish: Value) -> Result<(), Error> {
    let path = "effects/finish";
    let call = Call { path, body: Some(&finish), is_repeatable: true, timeout: TIMEOUT };
    let Err(error) = call.send(client).await else { return Ok(()) };
    let has_result = finish.as_object_mut().is_some_and(|fields| fields.remove("result").is_some());
    if has_result && matches!(error, Error::Refused(_)) {
        let call = Call { path, body: Some(&finish), is_repeatable: true, timeout: TIMEOUT };
        call.send(client).await?;
    }
    Err(error)
}

/// The recorded outcome.
fn recorded<T: DeserializeOwned>(began: &Value) -> Result<T, Fail> {
    if began["state"] == "SUCCEEDED" {
        let result = serde_json::from_value(began["result"].clone());
        return result.map_err(|error| {
            Fail::retry(format!("the recorded result has another type: {error}"))
        });
    }
    let reason = began["error"].as_str().unwrap_or("the effect failed").to_owned();
    Err(Fail(Kind::Declined {
        reason,
        code: began["code"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or_default(),
    }))
}
