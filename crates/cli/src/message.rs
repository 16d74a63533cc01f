//! `driftq produce`, `consume`, `peek`: messages in and out.

use std::io::{BufRead as _, Read as _};

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::{Client, Remote, broke_off, segment};
use crate::failure::Failure;
use crate::output::{self, Format};

/// Store a message
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq produce orders 'pay 12'
  driftq produce orders @order.json --key cust-9 --idempotency-key order-77
  some-program | driftq produce orders --lines       one message per line")]
pub(crate) struct Produce {
    /// The topic
    topic: String,
    /// The value: text, @FILE, or - for standard input
    #[arg(required_unless_present = "lines")]
    value: Option<String>,
    /// One message per line of standard input
    #[arg(long, conflicts_with = "value")]
    lines: bool,
    /// Chooses the partition
    #[arg(long)]
    key: Option<String>,
    /// Stored once while the key is taken
    #[arg(long, conflicts_with = "lines", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
    /// The tenant
    #[arg(long)]
    tenant_id: Option<String>,
    /// The run it belongs to
    #[arg(long)]
    run_id: Option<String>,
}

/// Lines sent at once.
const LINES_MAX: usize = 500;

impl Produce {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        if self.lines {
            return self.lines(&client, remote.output).await;
        }
        let value = match self.value.as_deref().unwrap_or_default() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("read standard input")?;
                text
            }
            text => match text.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path)
                    .map_err(|error| Failure::Usage(format!("read {path}: {error}")))?,
                None => text.to_owned(),
            },
        };
        let answer = client.post("produce", self.message(&value)).await?;
        let again = if answer["deduplicated"] == true { " (it was there before)" } else { "" };
        let message = format!(
            "{} in partition {} at offset {}{again}",
            answer["id"].as_str().unwrap_or_default(),
            answer["partition"],
            answer["offset"]
        );
        output::said(remote.output, &answer, &message);
        Ok(())
    }

    fn message(&self, value: &str) -> Value {
        json!({
            "topic": self.topic, "key": self.key, "value": value,
            "envelope": {
                "idempotency_key": self.idempotency_key,
                "tenant_id": self.tenant_id,
                "run_id": self.run_id,
            },
        })
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
                match String::from_utf8(line.context("read a line")?) {
                    Ok(line) => match line.strip_suffix('\r').unwrap_or(&line) {
                        "" => {}
                        line => messages.push(self.message(line)),
                    },
                    Err(_) => not_text = Some(number),
                }
            }
            if !messages.is_empty() {
                let answer = client.post("produce/batch", json!({ "messages": messages })).await?;
                accepted += answer["accepted"].as_u64().unwrap_or(0);
                refused += answer["refused"].as_u64().unwrap_or(0);
                // The first refusal decides how this ends; the rest is still stored.
                failed = failed.and(crate::failure::refused(&answer));
            }
            if let Some(number) = not_text {
                let message = format!("{accepted} stored before it, nothing from it on");
                return Err(Failure::Usage(format!("line {number} is not UTF-8: {message}")).into());
            }
        }
        let answer = json!({ "accepted": accepted, "refused": refused });
        output::said(format, &answer, &format!("{accepted} stored, {refused} refused"));
        failed
    }
}

/// Follow a topic: every delivery as a line of JSON
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq consume orders biller                 show deliveries; they come again when their lease ends
  driftq consume orders biller --ack           acknowledge each after it is shown
  driftq consume orders biller --ack --count 1")]
pub(crate) struct Consume {
    /// The topic
    topic: String,
    /// The group
    group: String,
    /// A name for this consumer
    #[arg(long, default_value = "driftq-cli")]
    owner: String,
    /// Acknowledge each after it is shown
    #[arg(long)]
    ack: bool,
    /// End after so many
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// How long each is ours
    #[arg(long)]
    lease_ms: Option<u64>,
    /// How many may be with us at a time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    prefetch: Option<u32>,
}

/// Deliveries that are with us at a time, if nothing else is said: as a stream has it.
const PREFETCH: u32 = 2;
/// Deliveries that one receive may ask for.
const RECEIVE_MAX: u64 = 1_000;

/// What a receive is answered, each delivery as it came.
#[derive(Deserialize)]
struct Received {
    messages: Vec<Box<RawValue>>,
}

impl Consume {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        match self.count {
            Some(count) => self.some(&client, count).await,
            None => self.follow(&client).await,
        }
    }

    fn asked(&self) -> Value {
        json!({
            "topic": self.topic, "group": self.group, "owner": self.owner,
            "lease_ms": self.lease_ms,
        })
    }

    /// Not by a stream: it would have been sent more than it shows, and nobody else would get those until
    /// their leases end.
    async fn some(&self, client: &Client, count: u64) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            let prefetch = u64::from(self.prefetch.unwrap_or(PREFETCH)).min(RECEIVE_MAX);
            let mut asked = self.asked();
            asked["max"] = left.min(prefetch).into();
            let response = client.send(Method::POST, "receive", &[], Some(asked)).await?;
            let bytes = response.bytes().await.map_err(broke_off)?;
            let received: Received = serde_json::from_slice(&bytes).context("no deliveries")?;
            for delivery in &received.messages {
                self.show(client, delivery.get()).await?;
                left -= 1;
            }
        }
        Ok(())
    }

    async fn follow(&self, client: &Client) -> anyhow::Result<()> {
        let mut asked = self.asked();
        asked["prefetch"] = self.prefetch.into();
        let mut response = client.send(Method::POST, "consume", &[], Some(asked)).await?;
        let mut pending = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broke_off)? {
            pending.extend_from_slice(&chunk);
            while let Some(end) = pending.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                // A line without anything says that the server is there.
                if !line.trim_end().is_empty() {
                    self.show(client, line.trim_end()).await?;
                }
            }
        }
        // It has no last word: what is wrong is the answer to the next request.
        let message = "the server ended the stream: ask again to hear why";
        Err(Failure::Unreachable(message.to_owned()).into())
    }

    async fn show(&self, client: &Client, delivery: &str) -> anyhow::Result<()> {
        output::line(delivery);
        if self.ack {
            let delivery: Value = serde_json::from_str(delivery).context("not a delivery")?;
            client.post("ack", json!({ "token": delivery["lease"]["token"] })).await?;
        }
        Ok(())
    }
}

/// Look at messages without taking them
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq peek orders
  driftq peek orders --group biller --state waiting
  driftq peek orders --partition 0 --from 900 --limit 10")]
pub(crate) struct Peek {
    /// The topic
    topic: String,
    /// Only this partition
    #[arg(long)]
    partition: Option<u32>,
    /// From this offset on
    #[arg(long, requires = "partition")]
    from: Option<u64>,
    /// What they are to this group
    #[arg(long)]
    group: Option<String>,
    /// Only those that are in this state for the group
    #[arg(long, requires = "group", ignore_case = true)]
    #[arg(value_parser = ["ready", "leased", "waiting", "settled"])]
    state: Option<String>,
    /// Only with this key
    #[arg(long)]
    key: Option<String>,
    /// Only of this run
    #[arg(long)]
    run_id: Option<String>,
    /// How many
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where the page before ended
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
