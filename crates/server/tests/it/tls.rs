//! Encrypted connections, and keys and certificates that change while the server runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use driftq_server::config::{Config, TlsFiles};
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, StatusCode, Version};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::broker::Broker;
use crate::verbs::token;

const FIRST: &str = "first-0123456789abcdef0123456789";
const SECOND: &str = "second-0123456789abcdef0123456789";

/// Writes a new certificate for 127.0.0.1. Returns it.
fn certify(directory: &Path) -> Certificate {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let params = CertificateParams::new(names).expect("names");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    std::fs::write(directory.join("cert.pem"), &pem).expect("a file");
    let file = directory.join("key.pem");
    std::fs::write(&file, key.serialize_pem()).expect("a file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its own file");
    Certificate::from_pem(pem.as_bytes()).expect("it is PEM")
}

fn files(directory: &Path) -> TlsFiles {
    TlsFiles { cert: directory.join("cert.pem"), key: directory.join("key.pem") }
}

fn trusting(certificate: &Certificate) -> reqwest::Client {
    let client = reqwest::Client::builder().tls_certs_only([certificate.clone()]);
    client.build().expect("a client")
}

fn health(broker: &Broker) -> String {
    format!("https://{}/v1/healthz", broker.address())
}

/// The server checks its files on this signal.
fn hang_up() {
    kill_process(getpid(), Signal::HUP).expect("this process runs");
}

async fn until(is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            hang_up();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(9), wait).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_encrypted_over_both_versions_of_http() {
    let directory = TempDir::new().expect("a directory");
    let certificate = certify(directory.path());
    let broker = Broker::with(|config| config.tls = Some(files(directory.path()))).await;
    let answer = trusting(&certificate).get(health(&broker)).send().await.expect("it answers");
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    let old = reqwest::Client::builder().http1_only().tls_certs_only([certificate]);
    let old = old.build().expect("a client");
    let answer = old.get(health(&broker)).send().await.expect("it answers");
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_11));
    let stranger = reqwest::Client::builder().tls_certs_only([]).build().expect("a client");
    assert!(stranger.get(health(&broker)).send().await.is_err_and(|error| error.is_connect()));
}

