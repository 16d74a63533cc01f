//! What held, and what to change in the worker.

use serde_json::{Value, json};

use super::checks::Check;
use crate::escape::escaped_lines;
use crate::output::{self, Format};

/// The result of one check.
pub(super) enum Verdict {
    Held,
    Failed {
        observed: String,
        /// The last lines that the worker has written.
        lines: Vec<String>,
    },
    NotRun(String),
}

pub(super) struct Report {
    format: Format,
    items: Vec<Value>,
    held: usize,
    failed: usize,
    not_run: usize,
}

impl Report {
    pub(super) fn new(format: Format) -> Report {
        Report { format, items: Vec::new(), held: 0, failed: 0, not_run: 0 }
    }

    pub(super) fn add(&mut self, check: Check, verdict: Verdict) {
        let (name, fault) = (check.name(), check.fault());
        let (item, text) = match verdict {
            Verdict::Held => {
                self.held += 1;
                let item = json!({ "check": name, "result": "ok", "fault": fault });
                (item, format!("ok       {name}"))
            }
            Verdict::NotRun(why) => {
                self.not_run += 1;
                let item =
                    json!({ "check": name, "result": "not_run", "fault": fault, "reason": why });
                (item, format!("not run  {name}: {why}"))
            }
            Verdict::Failed { observed, lines } => {
                self.failed += 1;
                let change = check.advice();
                let item = json!({ "check": name, "result": "failed", "fault": fault,
                    "observed": observed, "change": change, "output": lines });
                let mut text = format!(
                    "FAILED   {name}\n  fault     {fault}\n  observed  {observed}\n  change    {change}"
                );
                for line in lines {
                    text += &format!("\n  worker    {line}");
                }
                (item, text)
            }
        };
        match self.format {
            Format::Table => output::line(escaped_lines(&text)),
            Format::Ndjson => output::line(&item),
            Format::Json => {}
        }
        self.items.push(item);
    }

    /// Prints the totals. Fails if a check failed, or if none was run.
    pub(super) fn end(self) -> anyhow::Result<()> {
        let Report { format, items, held, failed, not_run } = self;
        match format {
            Format::Table => {
                output::line(format_args!("{held} ok, {failed} failed, {not_run} not run"));
            }
            Format::Ndjson => {}
            Format::Json => {
                let all = json!({ "checks": items, "ok": held, "failed": failed,
                    "not_run": not_run });
                output::line(format_args!("{all:#}"));
            }
        }
        anyhow::ensure!(failed == 0, "the worker failed {failed} of {} checks", items.len());
        anyhow::ensure!(held > 0, "no check was run");
        Ok(())
    }
}
