//! `driftq dev`: a server in memory, to try things with.

use std::net::SocketAddr;

use clap::Args;
use driftq_server::Server;
use driftq_server::config::{Config, EngineConfig};

use crate::failure::Failure;
use crate::output;

/// Run a server in memory, to try things with
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq dev
  driftq dev --topic orders:3 --topic refunds")]
pub(crate) struct Dev {
    /// Where to listen
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    #[arg(env = "DRIFTQ_LISTEN", hide_env_values = true)]
    listen: SocketAddr,
    /// A topic to begin with, as NAME or NAME:PARTITIONS
    #[arg(long = "topic", value_name = "NAME[:PARTITIONS]")]
    topics: Vec<String>,
}

impl Dev {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let commit = crate::version::COMMIT;
        let config = Config { listen: self.listen, commit, ..Config::local(EngineConfig::Memory) };
        if config.is_open_to_all() {
            let message = "dev is for this machine only; for others: driftq serve --engine memory";
            return Err(Failure::Usage(format!("--listen {}: {message}", self.listen)).into());
        }
        let server = Server::start(config).await?;
        for topic in &self.topics {
            create(&server, topic).await?;
        }
        output::line(format_args!("listening on http://{}", server.address()));
        output::line(tour(server.address(), self.topics.first()));
        crate::serve::until_told_to_stop().await?;
        let forgotten = server.messages().await;
        server.stop().await;
        output::line(farewell(forgotten, &self.topics));
        Ok(())
    }
}

async fn create(server: &Server, topic: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Usage(format!("--topic {topic}: {why}"));
    let (name, partitions) = shape(topic);
    let partitions = partitions.parse::<u32>().ok().filter(|number| *number > 0);
    let partitions =
        partitions.ok_or_else(|| wrong("partitions are a number from 1 on".to_owned()))?;
    server.create_topic(name, partitions).await.map_err(wrong)
}

fn shape(topic: &str) -> (&str, &str) {
    topic.split_once(':').unwrap_or((topic, "1"))
}

/// Lines to type into another terminal, as they are. `just readme` types them.
fn tour(address: SocketAddr, topic: Option<&String>) -> String {
    let name = topic.map_or("orders", |topic| shape(topic).0);
    let create = match topic {
        Some(_) => String::new(),
        None => format!("\n  curl -s $Q/topics -d '{{\"name\":\"{name}\"}}'"),
    };
    format!(
        r#"everything is in memory and gone when you press Ctrl-C. In another terminal:

  Q=http://{address}/v1{create}
  curl -s $Q/produce -d '{{"topic":"{name}","value":"pay 12","envelope":{{"idempotency_key":"order-77"}}}}'
  curl -s $Q/receive -d '{{"topic":"{name}","group":"biller","owner":"me"}}' | tee delivery.json
  curl -s -X POST "$Q/ack?token=$(grep -o 'lt_[[:alnum:]_-]*' delivery.json)"
  curl -s "$Q/explain?topic={name}&group=biller"

Produce again: it is stored once. Leave out the ack: after 30 s the message comes again.
"#
    )
}

/// What is gone, and the lines that would have kept it.
fn farewell(messages: u64, topics: &[String]) -> String {
    let messages = if messages == 1 { "1 message".into() } else { format!("{messages} messages") };
    let mut message = format!("\nforgotten: {messages}. To keep everything next time:\n");
    message += "\n  driftq serve --data ./data";
    for topic in topics {
        let (name, partitions) = shape(topic);
        message += &format!("\n  driftq topic create {name} --partitions {partitions}");
    }
    message
}
