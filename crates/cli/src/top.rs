//! `driftq top`: the busiest or latest groups, live.

use std::time::Duration;

use clap::{Args, ValueEnum};
use console::{Key, Term, truncate_str};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli_error::CliError;
use crate::client::Remote;
use crate::duration::duration;
use crate::output;
use crate::status::{GROUPS, groups, totals, with_ages};

/// Watch the groups live, the oldest backlog first
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq top
  driftq top --sort acked --interval 10s

Keys: o oldest, b backlog, d delivered, a acked, f failed, n name, q quit")]
pub(crate) struct Top {
    /// Order of the groups
    #[arg(long, value_enum, default_value = "oldest")]
    sort: Order,
    /// Time between two refreshes, between 1s and 1h; a number without a unit is in seconds
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval, allow_hyphen_values = true)]
    interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Oldest unsettled message first
    Oldest,
    /// Largest backlog first
    Backlog,
    /// Most deliveries per second first
    Delivered,
    /// Most acks per second first
    Acked,
    /// Most failures per second first
    Failed,
    /// By topic and name
    Name,
}

impl Order {
    fn of(key: char) -> Option<Order> {
        Some(match key {
            'o' => Order::Oldest,
            'b' => Order::Backlog,
            'd' => Order::Delivered,
            'a' => Order::Acked,
            'f' => Order::Failed,
            'n' => Order::Name,
            _ => return None,
        })
    }
}

/// Parses the time between two refreshes.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = text.parse().map(Duration::from_secs).or_else(|_| duration(text));
    let is_valid = |at: &Duration| (1_000..=3_600_000).contains(&at.as_millis());
    let interval = interval.ok().filter(is_valid);
    interval.ok_or_else(|| "must be between 1s and 1h, such as 2s or 5m".to_owned())
}

impl Top {
    pub(crate) async fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let client = remote.client()?;
        let term = Term::stdout();
        if !term.is_term() {
            let message = "top needs a terminal; for a single report use: driftq status";
            return Err(CliError::Usage(message.to_owned()).into());
        }
        let mut keys = read_keys(term.clone());
        let mut order = self.sort;
        loop {
            let overview = client.get("overview", &[]).await?.into_value();
            let name = order.to_possible_value().map(|value| value.get_name().to_owned());
            let name = name.unwrap_or_default();
            let limit = u32::from(term.size().0.max(1));
            let listed = groups(&client, &name, limit).await?;
            show(&term, &overview, &listed, &name)?;
            let pause = tokio::time::sleep(self.interval);
            tokio::select! {
                key = keys.recv() => match key {
                    None | Some(Key::Char('q') | Key::Escape | Key::CtrlC) => return Ok(()),
                    Some(Key::Char(key)) => order = Order::of(key).unwrap_or(order),
                    Some(_) => {}
                },
                () = pause => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    }
}

/// Reads keys on a thread of its own, which ends with the process.
fn read_keys(term: Term) -> mpsc::UnboundedReceiver<Key> {
    let (send, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(key) = term.read_key() {
            if send.send(key).is_err() {
                return;
            }
        }
    });
    keys
}

fn show(term: &Term, overview: &Value, listed: &Value, order: &str) -> anyhow::Result<()> {
    let mut lines = totals(overview);
    let attention = overview["attention"].as_array().map_or(0, Vec::len);
    if attention > 0 {
        lines.push(format!("needs attention: {attention}; see: driftq status"));
    }
    lines.push(format!("sorted by {order}; keys: o b d a f n, q to quit"));
    lines.push(String::new());
    let table = with_ages(json!({ "overview": overview, "groups": listed["groups"] }));
    lines.extend(output::table(&table, "groups", GROUPS).lines().map(str::to_owned));
    // What does not fit is cut off, so that the screen never scrolls.
    let (rows, columns) = term.size();
    let cut = lines.iter().take(rows.into());
    let cut: Vec<_> = cut.map(|line| truncate_str(line, columns.into(), "")).collect();
    // In one write, so that it does not flicker.
    term.write_str(&format!("\x1b[2J\x1b[H{}", cut.join("\r\n")))?;
    Ok(())
}
