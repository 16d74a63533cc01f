//! The cost of HTTP and JSON without a queue: parses a produce as the server does and stores
//! nothing.

use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use driftq_api::message::{Produce, Receipt};
use driftq_api::words::ProducedStatus;
use tokio::net::TcpListener;

pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // As in the server. A failure only costs latency.
        let _slower = stream.set_nodelay(true);
    });
    axum::serve(listener, Router::new().route("/v1/produce", post(produce))).await?;
    Ok(())
}

async fn produce(Json(produce): Json<Produce>) -> Json<Receipt> {
    Json(Receipt {
        status: ProducedStatus::Produced,
        partition: 0,
        // Uses every field that was parsed, so that nothing is optimised away.
        offset: produce.value.map_or(0, |value| value.len() as u64),
        id: produce.key.unwrap_or_default(),
        topic: produce.topic,
        final_topic: None,
        deduplicated: false,
    })
}
