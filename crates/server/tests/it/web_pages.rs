//! Requests that a browser sends for a web page are rejected unless the origin of the page is
//! allowed. Allowed origins get CORS headers.

use serde_json::json;

use crate::broker::Broker;
use crate::client::Answer;

const OURS: &str = "https://console.example";

async fn with_origin() -> Broker {
    Broker::with(|config| config.allowed_origins = vec![OURS.to_owned()]).await
}

/// The names of the CORS headers of a response.
fn cors(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.keys().map(|name| name.as_str());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

#[tokio::test]
async fn a_cross_site_request_without_an_origin_leases_nothing() {
    let broker = Broker::start().await;
    broker.topic("t").await;
    broker.produce("t", "x").await;
    // As Chromium sends it for an `<img>`.
    for site in ["cross-site", "same-site", "unheard-of", ""] {
        let consume = broker.ask("GET", "/v1/consume?topic=t&group=g&owner=o");
        let answer = consume.header("sec-fetch-site", site).send().await;
        answer.refused(403, "PERMISSION_DENIED");
        assert_eq!(cors(&answer), [""; 0]);
    }
    broker.get("/v1/topics/t/groups/g").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn every_route_rejects_cross_site_requests() {
    let broker = Broker::start().await;
    let routes = [
        ("GET", "/v1/healthz"),
        ("GET", "/v1/readyz"),
        ("GET", "/metrics"),
        ("GET", "/v1/topics"),
        ("POST", "/v1/topics?name=n"),
        ("DELETE", "/v1/topics/t?confirm=t"),
        ("OPTIONS", "/v1/topics"),
        ("POST", "/internal/v1/call"),
        ("GET", "/nowhere"),
    ];
    for (method, path) in routes {
        let ask = broker.ask(method, path).header("sec-fetch-site", "cross-site");
        ask.send().await.refused(403, "PERMISSION_DENIED");
    }
    assert_eq!(broker.get("/v1/topics").await.is(200), json!({ "topics": [] }));
}

#[tokio::test]
async fn one_cross_site_value_among_several_is_rejected() {
    let broker = Broker::start().await;
    for sites in [["none", "cross-site"], ["cross-site", "none"]] {
        let ask = broker.ask("GET", "/v1/topics").header("sec-fetch-site", sites[0]);
        ask.header("sec-fetch-site", sites[1]).send().await.refused(403, "PERMISSION_DENIED");
    }
}

#[tokio::test]
async fn sec_fetch_site_can_only_reject_a_request() {
    let broker = with_origin().await;
    for site in ["none", "same-origin"] {
        broker.ask("GET", "/v1/topics").header("sec-fetch-site", site).send().await.is(200);
        let ask = broker.ask("GET", "/v1/topics").header("sec-fetch-site", site);
        let ask = ask.header("origin", "https://other.example");
        ask.send().await.refused(403, "PERMISSION_DENIED");
        let ask = broker.ask("GET", "/v1/topics").header("sec-fetch-site", site);
        ask.header("host", "evil.example").send().await.refused(403, "PERMISSION_DENIED");
    }
    // An allowed page sends its origin. A request without one may come from any page.
    let ask = broker.ask("GET", "/v1/topics").header("sec-fetch-site", "cross-site");
    ask.send().await.refused(403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn an_allowed_origin_may_read_responses_and_errors() {
    let broker = with_origin().await;
    for (path, status) in [("/v1/topics", 200), ("/v1/topics/none", 404), ("/nowhere", 404)] {
        let ask = broker.ask("GET", path).header("origin", OURS);
        let answer = ask.header("sec-fetch-site", "cross-site").send().await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), OURS);
        assert_eq!(answer.header("access-control-expose-headers"), "retry-after, x-request-id");
        assert_eq!(answer.header("access-control-allow-credentials"), "");
        assert_eq!(answer.header("vary"), "origin");
    }
}

#[tokio::test]
async fn other_origins_may_read_nothing() {
    let broker = with_origin().await;
    for origin in ["https://other.example", "null", "https://console.example:444"] {
        let answer = broker.ask("GET", "/v1/topics").header("origin", origin).send().await;
        answer.refused(403, "PERMISSION_DENIED");
        assert_eq!(cors(&answer), [""; 0]);
        // The response depends on the origin, so caches must vary by it.
        assert_eq!(answer.header("vary"), "origin");
    }
    let answer = broker.get("/v1/topics").await;
    assert_eq!((cors(&answer), answer.header("vary")), (vec![], "origin"));
    let answer = Broker::start().await.get("/v1/topics").await;
    assert_eq!((cors(&answer), answer.header("vary")), (vec![], ""));
}

#[tokio::test]
async fn the_preflight_of_an_allowed_origin_needs_no_api_key() {
    let broker = Broker::with(|config| {
        config.allowed_origins = vec![OURS.to_owned()];
        config.api_key = Some("secret".to_owned().into());
    })
    .await;
    let preflight = |origin: &'static str| {
        let ask = broker.ask("OPTIONS", "/v1/topics/t").header("origin", origin);
        let ask = ask.header("access-control-request-method", "DELETE");
        ask.header("access-control-request-headers", "authorization").send()
    };
    let answer = preflight(OURS).await;
    assert_eq!(answer.is(204), json!(null));
    assert_eq!(answer.header("access-control-allow-origin"), OURS);
    assert_eq!(answer.header("access-control-allow-methods"), "GET, POST, PUT, PATCH, DELETE");
    let headers = answer.header("access-control-allow-headers");
    for name in ["authorization", "content-type", "idempotency-key", "traceparent"] {
        assert!(headers.split(", ").any(|header| header == name), "{name} in {headers}");
    }
    assert_eq!(answer.header("access-control-max-age"), "600");
    assert_eq!(answer.header("vary"), "origin");
    let answer = preflight("https://other.example").await;
    answer.refused(403, "PERMISSION_DENIED");
    assert_eq!(cors(&answer), [""; 0]);

    // The request itself needs the key, and the page may read the error.
    let answer = broker.ask("DELETE", "/v1/topics/t").header("origin", OURS).send().await;
    answer.refused(401, "UNAUTHENTICATED");
    assert_eq!(answer.header("access-control-allow-origin"), OURS);
    let ask = broker.ask("GET", "/v1/topics").header("origin", OURS);
    ask.header("authorization", "Bearer secret").send().await.is(200);
}

#[tokio::test]
async fn an_options_request_without_an_origin_is_not_a_preflight() {
    let broker = with_origin().await;
    broker.ask("OPTIONS", "/v1/topics").send().await.refused(405, "METHOD_NOT_ALLOWED");
    let ask = broker.ask("OPTIONS", "/v1/topics").header("origin", OURS);
    ask.send().await.refused(405, "METHOD_NOT_ALLOWED");
    let ask = broker.ask("OPTIONS", "/v1/topics").header("access-control-request-method", "GET");
    ask.send().await.refused(405, "METHOD_NOT_ALLOWED");
    // A request to a rebound host name is not a preflight either.
    let ask = broker.ask("OPTIONS", "/v1/topics").header("origin", OURS);
    let ask = ask.header("access-control-request-method", "GET").header("host", "evil.example");
    ask.send().await.refused(403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn beyond_loopback_only_allowed_host_names_are_accepted() {
    let all = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let open = |names: &'static [&'static str]| {
        Broker::with(move |config| {
            (config.listen, config.insecure) = (all, true);
            config.advertise = Some("http://localhost:1".to_owned());
            config.allowed_hosts = names.iter().map(|name| (*name).to_owned()).collect();
        })
    };
    let broker = open(&["queue.internal"]).await;
    // A page cannot rebind an IP address, and health checks use it.
    for host in ["queue.internal", "queue.internal:8080", "localhost", "10.0.0.1:80", "[fd00::1]"] {
        broker.ask("GET", "/v1/topics").header("host", host).send().await.is(200);
    }
    for host in ["evil.example", "queue.internal.evil.example", "[::1]evil"] {
        let answer = broker.ask("GET", "/v1/topics").header("host", host).send().await;
        answer.refused(403, "PERMISSION_DENIED");
    }
    let broker = open(&[]).await;
    broker.ask("GET", "/v1/topics").header("host", "any.example").send().await.is(200);
}
