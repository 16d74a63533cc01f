//! `driftq node`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::client::{Client, Remote, segment};
use crate::confirm::Operator;
use crate::output;

/// List, drain and undrain nodes
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq node list
  driftq node drain http://127.0.0.1:8081")]
pub(crate) struct Node {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the nodes and the number of shards each serves
    #[command(after_help = "\
Examples:
  driftq node list
  driftq node list -o json")]
    List,
    /// Move all shards off a node and assign it none until `undrain` or a restart
    #[command(after_help = "\
Examples:
  driftq node drain http://127.0.0.1:8081
  driftq node drain n_0123456789abcdef")]
    Drain {
        /// Address or id of the node
        node: String,
        #[command(flatten)]
        operator: Operator,
    },
    /// Assign shards to a drained node again
    #[command(after_help = "\
Examples:
  driftq node undrain http://127.0.0.1:8081")]
    Undrain {
        /// Address or id of the node
        node: String,
        #[command(flatten)]
        operator: Operator,
    },
}

const COLUMNS: &[output::Column] = &[
    ("node", "node"),
    ("address", "address"),
    ("version", "version"),
    ("state", "state"),
    ("shards", "shards"),
    ("joined", "joined_at"),
];

impl Node {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let (client, format) = (remote.client()?, remote.output);
        let (node, operator, verb) = match self.verb {
            Verb::List => {
                output::list(format, &client.get("nodes", &[]).await?, "nodes", COLUMNS);
                return Ok(());
            }
            Verb::Drain { node, operator } => (node, operator, "drain"),
            Verb::Undrain { node, operator } => (node, operator, "undrain"),
        };
        let node = find(&client, &node).await?;
        let path = format!("nodes/{}/{verb}", segment(&node));
        let mut request_body = json!({});
        operator.add_to_body(&mut request_body);
        output::one(format, &client.post(&path, request_body).await?, COLUMNS);
        Ok(())
    }
}

/// Returns the id of the node with this address or id.
pub(crate) async fn find(client: &Client, named: &str) -> anyhow::Result<String> {
    let answer = client.get("nodes", &[]).await?;
    let nodes = answer["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_meant = |node: &&Value| {
        let is = |field: &str| node[field].as_str() == Some(named.trim_end_matches('/'));
        node["state"] != "gone" && (is("address") || is("node"))
    };
    let found: Vec<&str> =
        nodes.iter().filter(is_meant).filter_map(|node| node["node"].as_str()).collect();
    match found[..] {
        [one] => Ok(one.to_owned()),
        [] => {
            let message =
                format!("node {named} does not exist; list the nodes with: driftq node list");
            let body = json!({ "error": "NOT_FOUND", "message": message });
            Err(CliError::Refused { status: 404, body }.into())
        }
        _ => Err(CliError::Usage(format!(
            "{} nodes have the address {named}; use a node id",
            found.len()
        ))
        .into()),
    }
}
