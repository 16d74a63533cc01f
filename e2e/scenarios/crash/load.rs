//! A constant load, from its first message to the checker's verdict.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use driftq_checker::Report;
use driftq_checker::history::{Event, What};
use tokio::task::JoinHandle;

use crate::clients::{Client, GROUPS, TOPIC, consume, mostly_ack, produce};
use crate::history::{History, Tally, tally};

const PRODUCERS: u32 = 8;
const CONSUMERS: usize = 8;

/// Running producers and consumers.
pub(crate) struct Load {
    pub(crate) client: Client,
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// The result of a run.
pub(crate) struct Verdict {
    pub(crate) report: Report,
    pub(crate) tally: Tally,
    pub(crate) events: Vec<Event>,
}

impl Load {
    /// Creates topic and groups, and starts the clients.
    pub(crate) async fn start(url: String) -> anyhow::Result<Load> {
        let client = Client::new(url, Arc::new(History::default()));
        client.set_up().await?;
        let mut load = Load::of(client);
        load.produce(PRODUCERS);
        load.consume();
        Ok(load)
    }

    /// Creates a load without clients.
    pub(crate) fn of(client: Client) -> Load {
        Load { client, tasks: Vec::new() }
    }

    pub(crate) fn produce(&mut self, producers: u32) {
        for number in 0..producers {
            self.tasks.push(tokio::spawn(produce(self.client.of(number))));
        }
    }

    pub(crate) fn consume(&mut self) {
        for (number, group) in (PRODUCERS..).zip(GROUPS.iter().cycle().take(CONSUMERS)) {
            self.tasks.push(tokio::spawn(consume(
                self.client.of(number),
                TOPIC,
                group,
                mostly_ack,
            )));
        }
    }

    /// Records in the history that a fault is about to happen.
    pub(crate) fn fault(&self, fault: &str) {
        let what = What::Fault { fault: fault.into(), point: "anywhere".into() };
        self.client.history.push(u32::MAX, what);
    }

    /// Stops producing, waits until everything is settled, and runs the checker on what the clients
    /// saw.
    pub(crate) async fn finish(self) -> anyhow::Result<Verdict> {
        let Load { client, tasks } = self;
        client.history.push(u32::MAX, What::Healed);
        client.stopped.store(true, Ordering::Relaxed);
        client.drained().await?;
        client.ended.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await??;
        }
        client.dead_letters().await?;
        client.history.push(u32::MAX, What::Ended);
        let events = client.history.take();
        Ok(Verdict { report: driftq_checker::check(&events), tally: tally(&events), events })
    }
}