#[tokio::test]
async fn a_client_that_does_not_encrypt_is_told_so() {
    let directory = TempDir::new().expect("a directory");
    certify(directory.path());
    let broker = Broker::with(|config| config.tls = Some(files(directory.path()))).await;
    let mut plain = TcpStream::connect(broker.address()).await.expect("it listens");
    plain.write_all(b"GET /v1/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("use an https URL"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let directory = TempDir::new().expect("a directory");
    let first = certify(directory.path());
    let broker = Broker::with(|config| config.tls = Some(files(directory.path()))).await;
    let works = async |certificate: &Certificate| {
        trusting(certificate).get(health(&broker)).send().await.is_ok()
    };
    assert!(works(&first).await);
    let second = certify(directory.path());
    until(async || works(&second).await).await;
    assert!(!works(&first).await);
    std::fs::write(directory.path().join("key.pem"), "no key").expect("a file");
    hang_up();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(works(&second).await);
}

/// Silent clients cost the others nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_end_is_cut() {
    let directory = TempDir::new().expect("a directory");
    let certificate = certify(directory.path());
    let broker = Broker::with(|config| config.tls = Some(files(directory.path()))).await;
    let mut silent = TcpStream::connect(broker.address()).await.expect("it listens");
    // The header of a record that does not follow.
    silent.write_all(&[0x16, 3, 1, 2, 0]).await.expect("sent");
    trusting(&certificate).get(health(&broker)).send().await.expect("others are answered");
    let ended = tokio::time::timeout(Duration::from_secs(15), silent.read(&mut [0; 64])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_encrypt_what_they_send_each_other() {
    let directory = TempDir::new().expect("a directory");
    let certificate = certify(directory.path());
    let encrypt = |config: &mut Config| config.tls = Some(files(directory.path()));
    let one = Broker::on_new_database(8, encrypt).await;
    let two = one.another_with(encrypt).await;
    let client = trusting(&certificate);
    let url = |broker: &Broker, path: &str| format!("https://{}/v1/{path}", broker.address());
    let shards = async || {
        let shards = client.get(url(&one, "shards")).send().await.expect("it answers");
        let shards: serde_json::Value = shards.json().await.expect("JSON");
        let shards = shards["shards"].as_array().cloned().unwrap_or_default();
        shards.iter().filter_map(|shard| shard["address"].as_str().map(str::to_owned)).collect()
    };
    let began = std::time::Instant::now();
    loop {
        let held: std::collections::BTreeSet<String> = shards().await;
        if held.len() == 2 {
            assert!(held.iter().all(|address| address.starts_with("https://")), "{held:?}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{held:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Some of these topics are on the other node.
    for number in 0..8 {
        let name = format!("t{number}");
        let post = async |path: &str, body: serde_json::Value| {
            let answer = client.post(url(&two, path)).json(&body).send().await.expect("answered");
            assert!(answer.status().is_success(), "{path}: {answer:?}");
            answer.json::<serde_json::Value>().await.unwrap_or_default()
        };
        post("topics", json!({ "name": name })).await;
        post("produce", json!({ "topic": name, "value": "x" })).await;
        let wanted = json!({ "topic": name, "group": "g", "owner": "o", "wait_ms": 5_000 });
        let got = post("receive", wanted).await;
        post("ack", token(&got["messages"][0])).await;
    }
}

fn key_file(directory: &Path, content: &str) -> PathBuf {
    let file = directory.join("keys");
    std::fs::write(&file, content).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its mode");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_without_a_restart() {
    let directory = TempDir::new().expect("a directory");
    let file = key_file(directory.path(), FIRST);
    let broker = Broker::with(|config| config.api_key_file = Some(file.clone())).await;
    let status = async |key: &str| {
        let ask = broker.ask("GET", "/v1/topics").header("authorization", format!("Bearer {key}"));
        ask.send().await.status
    };
    assert_eq!((status(FIRST).await, status(SECOND).await), (200, 401));
    // The new key first, the previous one in the second line.
    key_file(directory.path(), &format!("{SECOND}\n{FIRST}\n"));
    until(async || status(SECOND).await == 200).await;
    assert_eq!(status(FIRST).await, 200);
    key_file(directory.path(), SECOND);
    until(async || status(FIRST).await == 401).await;
    assert_eq!(status(SECOND).await, 200);
    // An invalid file changes nothing, until it is mended.
    key_file(directory.path(), FIRST);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("its mode");
    hang_up();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((status(SECOND).await, status(FIRST).await), (200, 401));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its mode");
    until(async || status(FIRST).await == 200).await;
}

#[test]
fn weak_keys_and_files_that_all_users_can_read_are_rejected() {
    let directory = TempDir::new().expect("a directory");
    let why = |content: &str, mode: u32| {
        let file = key_file(directory.path(), content);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("its mode");
        let mut config = Config::local(driftq_server::config::EngineConfig::Memory);
        config.api_key_file = Some(file);
        config.faults().into_iter().map(|fault| fault.why).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(why(FIRST, 0o600), "");
    assert_eq!(why(FIRST, 0o640), "");
    assert_eq!(why(&format!("{FIRST}\n{SECOND}\n"), 0o400), "");
    assert!(why(FIRST, 0o644).contains("all users can access the file (mode 0644); run `chmod o="));
    assert!(why("0123456789abcdef", 0o600).contains("has 16 characters and must have at least 32"));
    assert!(why(&"ab".repeat(16), 0o600).contains("has only 2 different characters"));
    assert!(why(&format!("\u{feff}{FIRST}"), 0o600).contains("not printable ASCII"));
    assert!(why("\n\n", 0o600).contains("has no API key"));
    assert!(why(&format!("{FIRST}\n").repeat(3), 0o600).contains("has 3 API keys"));
}
