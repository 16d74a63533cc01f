//! `driftq relay`: moves messages from the outbox in a database of the user to the server.
//!
//! 1. A row is deleted when its message is stored. A relay that dies before that leaves the row to
//!    another one, and the idempotency key of the row keeps its message from being stored twice.
//! 2. The row lock is held while the message is sent, so several relays do not send the same row.
//! 3. The server remembers the key for `dedupe_ttl_ms` of the topic. A row that was sent longer ago is
//!    not sent again, because its message may be stored. It is reported instead.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use driftq_client::{Client, Error, Message};
use driftq_server::database;
use serde_json::{Map, Value, json};
use tokio_postgres::{Row, Transaction};

use crate::client::{Remote, segment};
use crate::output;
use crate::serve::wait_for_stop_signal;

/// How often an empty outbox is read.
const INTERVAL: Duration = Duration::from_millis(200);
/// The wait after an error, at most.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The shortest `dedupe_ttl_ms` of a topic. A row that was first sent within this time is sent again
/// without a look at its topic.
const TTL_MIN: f64 = 60.0;

/// Records that rows are sent, before they are.
const MARK: &str = "UPDATE driftq_outbox SET first_sent_at = clock_timestamp() WHERE id IN (
    SELECT id FROM driftq_outbox WHERE first_sent_at IS NULL
    ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)";
const TAKE: &str = "SELECT id, topic, message_key, value, envelope::text,
        extract(epoch FROM clock_timestamp() - first_sent_at)::float8 AS age
    FROM driftq_outbox
    WHERE first_sent_at IS NOT NULL AND coalesce(retry_at, '-infinity') <= clock_timestamp()
    ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED";
const DELETE: &str = "DELETE FROM driftq_outbox WHERE id = ANY($1)";
/// A rejected message is sent again after a minute, in case its topic was created meanwhile.
const REJECTED: &str = "UPDATE driftq_outbox
    SET last_error = $2, retry_at = clock_timestamp() + interval '1 minute' WHERE id = $1";
const NOT_SENT: &str =
    "UPDATE driftq_outbox SET last_error = $2, retry_at = 'infinity' WHERE id = $1";

/// Move the messages of an outbox in your PostgreSQL to the server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq relay --database-url postgresql://app@localhost/shop
  driftq relay --once

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
}

impl Relay {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.sdk()?;
        let mut all = Moved::default();
        let ended = tokio::select! {
            stopped = wait_for_stop_signal() => stopped,
            ended = self.relay(&client, &mut all) => ended,
        };
        let Moved { stored, rejected, not_sent } = all;
        let answer = json!({ "stored": stored, "rejected": rejected, "not_sent": not_sent });
        let text = format!("stored {stored}, rejected {rejected}, not sent again {not_sent}");
        output::print_result(remote.output, &answer, &text);
        ended
    }

    async fn relay(&self, client: &Client, all: &mut Moved) -> anyhow::Result<()> {
        let mut database = database::connect(&self.database_url).await?;
        let mut backoff = INTERVAL;
        loop {
            match round(&mut database, client).await {
                Ok(moved) => {
                    backoff = INTERVAL;
                    let is_empty = moved.stored + moved.rejected + moved.not_sent == 0;
                    all.stored += moved.stored;
                    all.rejected += moved.rejected;
                    all.not_sent += moved.not_sent;
                    if is_empty && self.once {
                        return Ok(());
                    }
                    if is_empty {
                        tokio::time::sleep(INTERVAL).await;
                    }
                }
                Err(error) if self.once => return Err(error),
                Err(error) => {
                    output::talk(format_args!("{error:#}; trying again in {backoff:?}"));
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    if let Ok(connected) = database::connect(&self.database_url).await {
                        database = connected;
                    }
                }
            }
        }
    }
}

/// Sends up to 100 messages.
async fn round(database: &mut tokio_postgres::Client, client: &Client) -> anyhow::Result<Moved> {
    let outbox = "read the outbox; its tables are in sdks/ledger/schema.sql";
    database.execute(MARK, &[]).await.context(outbox)?;
    let transaction = database.transaction().await?;
    let rows = transaction.query(TAKE, &[]).await?;
    let (mut ids, mut messages, mut moved) = (Vec::new(), Vec::new(), Moved::default());
    for row in &rows {
        if is_forgotten(client, row).await? {
            let why = "it may be stored: it was sent longer ago than dedupe_ttl_ms of its topic. Find \
                out, then delete the row, or set first_sent_at and retry_at to NULL to send it";
            report(&transaction, NOT_SENT, row, why).await?;
            moved.not_sent += 1;
            continue;
        }
        match message(row) {
            Ok(message) => {
                ids.push(row.try_get("id")?);
                messages.push(message);
            }
            Err(why) => {
                report(&transaction, REJECTED, row, &format!("{why:#}")).await?;
                moved.rejected += 1;
            }
        }
    }
    let mut stored: Vec<i64> = Vec::new();
    if !messages.is_empty() {
        let results = client.produce_batch(messages).await.context("send the messages")?;
        for (id, result) in ids.into_iter().zip(results) {
            match result {
                Ok(_) => stored.push(id),
                Err(Error::Refused(refusal)) => {
                    let row =
                        rows.iter().find(|row| row.try_get("id").is_ok_and(|of: i64| of == id));
                    let row = row.context("a result has a row")?;
                    report(&transaction, REJECTED, row, &refusal.to_string()).await?;
                    moved.rejected += 1;
                }
                // It is sent again.
                Err(error) => output::talk(format_args!("{error}")),
            }
        }
    }
    transaction.execute(DELETE, &[&stored]).await?;
    transaction.commit().await?;
    moved.stored = stored.len();
    Ok(moved)
}

/// Whether the server no longer remembers the first time that the message was sent.
async fn is_forgotten(client: &Client, row: &Row) -> anyhow::Result<bool> {
    let age: f64 = row.try_get("age")?;
    if age < TTL_MIN {
        return Ok(false);
    }
    let topic: &str = row.try_get("topic")?;
    let reply = client.get(&format!("topics/{}", segment(topic))).await?;
    let ttl = reply.body["settings"]["dedupe_ttl_ms"].as_f64();
    // A topic that does not exist has stored nothing.
    Ok(ttl.is_some_and(|ttl| age * 1_000.0 >= ttl))
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

async fn report(
    transaction: &Transaction<'_>,
    statement: &str,
    row: &Row,
    why: &str,
) -> anyhow::Result<()> {
    let (id, topic): (i64, &str) = (row.try_get("id")?, row.try_get("topic")?);
    output::talk(format_args!("message {id} for {topic}: {why}"));
    transaction.execute(statement, &[&id, &why]).await?;
    Ok(())
}
