//! `driftq dev`: an in-memory server for development.

use std::net::SocketAddr;

use clap::Args;
use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};

use crate::cli_error::CliError;
use crate::config::{Level, LogFormat};
use crate::{log, output};

/// Run an in-memory server for development
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq dev
  driftq dev --topic orders:3 --topic refunds
  driftq dev --test-clock                      then POST /v1/dev/clock {\"advance_ms\": 3600000}")]
pub(crate) struct Dev {
    /// Loopback address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    #[arg(env = "DRIFTQ_LISTEN", hide_env_values = true)]
    #[arg(value_parser = |given: &str| crate::config::loopback(given).parse::<SocketAddr>())]
    listen: SocketAddr,
    /// Topic to create at start (repeatable); partitions between 1 and 1024, default 1
    #[arg(long = "topic", value_name = "NAME[:PARTITIONS]")]
    topics: Vec<String>,
    /// Accept POST /v1/dev/clock, which advances the clock, to test retries and expiries without
    /// waiting
    #[arg(long)]
    test_clock: bool,
}

impl Dev {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let commit = crate::version::COMMIT;
        let config = Config {
            listen: self.listen,
            test_clock: self.test_clock,
            commit,
            ..Config::local(EngineConfig::Memory)
        };
        if config.is_open_to_all() {
            let message = "dev listens on loopback only; use: driftq serve --engine memory";
            return Err(CliError::Usage(format!("--listen {}: {message}", self.listen)).into());
        }
        log::start(Level::Warn, LogFormat::Text);
        let server = Server::start(config).await?;
        for topic in &self.topics {
            create(&server, topic).await?;
        }
        output::line(format_args!("listening on http://{}", server.address()));
        output::line(tour(server.address(), self.topics.first()));
        crate::serve::wait_for_stop_signal().await?;
        let forgotten = server.messages().await;
        server.stop().await;
        output::line(farewell(forgotten, &self.topics));
        Ok(())
    }
}

async fn create(server: &Server, topic: &str) -> Result<(), CliError> {
    let wrong = |why: String| CliError::Usage(format!("--topic {topic}: {why}"));
    let (name, partitions) = shape(topic);
    let partitions = partitions.parse::<u32>().ok().filter(|number| *number > 0);
    let partitions =
        partitions.ok_or_else(|| wrong("PARTITIONS must be between 1 and 1024".to_owned()))?;
    server.create_topic(name, partitions).await.map_err(wrong)
}

fn shape(topic: &str) -> (&str, &str) {
    topic.split_once(':').unwrap_or((topic, "1"))
}

/// Returns commands to paste into another terminal. `just readme` runs them.
fn tour(address: SocketAddr, topic: Option<&String>) -> String {
    let name = topic.map_or("orders", |topic| shape(topic).0);
    let create = match topic {
        Some(_) => String::new(),
        None => format!("\n  curl -s $Q/topics -d '{{\"name\":\"{name}\"}}'"),
    };
    format!(
        r#"all data is in memory and is lost on exit (Ctrl-C). In another terminal:

  Q=http://{address}/v1{create}
  curl -s $Q/produce -d '{{"topic":"{name}","value":"pay 12","envelope":{{"idempotency_key":"order-77"}}}}'
  curl -s $Q/receive -d '{{"topic":"{name}","group":"biller","owner":"me"}}' | tee delivery.json
  curl -s -X POST "$Q/ack?token=$(grep -o 'lt_[[:alnum:]_-]*' delivery.json)"
  curl -s "$Q/explain?topic={name}&group=biller"

Produce again: the message is stored once. Skip the ack: the message is redelivered after 30 s.
"#
    )
}

/// Reports how many messages were lost, and the commands that would have kept them.
fn farewell(messages: u64, topics: &[String]) -> String {
    let messages = if messages == 1 { "1 message".into() } else { format!("{messages} messages") };
    let mut message = format!("\ndiscarded: {messages}. To keep messages next time:\n");
    message += "\n  driftq serve --data ./data";
    for topic in topics {
        let (name, partitions) = shape(topic);
        message += &format!("\n  driftq topic create {name} --partitions {partitions}");
    }
    message
}
