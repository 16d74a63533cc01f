//! Checks that every shard is served, with messages on each shard that are delivered repeatedly.
//!
//! A delivery is a commit of its shard, so only the owner of the shard can deliver.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::future::{join_all, select_all};
use serde_json::{Value, json};

/// Maximum number of topic names tried until every shard has a topic.
const NAMES_MAX: u32 = 400;
const NAMES_AT_ONCE: u32 = 40;
/// Selects one topic per shard from PostgreSQL.
pub(crate) const ONE_OF_EACH_SHARD: &str = "SELECT DISTINCT ON (shard) name FROM driftq.topic
    WHERE name LIKE 'probe-%' ORDER BY shard, name";
/// Time limit for creating the topics.
const TIMEOUT: Duration = Duration::from_secs(60);
/// One for each server that is polled, and some for polls that timed out: messages leased to them
/// become available late.
const MESSAGES: usize = 12;
/// Timeout of a poll, and the pause before the next.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long a poll waits for a delivery, which is slow on a busy server, and the lease, which is
/// the shortest allowed.
const WAIT_MS: u64 = 1_000;
const HELD_MS: u64 = 250;

/// A topic on every shard, and the servers that deliver its messages.
pub(crate) struct Probes {
    http: reqwest::Client,
    urls: Vec<String>,
    topics: Vec<String>,
}

impl Probes {
    /// Creates topics until each shard has one. `sql` queries PostgreSQL.
    pub(crate) async fn make(
        urls: Vec<String>,
        shards: u32,
        sql: impl AsyncFn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<Probes> {
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).build()?;
        let mut probes = Probes { http, urls, topics: Vec::new() };
        // Unlimited attempts, with a minimal backoff.
        let retry = json!({ "max_attempts": -1, "backoff_ms": 1, "max_backoff_ms": 1 });
        for first in (0..NAMES_MAX).step_by(NAMES_AT_ONCE as usize) {
            let made = (first..first + NAMES_AT_ONCE).map(|number| {
                let asked = json!({ "name": format!("probe-{number}"), "partitions": 1,
                    "settings": { "retry_policy": retry } });
                probes.insist("topics", asked)
            });
            join_all(made).await.into_iter().collect::<anyhow::Result<()>>()?;
            let names = sql(ONE_OF_EACH_SHARD).await?;
            if names.lines().count() == shards as usize {
                probes.topics = names.lines().map(str::to_owned).collect();
                break;
            }
        }
        anyhow::ensure!(!probes.topics.is_empty(), "a shard has no topic");
        let message = |topic: &String| json!({ "topic": topic, "value": "served" });
        let all = probes.topics.iter().flat_map(|topic| std::iter::repeat_n(topic, MESSAGES));
        let filled = all.map(|topic| probes.insist("produce", message(topic)));
        join_all(filled).await.into_iter().collect::<anyhow::Result<()>>()?;
        Ok(probes)
    }

    /// Waits until every shard has delivered a message through one of the servers. Returns the time
    /// since `began`, and fails after `within`.
    pub(crate) async fn all_deliver(
        &self,
        began: Instant,
        within: Duration,
    ) -> anyhow::Result<Duration> {
        let all = join_all(self.topics.iter().map(|topic| self.delivers(topic)));
        tokio::time::timeout(within, all).await.context("a shard is not served")?;
        Ok(began.elapsed())
    }

    /// Waits until one of the servers has delivered a message.
    async fn delivers(&self, topic: &str) {
        let asked = json!({ "topic": topic, "group": "probes", "owner": "probe", "max": 1,
            "wait_ms": WAIT_MS, "lease_ms": HELD_MS });
        let asked = &asked;
        let each = self.urls.iter().map(|url| {
            Box::pin(async move {
                while !self.post(url, "receive", asked).await.is_ok_and(|answer| {
                    answer["messages"].as_array().is_some_and(|messages| !messages.is_empty())
                }) {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            })
        });
        select_all(each).await;
    }

    /// Repeats the request until it succeeds, because shards may not be served yet.
    async fn insist(&self, path: &str, asked: Value) -> anyhow::Result<()> {
        let done = async {
            while self.post(&self.urls[0], path, &asked).await.is_err() {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        tokio::time::timeout(TIMEOUT, done).await.with_context(|| format!("{path}: {asked}"))
    }

    async fn post(&self, url: &str, path: &str, asked: &Value) -> anyhow::Result<Value> {
        let response = self.http.post(format!("{url}/{path}")).json(asked).send().await?;
        Ok(response.error_for_status()?.json().await?)
    }
}
