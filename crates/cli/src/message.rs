//! `driftq produce`, `consume` and `peek`.

use std::io::{BufRead as _, Read as _};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cli_error::CliError;
use crate::client::{Client, Remote, read_error, segment};
use crate::duration::{milliseconds, time_from_now};
use crate::output::{self, Format};

/// Produce a message, or one per line of standard input
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq produce orders 'pay 12'
  driftq produce orders @order.json --key cust-9 --idempotency-key order-77
  some-program | driftq produce orders --lines       one message per line")]
pub(crate) struct Produce {
    /// Topic name
    topic: String,
    /// Message value: text, @FILE, or - for standard input
    #[arg(required_unless_present = "lines")]
    value: Option<String>,
    /// Produce one message per line of standard input; empty lines are skipped
    #[arg(long, conflicts_with = "value")]
    lines: bool,
    /// Message key; messages with the same key go to the same partition
    #[arg(long)]
    key: Option<String>,
    /// Idempotency key; a repeated produce with the same key stores nothing, and is rejected if the
    /// content differs
    #[arg(long, conflicts_with = "lines", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
    /// Tenant of the message
    #[arg(long)]
    tenant_id: Option<String>,
    /// Run that the message belongs to
    #[arg(long)]
    run_id: Option<String>,
    /// Step of the run
    #[arg(long)]
    step_id: Option<String>,
    /// Step that caused this one
    #[arg(long)]
    parent_step_id: Option<String>,
    /// Topic that stores the message instead
    #[arg(long, value_name = "TOPIC")]
    target_topic: Option<String>,
    /// Partition that stores the message
    #[arg(long, value_name = "PARTITION")]
    partition_override: Option<u32>,
    /// Time after which the message becomes a dead letter instead of being delivered, such as
    /// 2026-11-14T12:00:00Z, or 2h for two hours from now
    #[arg(long, value_name = "TIME", value_parser = time_from_now)]
    deadline: Option<String>,
    /// A field of the retry policy (repeatable), such as max_attempts=5 or backoff_ms=5s
    #[arg(long = "retry", value_name = "FIELD=VALUE")]
    retry: Vec<String>,
    /// Label of the message (repeatable)
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<String>,
    /// Header of the message (repeatable)
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
}

/// Splits NAME=VALUE.
fn pair<'a>(option: &str, text: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let wrong = || CliError::Usage(format!("{option} {text}: write it as NAME=VALUE"));
    Ok(split.ok_or_else(wrong)?)
}

/// Maximum number of lines per request.
const LINES_MAX: usize = 500;

