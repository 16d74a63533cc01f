//! The middleware, around handlers that count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use driftq_ledger::OnDoubt;
use driftq_ledger::axum::{Ledger, idempotent};
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

use crate::database::{connect, database};

/// A service whose handler answers with `replies`, one after the other, and counts.
async fn service(replies: Vec<fn(u32) -> Response>) -> (Router, Arc<AtomicU32>) {
    let client = connect(&database().await).await;
    let ledger = Ledger::new(client, OnDoubt::Park, |parts| {
        Some(parts.headers.get("customer")?.to_str().ok()?.to_owned())
    });
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let handle = move || {
        let calls = counted.clone();
        let replies = replies.clone();
        async move {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
            replies[usize::try_from(call).expect("few calls").min(replies.len() - 1)](call)
        }
    };
    let routes = Router::new().route("/charges", post(handle));
    (routes.layer(from_fn_with_state(ledger, idempotent)), calls)
}

fn charged(call: u32) -> Response {
    (StatusCode::CREATED, [("location", "/charges/1")], format!("charge {call}")).into_response()
}

async fn charge(service: &Router, key: &str, body: &'static str) -> Response {
    let request = Request::post("/charges").header("customer", "cust-9");
    let request = request.header("idempotency-key", key).body(Body::from(body)).expect("valid");
    service.clone().oneshot(request).await.expect("it cannot fail")
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test]
async fn the_first_response_is_replayed() {
    let (service, calls) = service(vec![charged]).await;
    for replay in [None, Some("true")] {
        let response = charge(&service, "k", "12").await;
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(response.headers()["location"], "/charges/1");
        let is = response.headers().get("idempotent-replay").map(|is| is.to_str().expect("text"));
        assert_eq!(is, replay);
        assert_eq!(text(response).await, "charge 0");
    }
    assert_eq!(charge(&service, "k", "13").await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(text(charge(&service, "other", "12").await).await, "charge 1");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn of_requests_at_the_same_time_one_is_handled() {
    let (service, calls) = service(vec![charged]).await;
    let requests = (0..8).map(|_| {
        let service = service.clone();
        tokio::spawn(async move { charge(&service, "k", "12").await.status() })
    });
    let mut created = 0;
    for request in requests.collect::<Vec<_>>() {
        match request.await.expect("no panic") {
            StatusCode::CREATED => created += 1,
            status => assert_eq!(status, StatusCode::CONFLICT),
        }
    }
    assert_eq!((created, calls.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn a_response_says_whether_the_request_happened() {
    let declined = |_| StatusCode::PAYMENT_REQUIRED.into_response();
    let (service_, calls) = service(vec![declined]).await;
    for _ in 0..2 {
        assert_eq!(charge(&service_, "k", "").await.status(), StatusCode::PAYMENT_REQUIRED);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1, "declined for good");

    let (service_, _) =
        service(vec![|_| StatusCode::TOO_MANY_REQUESTS.into_response(), charged]).await;
    assert_eq!(charge(&service_, "k", "").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(charge(&service_, "k", "").await.status(), StatusCode::CREATED, "handled again");

    let (service_, calls) =
        service(vec![|_| StatusCode::BAD_GATEWAY.into_response(), charged]).await;
    assert_eq!(charge(&service_, "k", "").await.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(
        charge(&service_, "k", "").await.status(),
        StatusCode::CONFLICT,
        "a person finds out"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_that_disconnects_finds_the_response_later() {
    let (service, calls) = service(vec![charged]).await;
    let gone = tokio::time::timeout(Duration::from_millis(30), charge(&service, "k", "")).await;
    assert!(gone.is_err());
    let mut response = charge(&service, "k", "").await;
    while response.status() == StatusCode::CONFLICT {
        tokio::time::sleep(Duration::from_millis(20)).await;
        response = charge(&service, "k", "").await;
    }
    assert_eq!(text(response).await, "charge 0");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_trailers_of_grpc_are_replayed() {
    let (service, calls) = service(vec![|_| {
        let trailers = HeaderMap::from_iter([(
            "grpc-status".parse().expect("a name"),
            "0".parse().expect("a value"),
        )]);
        let body = Full::new(Bytes::from_static(b"\0\0\0\0\x02ok"))
            .with_trailers(async { Some(Ok(trailers)) });
        ([("content-type", "application/grpc")], Body::new(body)).into_response()
    }])
    .await;
    for _ in 0..2 {
        let collected =
            charge(&service, "k", "").await.into_body().collect().await.expect("a body");
        assert_eq!(collected.trailers().expect("trailers")["grpc-status"], "0");
        assert_eq!(&collected.to_bytes()[..], b"\0\0\0\0\x02ok");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_without_a_principal_is_rejected() {
    let (service, calls) = service(vec![charged]).await;
    let request = Request::post("/charges").header("idempotency-key", "k").body(Body::empty());
    let response = service.oneshot(request.expect("valid")).await.expect("it cannot fail");
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}
