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
            let says = "dev is for this machine only; for others: driftq serve --engine memory";
            return Err(Failure::Usage(format!("--listen {}: {says}", self.listen)).into());
        }
        let server = Server::start(config).await?;
        for topic in &self.topics {
            create(&server, topic).await?;
        }
        output::line(format_args!("listening on http://{}", server.address()));
        output::line(tour(server.address()));
        crate::serve::until_told_to_stop().await?;
        let forgotten = server.messages().await;
        server.stop().await;
        output::line(format_args!(
            "\nforgotten: {forgotten} messages. To keep them next time: driftq serve --data ./data"
        ));
        Ok(())
    }
}

async fn create(server: &Server, topic: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Usage(format!("--topic {topic}: {why}"));
    let (name, partitions) = match topic.split_once(':') {
        Some((name, count)) => {
            (name, count.parse().map_err(|_| wrong("partitions are a number".to_owned()))?)
        }
        None => (topic, 1),
    };
    server.create_topic(name, partitions).await.map_err(wrong)
}

/// Lines to type into another terminal.
fn tour(address: SocketAddr) -> String {
    format!(
        r#"everything is in memory and gone when you press Ctrl-C. In another terminal:

  Q=http://{address}/v1
  curl -s $Q/topics  -d '{{"name":"orders"}}'
  curl -s $Q/produce -d '{{"topic":"orders","value":"pay 12","envelope":{{"idempotency_key":"order-77"}}}}'
  curl -s $Q/receive -d '{{"topic":"orders","group":"biller","owner":"me"}}'   # copy lease.token
  curl -s $Q/ack     -d '{{"token":"lt_..."}}'
"#
    )
}
