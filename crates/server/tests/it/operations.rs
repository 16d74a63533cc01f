//! Administration of nodes and shards.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::acts::{acts, words};
use crate::broker::Broker;
use crate::client::Client;
use crate::verbs::{fields, time, token};

const SHARDS: u32 = 8;

async fn list(node: &Client, what: &str) -> Vec<Value> {
    let listed = node.get(format!("/v1/{what}")).await.is(200);
    listed[what].as_array().expect("a list").clone()
}

/// The node in its own list.
async fn shown(node: &Client) -> Value {
    let nodes = list(node, "nodes").await;
    nodes.into_iter().find(|node| node["here"] == true).expect("a node lists itself")
}

/// Number of shards per address.
async fn loads(node: &Client) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    for shard in list(node, "shards").await.iter().filter(|shard| shard["state"] == "held") {
        let address = shard["address"].as_str().expect("an address").to_owned();
        *loads.entry(address).or_default() += 1;
    }
    loads
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

fn address(node: &Client) -> String {
    format!("http://{}", node.address())
}

/// Two nodes with an equal number of shards.
async fn two() -> [Broker; 2] {
    let nodes = Broker::nodes::<2>(SHARDS).await;
    until("an even spread", async || {
        loads(&nodes[0]).await.values().copied().collect::<Vec<_>>() == [4, 4]
    })
    .await;
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_lists_all_nodes_and_shards() {
    let [one, two] = two().await;
    for (asked, other) in [(&one, &two), (&two, &one)] {
        let here = shown(asked).await;
        assert_eq!(
            fields(&here),
            [
                "address",
                "here",
                "joined_at",
                "lease_until",
                "node",
                "renewed_at",
                "shards",
                "state",
                "version"
            ]
        );
        assert_eq!((&here["state"], &here["shards"]), (&json!("active"), &json!(4)));
        assert_eq!(here["address"], address(asked));
        assert!(time(&here["joined_at"]) <= time(&here["renewed_at"]), "{here}");
        assert!(time(&here["renewed_at"]) < time(&here["lease_until"]), "{here}");
        let addresses: Vec<Value> =
            list(asked, "nodes").await.iter().map(|node| node["address"].clone()).collect();
        let mut expected = [address(asked), address(other)];
        expected.sort();
        assert_eq!(addresses, expected);
    }
    one.topic("t").await;
    one.produce("t", "x").await;
    let shards = list(&two, "shards").await;
    assert_eq!(shards.len(), SHARDS as usize);
    for (number, shard) in shards.iter().enumerate() {
        assert_eq!(fields(shard), ["address", "batch", "epoch", "node", "shard", "since", "state"]);
        assert_eq!((&shard["shard"], &shard["state"]), (&json!(number), &json!("held")));
        assert!(time(&shard["since"]) > 0 && shard["epoch"].as_u64() > Some(0), "{shard}");
    }
    assert!(shards.iter().any(|shard| shard["batch"].as_u64() > Some(0)), "{shards:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_serves_no_shards_and_still_answers() {
    let [one, two] = two().await;
    one.topic("t").await;
    one.produce("t", "x").await;
    let held = two.receive("t", "g", "o").await;
    let path = format!("/v1/nodes/{}", shown(&two).await["node"].as_str().expect("an id"));
    // Any node accepts the request.
    let by = json!({ "by": "ops", "reason": "new kernel" });
    let drained = one.post(format!("{path}/drain"), by).await.is(200);
    assert_eq!(drained["state"], "drained");
    until("all shards are with the other", async || {
        loads(&one).await == BTreeMap::from([(address(&one), 8)])
    })
    .await;
    assert_eq!(shown(&two).await["state"], "drained");
    assert_eq!(two.get("/v1/readyz").await.status, 200);
    two.ack(token(&held)).await.is(204);
    // At least one node must accept shards.
    let last = format!("/v1/nodes/{}/drain", shown(&one).await["node"].as_str().expect("an id"));
    two.post(last, json!({})).await.refused(409, "FAILED_PRECONDITION");
    two.post(format!("{path}/undrain"), json!({})).await.is(200);
    until("it has its share again", async || loads(&one).await.get(&address(&two)) == Some(&4))
        .await;
    // The rejected drain is not recorded.
    let (acts, _) = acts(&one, "limit=2").await;
    assert_eq!(words(&acts, "act"), ["undrain_node", "drain_node"]);
    assert_eq!(["by", "reason"].map(|field| &acts[1][field]), ["ops", "new kernel"]);
    assert_eq!(acts[1]["details"]["node"], drained["node"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_shard_stays_until_its_node_stops() {
    let [one, two] = two().await;
    let node = shown(&two).await["node"].clone();
    let shards = list(&one, "shards").await;
    let moved = shards.iter().find(|shard| shard["node"] != node).expect("a shard elsewhere");
    let path = format!("/v1/shards/{}/move", moved["shard"]);
    let put = one.post(&path, json!({ "node": node })).await.is(200);
    assert_eq!(put["pinned_to"], node);
    let is_there = async |asked: &Client| {
        let shards = list(asked, "shards").await;
        shards[moved["shard"].as_u64().expect("a number") as usize]["node"] == node
    };
    until("it is there", async || is_there(&one).await).await;
    until("another took its place", async || {
        loads(&one).await.values().copied().collect::<Vec<_>>() == [4, 4]
    })
    .await;
    let three = one.another().await;
    until("all have some", async || loads(&one).await.len() == 3).await;
    assert!(is_there(&one).await);
    one.post(&path, json!({})).await.is(200);
    let (acts, _) = acts(&three, "limit=2").await;
    assert_eq!(words(&acts, "act"), ["move_shard", "move_shard"]);
    let nodes: Vec<&Value> = acts.iter().map(|act| &act["details"]["node"]).collect();
    assert_eq!(nodes, [&json!("any"), &node]);
    two.stop().await;
    until("the others have all", async || loads(&three).await.values().sum::<usize>() == 8).await;
    let gone = one.post(&path, json!({ "node": node })).await.refused(404, "NOT_FOUND");
    assert_eq!(gone["kind"], "node");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_nodes_and_shards_are_rejected() {
    let [one] = Broker::nodes::<1>(SHARDS).await;
    for (path, kind) in [
        ("/v1/nodes/n_00000000000000ff/drain", "node"),
        ("/v1/nodes/n_ff/undrain", "node"),
        ("/v1/nodes/me/drain", "node"),
        ("/v1/shards/8/move", "shard"),
        ("/v1/shards/all/move", "shard"),
    ] {
        let refused = one.post(path, json!({})).await.refused(404, "NOT_FOUND");
        assert_eq!(refused["kind"], kind, "{path}");
    }
    let nowhere = json!({ "node": "n_00000000000000ff" });
    one.post("/v1/shards/0/move", nowhere).await.refused(404, "NOT_FOUND");
    one.get("/v1/nodes?limit=1").await.invalid("limit");
}

#[tokio::test]
async fn node_and_shard_routes_are_rejected_on_a_single_node() {
    let broker = Broker::in_memory().await;
    for path in ["/v1/nodes", "/v1/shards"] {
        broker.get(path).await.refused(409, "FAILED_PRECONDITION");
    }
    let drain = "/v1/nodes/n_0000000000000001/drain";
    broker.post(drain, json!({})).await.refused(409, "FAILED_PRECONDITION");
    broker.post("/v1/shards/0/move", json!({})).await.refused(409, "FAILED_PRECONDITION");
}

/// Both nodes are configured with one address by mistake.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_node_at_an_address_serves_nothing_and_reports_it() {
    let [one] = Broker::nodes::<1>(SHARDS).await;
    let same = address(&one);
    let two = one.another_with(|config| config.advertise = Some(same.clone())).await;
    let not_ready = async || {
        let answer = two.get("/v1/readyz").await;
        answer.json()["reasons"].to_string().contains("set cluster.advertise")
    };
    until("it says so", not_ready).await;
    until("the first has all", async || loads(&one).await == BTreeMap::from([(same.clone(), 8)]))
        .await;
    let epochs = async || {
        let shards = list(&one, "shards").await;
        shards.iter().map(|shard| shard["epoch"].clone()).collect::<Vec<_>>()
    };
    let before = epochs().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(epochs().await, before, "nothing moves");
    assert_eq!(shown(&two).await["state"], "duplicate_address");
    assert_eq!(shown(&one).await["state"], "active");
    one.stop().await;
    until("it takes the place of the first", async || two.get("/v1/readyz").await.status == 200)
        .await;
    until("and its shards", async || loads(&two).await == BTreeMap::from([(same.clone(), 8)]))
        .await;
}
