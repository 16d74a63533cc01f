//! Bulk requests: each item stands alone, results are in the order of the request.

use driftq_api::message::Item;
use driftq_core::Rejection;
use driftq_core::command::Call;

use super::api_error::ApiError;
use super::app::{App, typed};

/// Sends all valid items at once and renders the result of each. An item carries what `show` needs beside
/// the reply.
pub(crate) async fn call_each<C: Call, X, T>(
    app: &App,
    items: Vec<Result<(C, X), ApiError>>,
    show: impl Fn(X, Result<C::Reply, Rejection>) -> Result<T, ApiError>,
) -> Vec<Item<T>> {
    let mut commands = Vec::with_capacity(items.len());
    let mut carried = Vec::with_capacity(items.len());
    for item in items {
        carried.push(item.map(|(call, carried)| {
            commands.push(call.into_command());
            carried
        }));
    }
    let mut answers = app.node.call_all(commands).await.into_iter();
    let mut answer = || answers.next().expect("one answer for each command");
    let shown = carried.into_iter().map(|item| {
        let shown = item.and_then(|carried| show(carried, typed::<C>(answer())?));
        if let Err(error) = &shown {
            app.refused(error);
        }
        to_item(shown)
    });
    shown.collect()
}

pub(crate) fn to_item<T>(shown: Result<T, ApiError>) -> Item<T> {
    match shown {
        Ok(done) => Item::Done(done),
        Err(ApiError(error)) => Item::Error(*error),
    }
}

/// How many of the results are of that kind.
pub(crate) fn count<T>(results: &[Item<T>], is_meant: impl Fn(&T) -> bool) -> usize {
    let is_done = |item: &&Item<T>| match item {
        Item::Done(done) => is_meant(done),
        Item::Error(_) => false,
    };
    results.iter().filter(is_done).count()
}
