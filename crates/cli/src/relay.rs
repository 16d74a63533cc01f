//! `driftq relay`: moves messages from the outbox in a database of the user to the server.
//!
//! 1. A row is deleted when its message is stored. A relay that dies before that leaves the row to
//!    another one, and the idempotency key of the row keeps its message from being stored twice.
//! 2. A row is written and committed before its message is sent. With synchronous replication, this
//!    commit waits for the row, so no message of a transaction that a failover loses is sent.
//! 3. The row lock is held while the message is sent, so several relays do not send the same row.
//! 4. The server remembers the key for `dedupe_ttl_ms` of the topic. A row that was sent longer ago is
//!    not sent again, because its message may be stored. It is reported instead.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use driftq_client::{Client, Error, Message, Receipt};
use driftq_server::database;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tokio_postgres::{Row, Transaction};

use crate::client::{Remote, segment};
use crate::output;
use crate::serve::wait_for_stop_signal;

/// How often an empty outbox is read.
const INTERVAL: Duration = Duration::from_millis(200);
/// The wait after an error, at most.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// How long a topic is asked for.
const TOPIC_TIME: Duration = Duration::from_secs(10);
/// How long a message may be under way: requests for the topics, and a produce with its repeats. A key
/// must be remembered for so much longer.
const SEND_SECONDS: f64 = 45.0;
/// Bytes of the messages in one request, as JSON. The server accepts 8 MiB by default.
const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Records that rows are sent, before they are.
const CLAIM: &str = "WITH due AS (
        SELECT id, first_sent_at IS NULL AS is_first,
            octet_length(value) / 3 * 4 + octet_length(envelope::text) + 200 AS bytes
        FROM driftq_outbox WHERE coalesce(retry_at, '-infinity') <= clock_timestamp()
        ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
    UPDATE driftq_outbox AS o SET first_sent_at = coalesce(o.first_sent_at, clock_timestamp())
    FROM due WHERE o.id = due.id RETURNING o.id, due.is_first, due.bytes::int8";
const TAKE: &str = "SELECT id, topic, message_key, value, envelope::text,
        extract(epoch FROM clock_timestamp() - first_sent_at)::float8 AS age
    FROM driftq_outbox
    WHERE id = ANY($1) AND coalesce(retry_at, '-infinity') <= clock_timestamp()
        AND first_sent_at IS NOT NULL
    ORDER BY id FOR UPDATE SKIP LOCKED";
const DELETE: &str = "DELETE FROM driftq_outbox WHERE id = ANY($1)";
/// A rejected message is sent again after a minute, in case its topic was created meanwhile. If it was
/// never sent before, it is certainly not stored.
const REJECTED: &str = "UPDATE driftq_outbox SET last_error = $2,
    retry_at = clock_timestamp() + interval '1 minute',
    first_sent_at = CASE WHEN $3 THEN NULL ELSE first_sent_at END WHERE id = $1";
const NOT_SENT: &str =
    "UPDATE driftq_outbox SET last_error = $2, retry_at = 'infinity' WHERE id = $1";

/// Move the messages of an outbox in your PostgreSQL to the server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq relay --database-url postgresql://app@localhost/shop
  driftq relay --database-url postgresql://app@localhost/shop --once

The outbox is the table driftq_outbox of sdks/ledger/schema.sql. Several relays may run. A message that the server rejects stays in the table with its error, and is sent again every minute.")]
pub(crate) struct Relay {
    /// URL of the database that has the outbox
    #[arg(long, value_name = "URL", env = "DRIFTQ_OUTBOX_URL", hide_env_values = true)]
    database_url: String,
    /// Exit when the outbox has no message that can be sent
    #[arg(long)]
    once: bool,
}

/// What became of rows.
#[derive(Default)]
struct Moved {
    stored: usize,
    rejected: usize,
    /// Sent longer ago than the server remembers.
    not_sent: usize,
    /// The server cannot take them now.
    left: usize,
}

/// A connection to the outbox.
struct Outbox {
    client: tokio_postgres::Client,
    warnings: Arc<AtomicU64>,
}

/// A row to send.
struct Claimed {
    id: i64,
    /// Whether it was not sent before.
    is_first: bool,
    message: Message,
}

