//! `driftq verify`: an exported ledger, checked without asking a server.

mod ledger;

use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use crate::output::{self, Column, Format};
use ledger::{Chain, Ledger, Name};

/// Is an export whole, and did no effect have two outcomes? Needs no server
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq export --effects > effects.ndjson && driftq verify effects.ndjson
  driftq verify effects.ndjson -o json

It says that nothing in the file was changed, dropped or moved since it was written, and that no
effect had two accepted outcomes. It does not say who wrote it: keep the tip elsewhere, and look for
its number and hash in later exports. It takes about 80 bytes of memory for each effect.")]
pub(crate) struct Verify {
    /// What `driftq export --effects` wrote
    file: PathBuf,
}

const COLUMNS: &[Column] =
    &[("namespace", "namespace"), ("shard", "shard"), ("decisions", "seq"), ("tip", "hash")];

impl Verify {
    pub(crate) fn run(self, format: Format) -> anyhow::Result<()> {
        let shown = self.file.display();
        let file = std::fs::File::open(&self.file).with_context(|| shown.to_string())?;
        let ledger = ledger::check(BufReader::new(file)).with_context(|| shown.to_string())?;
        let Ledger { records, effects, chains, .. } = &ledger;
        let chains: Vec<_> = chains
            .iter()
            .map(|chain| {
                let Chain { name: Name { namespace, shard }, seq, hash } = chain;
                json!({ "namespace": namespace, "shard": shard, "seq": seq, "hash": hash.to_string() })
            })
            .collect();
        let answer = json!({ "decisions": records, "effects": effects.len(), "chains": chains });
        output::list(format, &answer, "chains", COLUMNS);
        let effects = effects.len();
        output::talk(format_args!(
            "ok: {records} decisions about {effects} effects, none with two accepted outcomes"
        ));
        Ok(())
    }
}
