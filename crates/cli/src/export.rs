//! `driftq export`.

use blake3::Hasher;
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{Client, Remote};
use crate::{ledger_file, output};

/// Export all accepted decisions on effects, for `driftq verify`
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq export --effects > effects.ndjson && driftq verify effects.ndjson")]
pub(crate) struct Export {
    /// Export the effect ledger: begins, finishes and resolutions
    #[arg(long, required = true)]
    effects: bool,
}

#[derive(Deserialize)]
struct Chains {
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
struct Chain {
    namespace: String,
    shard: u32,
    seq: u64,
    hash: String,
}

#[derive(Deserialize)]
struct Records {
    records: Vec<Link>,
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Link {
    record: Box<RawValue>,
    hash: String,
}

/// Hash and number of records of the lines written so far.
#[derive(Default)]
struct Written {
    all: Hasher,
    records: u64,
}

impl Written {
    fn line(&mut self, line: &str) {
        self.all.update(line.as_bytes()).update(b"\n");
        output::line(line);
    }

    /// Writes a chain up to its tip at the start of the export. A missing record is not replaced:
    /// `verify` reports it.
    async fn chain(&mut self, client: &Client, chain: &Chain) -> anyhow::Result<()> {
        let Chain { namespace, shard, seq, hash } = chain;
        self.line(&ledger_file::chain(&ledger_file::name(namespace, *shard)));
        let mut from = Some(1);
        while let Some(first) = from {
            let query = [
                ("shard", shard.to_string()),
                ("from", first.to_string()),
                ("to", seq.to_string()),
            ];
            let page: Records = client.read("audit/records", &query).await?;
            for Link { record, hash } in &page.records {
                self.line(&ledger_file::record(record.get(), hash));
            }
            self.records += page.records.len() as u64;
            from = page.next;
        }
        self.line(&ledger_file::end(*seq, hash));
        Ok(())
    }
}

impl Export {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        let Chains { chains } = client.read("audit", &[]).await?;
        let mut written = Written::default();
        written.line(ledger_file::HEAD);
        for chain in &chains {
            written.chain(&client, chain).await?;
        }
        let Written { all, records } = written;
        output::line(ledger_file::last(chains.len(), records, &all));
        output::talk(format_args!("exported {records} decisions"));
        Ok(())
    }
}