impl Produce {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        if self.lines {
            return self.lines(&client, remote.output).await;
        }
        let answer = client.post("produce", self.body()?).await?;
        let again = if answer["deduplicated"] == true { " (already stored)" } else { "" };
        let message = format!(
            "{} in partition {} at offset {}{again}",
            answer["id"].as_str().unwrap_or_default(),
            answer["partition"],
            answer["offset"]
        );
        output::print_result(remote.output, &answer, &message);
        Ok(())
    }

    /// The request for one message.
    pub(crate) fn body(&self) -> anyhow::Result<Value> {
        let value = match self.value.as_deref().unwrap_or_default() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
                text
            }
            text => match text.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path)
                    .map_err(|error| CliError::Usage(format!("cannot read {path}: {error}")))?,
                None => text.to_owned(),
            },
        };
        self.message(&value)
    }

    fn message(&self, value: &str) -> anyhow::Result<Value> {
        let mut envelope = json!({
            "idempotency_key": self.idempotency_key,
            "tenant_id": self.tenant_id,
            "run_id": self.run_id,
            "step_id": self.step_id,
            "parent_step_id": self.parent_step_id,
            "target_topic": self.target_topic,
            "partition_override": self.partition_override,
            "deadline": self.deadline,
        });
        for text in &self.retry {
            let (field, number) = pair("--retry", text)?;
            if !envelope["retry_policy"][field].is_null() {
                return Err(
                    CliError::Usage(format!("--retry {text}: {field} is given twice")).into()
                );
            }
            let wrong = |why| CliError::Usage(format!("--retry {text}: the value {why}"));
            envelope["retry_policy"][field] = if field.ends_with("_ms") {
                milliseconds(number).map_err(wrong)?.into()
            } else {
                let number: Result<i64, _> = number.parse();
                number.map_err(|_| wrong("must be a number".to_owned()))?.into()
            };
        }
        for (option, field, texts) in
            [("--label", "labels", &self.labels), ("--header", "headers", &self.headers)]
        {
            for text in texts {
                let (name, value) = pair(option, text)?;
                if !envelope[field][name].is_null() {
                    let why = format!("{option} {text}: {name} is given twice");
                    return Err(CliError::Usage(why).into());
                }
                envelope[field][name] = value.into();
            }
        }
        Ok(json!({ "topic": self.topic, "key": self.key, "value": value, "envelope": envelope }))
    }

    async fn lines(&self, client: &Client, format: Format) -> anyhow::Result<()> {
        let (mut accepted, mut refused, mut failed) = (0, 0, Ok(()));
        let mut lines = std::io::stdin().lock().split(b'\n').zip(1_u64..);
        let mut is_over = false;
        while !is_over {
            let (mut messages, mut not_text) = (Vec::new(), None);
            while messages.len() < LINES_MAX && not_text.is_none() && !is_over {
                let Some((line, number)) = lines.next() else {
                    is_over = true;
                    continue;
                };
                match String::from_utf8(line.context("cannot read standard input")?) {
                    Ok(line) => match line.strip_suffix('\r').unwrap_or(&line) {
                        "" => {}
                        line => messages.push(self.message(line)?),
                    },
                    Err(_) => not_text = Some(number),
                }
            }
            if !messages.is_empty() {
                let answer = client.post("produce/batch", json!({ "messages": messages })).await?;
                accepted += answer["accepted"].as_u64().unwrap_or(0);
                refused += answer["refused"].as_u64().unwrap_or(0);
                // The first rejection determines the exit code. Later lines are still produced.
                failed = failed.and(crate::cli_error::refused(&answer));
            }
            if let Some(number) = not_text {
                let message =
                    format!("{accepted} lines stored; this line and the rest were not sent");
                return Err(
                    CliError::Usage(format!("line {number} is not UTF-8: {message}")).into()
                );
            }
        }
        let answer = json!({ "accepted": accepted, "refused": refused });
        output::print_result(format, &answer, &format!("{accepted} stored, {refused} rejected"));
        failed
    }
}

/// Consume messages and print each delivery as a line of JSON
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq consume orders biller                 print deliveries; each is redelivered when its lease expires
  driftq consume orders biller --ack           acknowledge each message after printing it
  driftq consume orders biller --ack --count 1")]
pub(crate) struct Consume {
    /// Topic name
    topic: String,
    /// Group name
    group: String,
    /// Name of this consumer
    #[arg(long, default_value = "driftq-cli")]
    owner: String,
    /// Acknowledge each message after printing it
    #[arg(long)]
    ack: bool,
    /// Exit after this many messages
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Lease of each delivery, between 250ms and 12h [default: lease_ms of the topic]
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, allow_hyphen_values = true)]
    lease_ms: Option<u64>,
    /// Maximum unsettled deliveries, between 1 and 10000 [default: 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    prefetch: Option<u32>,
}

/// Default of `--prefetch`, the same as the server's default for streams.
const PREFETCH: u32 = 2;
/// Maximum number of deliveries that one receive may request.
const RECEIVE_MAX: u64 = 1_000;

/// The response of a receive. Each delivery is kept as the server wrote it.
#[derive(Deserialize)]
struct Received {
    messages: Vec<Box<RawValue>>,
}

impl Received {
    fn lines(&self) -> Vec<&str> {
        self.messages.iter().map(|line| line.get()).collect()
    }
}

impl Consume {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        let consumer = Consumer { of: &self, client, worker: worker_id(), held: Mutex::default() };
        match self.count {
            Some(count) => consumer.some(count).await,
            None => consumer.follow().await,
        }
    }
}

/// A running `driftq consume`.
struct Consumer<'a> {
    of: &'a Consume,
    client: Client,
    /// The name under which it leaves when it is interrupted.
    worker: String,
    held: Held,
}