impl Relay {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.sdk()?;
        let mut all = Moved::default();
        let ended = tokio::select! {
            stopped = wait_for_stop_signal() => stopped,
            ended = self.relay(&client, &mut all) => ended,
        };
        let Moved { stored, rejected, not_sent, left: _ } = all;
        let answer = json!({ "stored": stored, "rejected": rejected, "not_sent": not_sent });
        let text = format!("stored {stored}, rejected {rejected}, not sent again {not_sent}");
        output::print_result(remote.output, &answer, &text);
        ended
    }

    async fn relay(&self, client: &Client, all: &mut Moved) -> anyhow::Result<()> {
        let mut outbox = self.connect().await?;
        let mut backoff = INTERVAL;
        loop {
            match outbox.round(client).await {
                Ok(Moved { stored, rejected, not_sent, left }) => {
                    all.stored += stored;
                    all.rejected += rejected;
                    all.not_sent += not_sent;
                    let is_empty = stored + rejected + not_sent + left == 0;
                    if is_empty && self.once {
                        return Ok(());
                    }
                    if is_empty || left > 0 {
                        tokio::time::sleep(backoff).await;
                    }
                    backoff = if left > 0 { (backoff * 2).min(BACKOFF_MAX) } else { INTERVAL };
                }
                Err(error) if self.once => return Err(error),
                Err(error) => {
                    output::talk(format_args!("{error:#}; trying again in {backoff:?}"));
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    if let Ok(connected) = self.connect().await {
                        outbox = connected;
                    }
                }
            }
        }
    }

    async fn connect(&self) -> anyhow::Result<Outbox> {
        let (client, warnings) = database::connect(&self.database_url).await?;
        Ok(Outbox { client, warnings })
    }
}

impl Outbox {
    /// Sends up to 100 messages.
    async fn round(&mut self, client: &Client) -> anyhow::Result<Moved> {
        let firsts = self.claim().await?;
        let mut moved = Moved::default();
        if firsts.is_empty() {
            return Ok(moved);
        }
        let transaction = self.client.transaction().await?;
        let ids: Vec<i64> = firsts.keys().copied().collect();
        let rows = transaction.query(TAKE, &[&ids]).await?;
        let ttls = ttls(client, &rows, &firsts).await?;
        let mut claimed = Vec::new();
        for row in &rows {
            let (id, topic): (i64, &str) = (row.try_get("id")?, row.try_get("topic")?);
            let is_first = firsts.get(&id).copied().unwrap_or_default();
            if !is_first && is_forgotten(row.try_get("age")?, ttls.get(topic).copied()) {
                let why = "it may be stored: it was sent longer ago than dedupe_ttl_ms of its topic. \
                    Find out, then delete the row, or set first_sent_at and retry_at to NULL to send it";
                output::talk(format_args!("message {id} for {topic}: {why}"));
                transaction.execute(NOT_SENT, &[&id, &why]).await?;
                moved.not_sent += 1;
                continue;
            }
            match message(row) {
                Ok(message) => claimed.push(Claimed { id, is_first, message }),
                Err(why) => {
                    reject(&transaction, id, is_first, &format!("{why:#}")).await?;
                    moved.rejected += 1;
                }
            }
        }
        send(client, &transaction, claimed, &mut moved).await?;
        transaction.commit().await?;
        Ok(moved)
    }

    /// Writes the rows that are sent next, and returns whether each is sent for the first time.
    async fn claim(&self) -> anyhow::Result<HashMap<i64, bool>> {
        let before = self.warnings.load(Ordering::SeqCst);
        let context = "read the outbox; its tables are in sdks/ledger/schema.sql";
        let mut rows = self.client.query(CLAIM, &[]).await.context(context)?;
        let is_durable = self.warnings.load(Ordering::SeqCst) == before;
        ensure!(is_durable, "the database warned during a commit, so it may not be replicated");
        rows.sort_by_key(|row| row.try_get::<_, i64>("id").unwrap_or_default());
        let (mut claimed, mut bytes) = (HashMap::new(), 0);
        for row in rows {
            bytes += usize::try_from(row.try_get::<_, i64>("bytes")?)?;
            if bytes > REQUEST_BYTES_MAX && !claimed.is_empty() {
                break;
            }
            claimed.insert(row.try_get("id")?, row.try_get("is_first")?);
        }
        Ok(claimed)
    }
}

