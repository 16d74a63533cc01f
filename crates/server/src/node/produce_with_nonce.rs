//! Sends a produce request with a nonce to the shards of its messages.

use std::collections::BTreeMap;

use driftq_core::command::{Produce, ProduceWithNonce};
use driftq_core::{Command, CommandResult, Reply, Text};

use super::{CallError, Node};

impl Node {
    /// Stores the messages of a request that may be sent again. Returns one answer for each.
    pub(crate) async fn produce_with_nonce(
        &self,
        nonce: &Text,
        messages: Vec<Produce>,
    ) -> Vec<Result<CommandResult, CallError>> {
        let parts = ProduceWithNonce::parts(nonce, (0..).zip(messages).collect(), self.shards());
        let places: Vec<Vec<u32>> = parts.iter().map(|part| part.places.clone()).collect();
        let commands = parts.into_iter().map(|part| Command::ProduceWithNonce(Box::new(part)));
        let answers = self.call_all(commands.collect()).await;
        let mut by_place = BTreeMap::new();
        for (places, answered) in places.into_iter().zip(answers) {
            let of_each = of_each(answered, places.len());
            by_place.extend(places.into_iter().zip(of_each));
        }
        // A message for another shard comes back as a part of its own.
        let answers = self.follow_redirects(by_place.into_values().collect()).await;
        answers.into_iter().flat_map(|answered| of_each(answered, 1)).collect()
    }
}

/// Returns the answer for each message of a part.
fn of_each(
    answered: Result<CommandResult, CallError>,
    count: usize,
) -> Vec<Result<CommandResult, CallError>> {
    match answered {
        Ok(Ok(Reply::Each(results))) => results.into_iter().map(Ok).collect(),
        answered => vec![answered; count],
    }
}
