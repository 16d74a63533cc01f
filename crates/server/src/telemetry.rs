//! Where the parts of a server report what happens.

use std::sync::Arc;

use crate::metrics::Metrics;
use crate::outage_log::OutageLog;
use crate::ownership_log::OwnershipLog;
use crate::traces::Traces;

/// The metrics of a server, its traces, and the parts of its log that span several events.
#[derive(Clone)]
pub(crate) struct Telemetry {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) outages: Arc<OutageLog>,
    pub(crate) ownership: Arc<OwnershipLog>,
    pub(crate) traces: Arc<Traces>,
}

impl Telemetry {
    /// For a server on a storage engine, by its name.
    pub(crate) fn new(engine: &str, traces: Traces) -> Telemetry {
        Telemetry {
            metrics: Arc::default(),
            outages: Arc::new(OutageLog::new(engine)),
            ownership: Arc::default(),
            traces: Arc::new(traces),
        }
    }

    /// Writes the log lines that wait for the end of something.
    pub(crate) async fn run(self) {
        tokio::join!(self.outages.run(), self.ownership.run());
    }
}
