//! `night DRIFTQ`: a scripted night on call. Failures are injected into real servers that a real
//! Prometheus watches with the alert rules of the repository.
//!
//! `docs/operating.md` has a section for each failure. For each:
//!
//! 1. Before the failure, its alert does not fire.
//! 2. The failure is injected, and the alert of the section fires.
//! 3. The command of the section is run. Its output is as the section shows it, and has the cause.
//! 4. The failure is repaired as the section says, and the alert ends.
//!
//! The server has a disk of its own, which requires root. The rules run faster, see [`rules`].
#![expect(clippy::print_stdout, reason = "command-line program")]

mod cluster;
mod disk;
mod effects;
mod page;
mod prometheus;
mod rig;
mod rules;
mod workers;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};

use crate::page::Page;
use crate::rig::Row;

const PAGE: &str = "docs/operating.md";
/// Failures that are injected at the same time, each into a server of its own.
const AT_ONCE: usize = 4;
/// Time limit of a failure and of the whole run.
const FAILURE_WITHIN: Duration = Duration::from_secs(180);
const RUN_WITHIN: Duration = Duration::from_secs(300);

/// What all failures share.
pub(crate) struct Night {
    driftq: String,
    page: Page,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let driftq = std::env::args().nth(1).context("usage: night DRIFTQ")?;
    let driftq = std::fs::canonicalize(&driftq).with_context(|| driftq)?.display().to_string();
    let page = Page::read(PAGE)?;
    let night = &Night { driftq, page };
    let began = Instant::now();
    // The longest first.
    let failures: Vec<(&str, LocalBoxFuture<'_, anyhow::Result<Vec<Row>>>)> = vec![
        ("a paused group", workers::paused_group(night).boxed_local()),
        ("a lost node, a database outage", cluster::run(night).boxed_local()),
        ("a slow consumer", workers::slow_consumer(night).boxed_local()),
        ("dead workers", workers::dead_workers(night).boxed_local()),
        ("a poison message", workers::poison_message(night).boxed_local()),
        ("a full partition", workers::full_partition(night).boxed_local()),
        ("effects in doubt", effects::in_doubt(night).boxed_local()),
        ("a full disk", disk::full(night).boxed_local()),
    ];
    let injected = futures_util::stream::iter(failures).map(async |(name, failure)| {
        let rows = tokio::time::timeout(FAILURE_WITHIN, failure).await;
        (name, rows.unwrap_or_else(|_| Err(anyhow::anyhow!("timed out"))))
    });
    let mut injected = injected.buffer_unordered(AT_ONCE);
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    while let Some((name, result)) = injected.next().await {
        match result {
            Ok(found) => rows.extend(found),
            Err(error) => errors.push(format!("{name}: {error:#}")),
        }
    }
    drop(injected);
    let took = began.elapsed();
    print_table(night, &rows);
    for error in &errors {
        println!("FAILED {error}");
    }
    let missing =
        night.page.headings().filter(|&heading| rows.iter().all(|row| row.failure != heading));
    let missing: Vec<&str> = missing.collect();
    let seconds = took.as_secs();
    println!(
        "night: {} of {} failures explained and alerted, {} alerts ended, {seconds} s",
        rows.len(),
        night.page.headings().count(),
        rows.iter().filter(|row| row.ended.is_some()).count(),
    );
    ensure!(errors.is_empty() && missing.is_empty(), "failures that were not found: {missing:?}");
    ensure!(took < RUN_WITHIN, "the run took too long");
    Ok(())
}

fn print_table(night: &Night, rows: &[Row]) {
    let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
    let head = ["failure", "command", "cause", "alert", "fired after s", "ended after s"];
    let mut table = vec![head.map(str::to_owned)];
    // In the order of the page.
    for heading in night.page.headings() {
        for row in rows.iter().filter(|row| row.failure == heading) {
            let Row { failure, command, cause, alert, fired, ended } = row;
            let ended = ended.map_or("-".to_owned(), seconds);
            table.push([
                failure.clone(),
                command.clone(),
                (*cause).to_owned(),
                alert.clone(),
                seconds(*fired),
                ended,
            ]);
        }
    }
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    for row in &table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
