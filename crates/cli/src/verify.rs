//! `driftq verify`: offline verification of an exported ledger.

mod ledger;

use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use crate::output::{self, Column, Format};
use ledger::{Chain, Ledger, Name};

/// Verify an export of the effect ledger offline
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq export --effects > effects.ndjson && driftq verify effects.ndjson
  driftq verify effects.ndjson -o json

Verifies that no line of the file was changed, removed or moved since the export, and that no effect
has two final outcomes. It cannot detect a ledger that was rewritten completely. To detect that,
store the columns `decisions` (number of the last record) and `tip` (its hash) of each chain where
an attacker cannot write. Check that later exports contain them.
Verification uses about 80 bytes of memory per effect.")]
pub(crate) struct Verify {
    /// File written by `driftq export --effects`
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
