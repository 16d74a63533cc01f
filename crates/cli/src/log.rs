//! The log of a server, on standard error: one event per line, as text or as JSON.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use driftq_api::Time;
use serde_json::json;

use crate::config::{Level, LogFormat};
use crate::escape::OneLine;

/// The format of the log, once there is one.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Logs DriftQ's events from `level` up, and warnings and errors of libraries. From now on, panics
/// are events too.
pub(crate) fn start(level: Level, format: LogFormat) {
    let (ours, theirs) = match level {
        Level::Error => ("error", "error"),
        Level::Warn => ("warn", "warn"),
        Level::Info => ("info", "warn"),
        Level::Debug => ("debug", "warn"),
        Level::Trace => ("trace", "warn"),
    };
    let filter = tracing_subscriber::EnvFilter::new(format!("{theirs},driftq={ours}"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| OneLine(std::io::stderr()))
        // Reporting a line that cannot be written would panic, for example on a full disk.
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    FORMAT.set(format).unwrap_or_else(|_| unreachable!("a process starts one server"));
    std::panic::set_hook(Box::new(log_panic));
}

/// Whether every line must be JSON.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// A line in the form of the JSON log, for standard output.
pub(crate) fn json_line(message: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    json!({ "timestamp": Time(now), "level": "INFO", "message": message }).to_string()
}

/// A panic is a bug. The default hook would write several lines that are not JSON.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("a panic without a text");
    let at = panic.location().map(tracing::field::display);
    let thread = std::thread::current();
    // Captured if RUST_BACKTRACE is set.
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| tracing::field::display(&backtrace));
    tracing::error!(thread = thread.name(), at, backtrace, "panic: {message}");
}
