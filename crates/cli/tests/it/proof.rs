//! The audit chain, exported and verified without a server.

use expect_test::expect;

use crate::stage::Stage;

/// Begins, finishes, a resolve and a commit: eleven decisions about four effects.
fn lived(stage: &Stage) {
    let post = |verb: &str, body: &str| stage.post(&format!("/v1/{verb}"), body);
    let finish = |began: &serde_json::Value, how: &str| {
        let token = &began["token"];
        post("effects/finish", &format!(r#"{{"token":{token},"status":{how}}}"#));
    };
    let named = r#"{"scope":"op/charge","key":"order-77","owner":"api-1","request":"12","#;
    let began = post("effects/begin", &format!(r#"{named}"on_doubt":"retry"}}"#));
    finish(&began, r#""FAILED_RETRYABLE","error":"timeout""#);
    let again = r#"{"scope":"op/charge","key":"order-77","owner":"api-2"}"#;
    finish(&post("effects/reacquire", again), r#""SUCCEEDED","result":{"charge":"ch_1"}"#);
    let named = r#"{"scope":"op/mail","key":"ü","tenant_id":"acme","#;
    let began = post("effects/begin", &format!(r#"{named}"on_doubt":"park"}}"#));
    finish(&began, r#""UNKNOWN""#);
    let by = r#""fence":1,"as":"failed","by":"ops","reason":"no such address"}"#;
    post("effects/resolve", &format!("{named}{by}"));
    post("produce", r#"{"topic":"orders","value":"x","envelope":{"idempotency_key":"o-1"}}"#);
    let wanted = r#"{"topic":"orders","group":"biller","owner":"worker-a"}"#;
    let lease = &post("receive", wanted)["messages"][0]["lease"]["token"];
    let begin = format!(r#"{{"lease_token":{lease},"key":"fee","on_doubt":"park"}}"#);
    let token = &post("effects/begin", &begin)["token"];
    let effects = format!(r#"[{{"token":{token},"status":"SUCCEEDED"}}]"#);
    post("commit", &format!(r#"{{"token":{lease},"effects":{effects},"result":7}}"#));
}

#[test]
fn an_export_is_verified_without_a_server() {
    let mut stage = Stage::alone();
    let server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq export --effects > empty.ndjson && cat empty.ndjson
        {"driftq":"effects","version":1}
        {"chains":0,"records":0,"blake3":"8954d368a0be21577eb9ce27798f4e8cd3c85fff6bb995a746a494c2e3719aee"}
        ! exported 0 decisions
        $ driftq verify empty.ndjson
        namespace  shard  decisions  tip
        ! ok: 0 decisions about 0 effects, none with two accepted outcomes
        $ driftq export
        ! error: the following required arguments were not provided:
        !   --effects
        !
        ! Usage: driftq export --effects --url <URL>
        !
        ! For more information, try '--help'.
        [2]
    "#]]);
    lived(&stage);
    stage.check(&expect![[r#"
        $ driftq export --effects > effects.ndjson
        ! exported 11 decisions
        $ wc -l < effects.ndjson
        15
    "#]]);
    drop(server);
    stage.check(&expect![[r#"
        $ driftq verify effects.ndjson | sed 's/[0-9a-f]\{64\}/HASH/'
        namespace  shard  decisions  tip
        default  0  11  HASH
        ! ok: 11 decisions about 4 effects, none with two accepted outcomes
        $ driftq verify effects.ndjson -o json | sed 's/[0-9a-f]\{64\}/HASH/'
        {
          "chains": [
            {
              "hash": "HASH",
              "namespace": "default",
              "seq": 11,
              "shard": 0
            }
          ],
          "decisions": 11,
          "effects": 4
        }
        ! ok: 11 decisions about 4 effects, none with two accepted outcomes
        $ driftq export --effects
        ! error: no server at URL; start one with `driftq dev`, or set --url
        [7]
        $ driftq verify nothing.ndjson
        ! error: nothing.ndjson: No such file or directory (os error 2)
        [1]
        $ sed '6s/order-77/order-76/' effects.ndjson > flipped && driftq verify flipped
        ! error: flipped: line 6: the chain is broken: the hash does not match this record and the previous hash
        [1]
        $ for n in $(seq 15); do sed "${n}d" effects.ndjson > dropped; driftq verify dropped 2> said && echo $n; done; cat said
        error: dropped: the file is truncated: it ends before line 15
        $ for n in $(seq 14); do sed "${n}{h;d};$((n+1)){G}" effects.ndjson > swapped; driftq verify swapped 2> said && echo $n; done; cat said
        error: swapped: line 14: the end of the chain does not match its 11 records
        $ sed '$d' effects.ndjson > cut && driftq verify cut
        ! error: cut: the file is truncated: it ends before line 15
        [1]
        $ sed '12,13d' effects.ndjson > shorter && driftq verify shorter
        ! error: shorter: line 12: the end of the chain does not match its 9 records
        [1]
        $ cat effects.ndjson effects.ndjson > twice && driftq verify twice
        ! error: twice: line 16: unexpected data after the last line
        [1]
        $ echo hello > hello && driftq verify hello
        ! error: hello: line 1: not an export of effects
        [1]
        $ : > nothing && driftq verify nothing
        ! error: nothing: the file is truncated: it ends before line 1
        [1]
    "#]]);
}
