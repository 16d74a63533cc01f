//! Bulk requests. Each item succeeds or fails on its own, and results are in the order of the
//! request.

use driftq_api::message::Item;
use driftq_core::command::Call;
use driftq_core::{CallError, CommandResult, Rejection};

use super::api_error::ApiError;
use super::app::{App, typed};

/// Sends all valid items at once and renders the result of each. An item carries the data that
/// `show` needs in addition to the reply.
pub(crate) async fn call_each<C: Call, X, T>(
    app: &App,
    items: Vec<Result<(C, X), ApiError>>,
    show: impl Fn(X, Result<C::Reply, Rejection>) -> Result<T, ApiError>,
) -> Vec<Item<T>> {
    let send = async |calls: Vec<C>| {
        app.node.call_all(calls.into_iter().map(Call::into_command).collect()).await
    };
    send_each(app, items, send, show).await
}

/// Like [`call_each`], with `send`, which returns one answer for each item.
pub(crate) async fn send_each<C: Call, X, T>(
    app: &App,
    items: Vec<Result<(C, X), ApiError>>,
    send: impl AsyncFnOnce(Vec<C>) -> Vec<Result<CommandResult, CallError>>,
    show: impl Fn(X, Result<C::Reply, Rejection>) -> Result<T, ApiError>,
) -> Vec<Item<T>> {
    let mut calls = Vec::with_capacity(items.len());
    let mut carried = Vec::with_capacity(items.len());
    for item in items {
        carried.push(item.map(|(call, carried)| {
            calls.push(call);
            carried
        }));
    }
    let mut answers = send(calls).await.into_iter();
    let mut answer = || answers.next().expect("one answer for each call");
    let result = carried.into_iter().map(|item| {
        let result = item.and_then(|carried| show(carried, typed::<C>(answer())?));
        if let Err(error) = &result {
            app.refused(error);
        }
        to_item(result)
    });
    result.collect()
}

pub(crate) fn to_item<T>(result: Result<T, ApiError>) -> Item<T> {
    match result {
        Ok(done) => Item::Done(done),
        Err(ApiError(error)) => Item::Error(*error),
    }
}

/// Counts the successful results for which `is_meant` is true.
pub(crate) fn count<T>(results: &[Item<T>], is_meant: impl Fn(&T) -> bool) -> usize {
    let is_done = |item: &&Item<T>| match item {
        Item::Done(done) => is_meant(done),
        Item::Error(_) => false,
    };
    results.iter().filter(is_done).count()
}