impl Consumer<'_> {
    fn request_body(&self) -> Value {
        json!({
            "topic": self.of.topic, "group": self.of.group, "owner": self.of.owner,
            "lease_ms": self.of.lease_ms, "worker": { "id": self.worker },
        })
    }

    /// Receives `count` deliveries by polling. A stream would be sent more deliveries than are
    /// printed, and no other consumer would get those until their leases expire.
    async fn some(&self, count: u64) -> anyhow::Result<()> {
        let mut interrupted = pin!(tokio::signal::ctrl_c());
        let mut left = count;
        while left > 0 {
            let mut receiving = pin!(self.receive(left));
            let received = tokio::select! {
                received = &mut receiving => received?,
                interrupted = &mut interrupted => {
                    interrupted?;
                    self.leave().await;
                    if let Ok(Ok(received)) = timeout(REST_WITHIN, receiving).await {
                        self.hold(&received.lines())?;
                    }
                    return self.release().await;
                }
            };
            let lines = received.lines();
            let tokens = self.hold(&lines)?;
            tokio::select! {
                shown = self.show(&lines, &tokens) => shown?,
                interrupted = &mut interrupted => {
                    interrupted?;
                    return self.release().await;
                }
            }
            left -= lines.len() as u64;
        }
        Ok(())
    }

    async fn receive(&self, left: u64) -> anyhow::Result<Received> {
        let prefetch = u64::from(self.of.prefetch.unwrap_or(PREFETCH)).min(RECEIVE_MAX);
        let mut request_body = self.request_body();
        request_body["max"] = left.min(prefetch).into();
        let response = self.client.send(Method::POST, "receive", &[], Some(request_body)).await?;
        let bytes = response.bytes().await.map_err(read_error)?;
        serde_json::from_slice(&bytes).context("the response is not a list of deliveries")
    }

    async fn follow(&self) -> anyhow::Result<()> {
        let mut request_body = self.request_body();
        request_body["prefetch"] = self.of.prefetch.into();
        let mut response =
            self.client.send(Method::POST, "consume", &[], Some(request_body)).await?;
        let mut pending = Vec::new();
        let mut interrupted = pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                chunk = response.chunk() => match chunk.map_err(read_error)? {
                    Some(chunk) => pending.extend_from_slice(&chunk),
                    None => break,
                },
                interrupted = &mut interrupted => {
                    interrupted?;
                    return self.abandon(response, pending).await;
                }
            }
            let whole = whole_lines(&mut pending);
            let lines = lines(&whole);
            // Before the wait: an interrupt must not lose a token.
            let tokens = self.hold(&lines)?;
            tokio::select! {
                shown = self.show(&lines, &tokens) => shown?,
                interrupted = &mut interrupted => {
                    interrupted?;
                    return self.abandon(response, pending).await;
                }
            }
        }
        // A stream ends without a reason; the next request returns it.
        let message = "the server closed the stream; run the command again to see the reason";
        Err(CliError::Unreachable(message.to_owned()).into())
    }

    /// Ends the stream, reads what the server has already written, and gives everything back. If the
    /// stream were open, the server would deliver it there again.
    async fn abandon(&self, mut response: Response, mut pending: Vec<u8>) -> anyhow::Result<()> {
        self.leave().await;
        while let Ok(Ok(Some(chunk))) = timeout(REST_WITHIN, response.chunk()).await {
            pending.extend_from_slice(&chunk);
        }
        drop(response);
        self.hold(&lines(&whole_lines(&mut pending)))?;
        self.release().await
    }

    /// Tells the server that this process takes no more deliveries.
    async fn leave(&self) {
        // Without an answer, the leases of what is not released expire.
        let _unused = self.client.post("leave", json!({ "worker": self.worker })).await;
    }

    /// Prints deliveries that have arrived.
    async fn show(&self, lines: &[&str], tokens: &[Value]) -> anyhow::Result<()> {
        for (line, token) in lines.iter().zip(tokens) {
            output::line(line);
            if self.of.ack {
                self.client.post("ack", json!({ "token": token })).await?;
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                held.retain(|other| other != token);
            }
        }
        Ok(())
    }

    /// Keeps the tokens of deliveries that have arrived, and returns them.
    fn hold(&self, lines: &[&str]) -> anyhow::Result<Vec<Value>> {
        let tokens = tokens(lines)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(tokens.iter().cloned());
        Ok(tokens)
    }

    /// Gives back what has arrived, so that another consumer gets it at once. What another command
    /// has settled meanwhile is skipped.
    async fn release(&self) -> anyhow::Result<()> {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        let mut released = 0;
        for token in held {
            let nack = json!({ "token": token, "release": true });
            released += u64::from(self.client.post("nack", nack).await.is_ok());
        }
        if released > 0 {
            output::talk(format_args!("released {released} messages"));
        }
        Ok(())
    }
}

