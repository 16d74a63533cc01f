//! What the scenarios of `sdks/scenarios` do not show of the worker.

use std::time::{Duration, Instant};

use driftq_client::{Context, Fail, Next, Worker, WorkerError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

use crate::broker;

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ignores_its_cancellation_is_named_and_keeps_its_message() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let handle = move |_: Order, _: Context| {
        let started = started.clone();
        async move {
            started.send(()).expect("the test waits");
            std::thread::sleep(Duration::from_secs(6));
            Ok(())
        }
    };
    let worker = Worker::new(broker.client().clone()).handler("orders", "biller", handle);
    let worker = worker.shutdown_timeout(Duration::from_millis(100));
    let ended = worker.run(async { starts.recv().await.expect("it starts") }).await;
    let Err(WorkerError::Stuck(stuck)) = ended else { panic!("{ended:?}") };
    assert!(stuck[0].ends_with("of orders/biller, attempt 1"), "{stuck:?}");
    let group = broker::get(broker.client(), "topics/orders/groups/biller").await;
    assert_eq!(group["leased"], 1, "it may still act");
}

#[tokio::test]
async fn a_worker_handles_several_topics_and_values_that_are_not_json() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let forward =
        async |order: Order, ctx: Context| ctx.commit().produce("receipts", &order)?.send().await;
    let (said, seen) = std::sync::mpsc::channel();
    let print = move |ctx: Context| {
        let said = said.clone();
        async move {
            said.send(ctx.delivery().value().map_err(Fail::reject)?).expect("the test listens");
            Ok(())
        }
    };
    let worker = Worker::new(broker.client().clone());
    let worker = worker.handler("orders", "biller", forward).raw_handler("receipts", "p", print);
    broker.settle(worker).await.expect("every message is settled");
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen, [&br#"{"id":"1"}"#[..]]);
}

#[tokio::test]
async fn middleware_runs_around_the_handler() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let (said, seen) = std::sync::mpsc::channel();
    let around = |name: &'static str| {
        let said = said.clone();
        move |ctx: Context, next: Next| {
            let said = said.clone();
            async move {
                said.send(format!("{name} before")).expect("the test listens");
                let result = next.run(ctx).await;
                said.send(format!("{name} after")).expect("the test listens");
                result
            }
        }
    };
    let handle = async |_: Order, _: Context| Ok(());
    let worker = Worker::new(broker.client().clone()).handler("orders", "biller", handle);
    let worker = worker.middleware(around("outer")).middleware(around("inner"));
    broker.settle(worker).await.expect("every message is settled");
    let said: Vec<String> = seen.try_iter().collect();
    assert_eq!(said, ["outer before", "inner before", "inner after", "outer after"]);
}

#[tokio::test]
async fn a_retry_after_hours_takes_no_time_on_the_test_clock() {
    let broker = broker::start().await;
    broker::produce(&broker, json!({ "id": "1" })).await;
    let handle = async |_: Order, ctx: Context| {
        if ctx.delivery().attempts < 4 {
            return Err(Fail::retry_after(Duration::from_secs(3 * 3_600), "closed"));
        }
        Ok(())
    };
    let worker = Worker::new(broker.client().clone()).handler("orders", "biller", handle);
    let began = Instant::now();
    broker.settle(worker).await.expect("every message is settled");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(broker.dead_letters("orders").await.expect("a list").len(), 0);
}