/// Sends messages. If the server rejects the request as a whole, one of them is wrong, and it must not
/// keep the others from being stored.
async fn send(
    client: &Client,
    transaction: &Transaction<'_>,
    claimed: Vec<Claimed>,
    moved: &mut Moved,
) -> anyhow::Result<()> {
    let mut parts = vec![claimed];
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        let messages: Vec<Message> = part.iter().map(|of| of.message.clone()).collect();
        let results = match client.produce_batch(messages).await {
            Ok(results) => results,
            Err(Error::Refused(refusal)) if matches!(refusal.status, 400 | 413) => {
                if part.len() == 1 {
                    let Claimed { id, is_first, .. } = &part[0];
                    reject(transaction, *id, *is_first, &refusal.to_string()).await?;
                    moved.rejected += 1;
                } else {
                    let half = part.split_off(part.len() / 2);
                    parts.extend([half, part]);
                }
                continue;
            }
            Err(error) => return Err(error).context("send the messages"),
        };
        record(transaction, &part, results, moved).await?;
    }
    Ok(())
}

async fn record(
    transaction: &Transaction<'_>,
    part: &[Claimed],
    results: Vec<Result<Receipt, Error>>,
    moved: &mut Moved,
) -> anyhow::Result<()> {
    let mut stored: Vec<i64> = Vec::new();
    for (Claimed { id, is_first, .. }, result) in part.iter().zip(results) {
        match result {
            Ok(_) => stored.push(*id),
            Err(Error::Refused(refusal)) if refusal.body["retryable"] != true => {
                reject(transaction, *id, *is_first, &refusal.to_string()).await?;
                moved.rejected += 1;
            }
            // It stays, and is sent again.
            Err(_) => moved.left += 1,
        }
    }
    transaction.execute(DELETE, &[&stored]).await?;
    moved.stored += stored.len();
    Ok(())
}

/// `dedupe_ttl_ms` of the topics of rows that were sent before, in seconds. A topic that does not exist
/// has none.
async fn ttls<'a>(
    client: &Client,
    rows: &'a [Row],
    firsts: &HashMap<i64, bool>,
) -> anyhow::Result<HashMap<&'a str, f64>> {
    let mut ttls = HashMap::new();
    for row in rows {
        let (id, topic): (i64, &str) = (row.try_get("id")?, row.try_get("topic")?);
        if firsts.get(&id) == Some(&true) || ttls.contains_key(topic) {
            continue;
        }
        let path = format!("topics/{}", segment(topic));
        let reply = timeout(TOPIC_TIME, client.get(&path)).await.context("ask for the topic")??;
        match reply.status {
            200 => {
                let ttl = reply.body["settings"]["dedupe_ttl_ms"].as_f64();
                ttls.insert(topic, ttl.context("dedupe_ttl_ms of the topic")? / 1_000.0);
            }
            // It has stored nothing.
            404 => {}
            _ => bail!("ask for the topic {topic}: {reply}"),
        }
    }
    Ok(ttls)
}

/// Whether the server may have forgotten the first time that a message was sent, or does so while it is
/// under way. A negative age is a clock that jumped back.
fn is_forgotten(age: f64, ttl: Option<f64>) -> bool {
    ttl.is_some_and(|ttl| age < 0.0 || age + SEND_SECONDS >= ttl)
}

fn message(row: &Row) -> anyhow::Result<Message> {
    let (topic, key): (&str, &str) = (row.try_get("topic")?, row.try_get("message_key")?);
    let mut message = Message::bytes(topic, row.try_get("value")?).key(key);
    let envelope: &str = row.try_get("envelope")?;
    let envelope: Map<String, Value> = serde_json::from_str(envelope).context("the envelope")?;
    for (name, value) in envelope {
        message = message.envelope(&name, value);
    }
    Ok(message)
}

async fn reject(
    transaction: &Transaction<'_>,
    id: i64,
    is_first: bool,
    why: &str,
) -> anyhow::Result<()> {
    output::talk(format_args!("message {id}: {why}"));
    transaction.execute(REJECTED, &[&id, &why, &is_first]).await?;
    Ok(())
}
