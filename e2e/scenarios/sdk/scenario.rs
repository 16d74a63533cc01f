//! The format of `sdks/scenarios/*.yaml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

/// What happens, and what must come of it.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The server stores in a directory, so that it can be killed. It has no test clock then.
    #[serde(default)]
    pub(crate) durable: bool,
    /// Ids of the messages in `orders`. An item that is no text is the value itself.
    #[serde(default = "one")]
    pub(crate) given: Vec<Value>,
    /// The retry policy of `orders`, where it is not the default.
    #[serde(default)]
    pub(crate) retry: Option<Value>,
    /// Settings of the worker, as in the command `work` of an agent.
    #[serde(default)]
    pub(crate) worker: BTreeMap<String, Value>,
    /// The `traceparent` of the messages.
    #[serde(default)]
    pub(crate) trace: Option<String>,
    /// Steps of the handler of `orders`.
    #[serde(default)]
    pub(crate) handler: Vec<Value>,
    /// The handlers of other topics.
    #[serde(default)]
    pub(crate) also: BTreeMap<String, Vec<Value>>,
    /// What the provider does, call by call. After the last one, it succeeds.
    #[serde(default)]
    pub(crate) provider: Vec<Conduct>,
    #[serde(default)]
    pub(crate) faults: Vec<Fault>,
    /// What the runner does. Without it, it waits until every message is settled.
    #[serde(default = "settled")]
    pub(crate) run: Vec<Action>,
    pub(crate) expect: Expected,
}

fn one() -> Vec<Value> {
    vec![json!("1")]
}

fn settled() -> Vec<Action> {
    vec![Action::Settled]
}

/// What the provider does with a call.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Conduct {
    /// It acts and returns the result.
    Acts,
    /// 402, and it does not act.
    Declines,
    /// 429, and it does not act.
    IsBusy,
    /// It acts and returns 500.
    ActsAndFails,
    /// It acts and closes the connection.
    ActsAndCloses,
    /// It acts and does not answer.
    ActsAndHangs,
    /// 500, and it does not act.
    Fails,
}

/// A fault of the connection between worker and server.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Method and path, for example `POST /v1/commit`.
    pub(crate) on: String,
    /// Bytes that the body must contain.
    #[serde(default)]
    pub(crate) with: String,
    pub(crate) how: How,
    /// How many requests are affected.
    #[serde(default = "once")]
    pub(crate) times: u32,
    /// Every request is affected, and at least `times`.
    #[serde(default)]
    pub(crate) always: bool,
    /// How many requests pass before.
    #[serde(default)]
    pub(crate) after: u32,
}

fn once() -> u32 {
    1
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// The server answers, and the connection is closed before the answer.
    LostReply,
    /// The connection is closed before the server gets the request.
    LostRequest,
    /// The server answers, and the answer does not arrive.
    Hangs,
    /// 429 with `retry_after_ms` of 50.
    Busy,
    /// 503, and the request did not happen.
    Unavailable,
    /// The server handles the request, and the client gets 503 with an unknown outcome.
    Unknown,
    /// The server handles the request, and the client gets 500 without a body.
    Broken,
    /// The server does not get the request, and each item of the response is unavailable for now.
    UnavailableItems,
    /// The response has an empty list of features, as that of an older server.
    NoFeatures,
}

/// What the runner does next.
#[derive(Deserialize, Clone)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Wait until all messages are settled. Waits for retries and leases of dead workers are skipped.
    Settled,
    /// Wait until the agents have reported this many of an event.
    Until(BTreeMap<String, usize>),
    /// Wait until the provider has acted this often.
    Acts(usize),
    /// Wait until the proxy has seen this many of these requests.
    Seen(BTreeMap<String, usize>),
    /// Wait until this many messages are leased.
    Leased(u64),
    SleepMs(u64),
    /// Advance the clock.
    AdvanceMs(u64),
    /// Send the agent a command.
    Send(Value),
    /// Send the agent SIGTERM.
    Terminate,
    /// Wait until the agent has exited with this status.
    Exits(i32),
    /// Kill the agent.
    Kill,
    /// Stop and continue the process of the agent.
    Pause(bool),
    /// Start an agent that works as the first one does.
    Start,
    /// Kill the server and start it again.
    RestartServer,
}

/// What must have come of it.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// How often the provider was called, and how often it acted.
    #[serde(default)]
    pub(crate) calls: Option<usize>,
    #[serde(default)]
    pub(crate) acts: Option<usize>,
    /// How many downstream keys it got.
    #[serde(default)]
    pub(crate) keys: Option<usize>,
    /// Messages by topic.
    #[serde(default, rename = "in")]
    pub(crate) stored: BTreeMap<String, usize>,
    /// How often the handler of each message was started.
    #[serde(default)]
    pub(crate) started: Option<usize>,
    /// The number of attempts that count, of the last delivery.
    #[serde(default)]
    pub(crate) attempts: Option<u64>,
    /// The beginnings of the reasons of the dead letters.
    #[serde(default)]
    pub(crate) dead: Vec<String>,
    /// Messages that are not settled at the end: 0 by default, and any number if it is null.
    #[serde(default = "zero")]
    pub(crate) open: Option<u64>,
    /// Leased messages at the end. None by default.
    #[serde(default)]
    pub(crate) leased: u64,
    /// The state of the effect of each key.
    #[serde(default)]
    pub(crate) effects: BTreeMap<String, String>,
    /// Events that the agents reported, in this order, among others.
    #[serde(default)]
    pub(crate) events: Vec<Value>,
    /// The highest number of requests, by route.
    #[serde(default)]
    pub(crate) at_most: BTreeMap<String, usize>,
    /// A `header: value` that a request of the route had.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The highest number of handlers that ran at a time.
    #[serde(default)]
    pub(crate) together: Option<usize>,
    /// The exit status of the worker.
    #[serde(default)]
    pub(crate) exit: i32,
    /// The longest time that the scenario may take.
    #[serde(default = "ten_seconds")]
    pub(crate) within_ms: u64,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of a field that can be null")]
fn zero() -> Option<u64> {
    Some(0)
}

fn ten_seconds() -> u64 {
    10_000
}

/// Reads the scenarios of a directory, file by file.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Vec<Scenario>> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .with_context(|| directory.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let scenarios: Vec<Scenario> =
            serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        all.extend(scenarios);
    }
    Ok(all)
}