/// How long the next part of a stream, or its end, may take to arrive after an interrupt.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// The id of this process, which no other process has.
fn worker_id() -> String {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("driftq-cli-{}-{}", std::process::id(), began.as_nanos())
}

/// Removes the complete lines.
fn whole_lines(pending: &mut Vec<u8>) -> String {
    let end = pending.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let whole: Vec<u8> = pending.drain(..end).collect();
    String::from_utf8_lossy(&whole).into_owned()
}

/// The deliveries. An empty line is a heartbeat.
fn lines(whole: &str) -> Vec<&str> {
    whole.lines().filter(|line| !line.is_empty()).collect()
}

fn tokens(lines: &[&str]) -> anyhow::Result<Vec<Value>> {
    let token = |line: &&str| {
        let delivery: Value =
            serde_json::from_str(line).context("the server sent a line that is not a delivery")?;
        Ok(delivery["lease"]["token"].clone())
    };
    lines.iter().map(token).collect()
}

/// The tokens of the deliveries that have arrived and are not acknowledged.
type Held = Mutex<Vec<Value>>;

/// Show messages without consuming them
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq peek orders
  driftq peek orders --group biller --state waiting
  driftq peek orders --partition 0 --from 900 --limit 10")]
pub(crate) struct Peek {
    /// Topic name
    topic: String,
    /// Only this partition
    #[arg(long)]
    partition: Option<u32>,
    /// First offset to show
    #[arg(long, requires = "partition")]
    from: Option<u64>,
    /// Also show the state of each message in this group
    #[arg(long)]
    group: Option<String>,
    /// Only messages in this state for the group
    #[arg(long, requires = "group", ignore_case = true)]
    #[arg(value_parser = ["ready", "leased", "waiting", "settled"])]
    state: Option<String>,
    /// Only messages with this key
    #[arg(long)]
    key: Option<String>,
    /// Only messages of this run
    #[arg(long)]
    run_id: Option<String>,
    /// Messages per page, between 1 and 1000
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Cursor printed after the previous page
    #[arg(long)]
    cursor: Option<String>,
}

impl Peek {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let given = [
            ("partition", self.partition.map(|number| number.to_string())),
            ("from", self.from.map(|number| number.to_string())),
            ("group", self.group),
            ("state", self.state.map(|state| state.to_ascii_lowercase())),
            ("key", self.key),
            ("run_id", self.run_id),
            ("limit", Some(self.limit.to_string())),
            ("cursor", self.cursor),
        ];
        let query: Vec<(&str, String)> =
            given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let path = format!("topics/{}/messages", segment(&self.topic));
        let answer = remote.client()?.get(&path, &query).await?;
        let columns = [
            ("partition", "partition"),
            ("offset", "offset"),
            ("id", "id"),
            ("key", "key"),
            ("value", "value"),
            ("produced", "produced_at"),
            ("state", "state"),
            ("attempts", "attempts"),
            ("last error", "last_error"),
            ("next attempt", "next_attempt_at"),
            ("owner", "lease.owner"),
            ("lease ends", "lease.expires_at"),
        ];
        let shown =
            if remote.output == Format::Table && !query.iter().any(|(name, _)| *name == "group") {
                &columns[..6]
            } else {
                &columns[..]
            };
        output::list(remote.output, &answer, "messages", shown);
        Ok(())
    }
}
