//! Listing, showing and resolving effects.

use expect_test::expect;

use crate::stage::Stage;

/// Begins three effects: one in progress, one in doubt, one parked under a message.
fn begun(stage: &Stage) {
    let begin = "/v1/effects/begin";
    stage.post(begin, r#"{"scope":"op/mail","key":"m","on_doubt":"retry","owner":"api-1"}"#);
    let named = r#"{"scope":"op/charge","key":"order-77","tenant_id":"acme","owner":"api-2","#;
    let began = stage.post(begin, &format!(r#"{named}"on_doubt":"probe"}}"#));
    let finish = |began: &serde_json::Value| {
        let token = &began["token"];
        let unknown = format!(r#"{{"token":{token},"status":"UNKNOWN","error":"timeout"}}"#);
        stage.post("/v1/effects/finish", &unknown);
    };
    finish(&began);
    stage.post("/v1/produce", r#"{"topic":"orders","value":"x"}"#);
    let wanted = r#"{"topic":"orders","group":"biller","owner":"worker-a"}"#;
    let got = stage.post("/v1/receive", wanted);
    let lease = &got["messages"][0]["lease"]["token"];
    let began = format!(r#"{{"lease_token":{lease},"key":"order-78","on_doubt":"park"}}"#);
    finish(&stage.post(begin, &began));
}

#[test]
fn effects_are_listed_shown_and_resolved() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    begun(&stage);
    stage.check(&expect![[r#"
        $ driftq effect list
        scope  key  tenant  fence  owner  began  held until  in doubt since  because  message
        effect/orders/biller  order-78  default  1  worker-a  TIME  TIME  reported  m_1
        $ driftq effect list --state IN_DOUBT
        scope  key  tenant  fence  owner  began  held until  in doubt since  because  message
        op/charge  order-77  acme  1  api-2  TIME  TIME  reported
        $ driftq effect list --state in_progress
        scope  key  tenant  fence  owner  began  held until  in doubt since  because  message
        op/mail  m  default  1  api-1  TIME  TIME
        $ driftq effect list --state in_doubt --tenant-id default
        scope  key  tenant  fence  owner  began  held until  in doubt since  because  message
        $ driftq effect list --state in_doubt --scope op/charge --tenant acme -o ndjson | grep -o '"key":"[^"]*"'
        "key":"order-77"
        $ driftq effect list -o json | grep next_cursor
        [1]
        $ driftq effect list --state lost
        ! error: invalid value 'lost' for '--state <STATE>'
        !   [possible values: parked, in_doubt, in_progress]
        !
        ! For more information, try '--help'.
        [2]
        $ driftq effect list --scope charge
        ! error: scope: must be op/<name>, effect/<topic>/<group> or produce/<topic> (INVALID_ARGUMENT, 400)
        [2]
        $ driftq effect show op/charge order-77
        ! error: the effect does not exist (NOT_FOUND, 404)
        [3]
        $ driftq effect show op/charge order-77 --tenant acme
        scope  op/charge
        key  order-77
        tenant  acme
        state  IN_DOUBT
        fence  1
        owner  api-2
        error  timeout
        on doubt  probe
        in doubt since  TIME
        in doubt because  reported
        in doubt of  api-2
        began  TIME
        changed  TIME
        downstream key  dq_n7ckhvcca23acbzsoraxtmx725hdn3hg37jqsz7o
        $ driftq effect show effect/orders/biller order-78
        scope  effect/orders/biller
        key  order-78
        tenant  default
        state  PARKED
        fence  1
        owner  worker-a
        error  timeout
        on doubt  park
        in doubt since  TIME
        in doubt because  reported
        in doubt of  worker-a
        began  TIME
        changed  TIME
        downstream key  dq_3csxbnzguekbylufqnbmqp3ge3wrdmoycjpo22ar
        message  m_1
        $ driftq effect show op/mail m --wait 50ms | grep state
        state  IN_PROGRESS
        $ driftq effect show op/mail m --wait soon
        ! error: invalid value 'soon' for '--wait <DURATION>': must be a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds
        !
        ! For more information, try '--help'.
        [2]
        $ driftq effect resolve op/charge order-77 --tenant-id acme --as succeeded --by ops --reason 'found ch_1'
        ! error: the following required arguments were not provided:
        !   --fence <FENCE>
        !
        ! Usage: driftq effect resolve --fence <FENCE> --as <RESOLVE_AS> --by <BY> --reason <REASON> --tenant-id <TENANT_ID> --url <URL> <SCOPE> <KEY>
        !
        ! For more information, try '--help'.
        [2]
        $ driftq effect resolve op/charge order-77 --tenant acme --fence 1 --as succeeded --result '{charge}' --by ops --reason 'found ch_1'
        ! error: --result must be valid JSON: key must be a string at line 1 column 2
        [2]
        $ driftq effect resolve op/charge order-77 --tenant acme --fence 2 --as failed --by ops --reason 'found ch_1' --yes
        ! error: fence 2 is not current: the effect is IN_DOUBT at fence 1. Discard the result; do not retry. (STALE_FENCE, 409)
        [4]
        $ driftq effect resolve op/mail m --fence 1 --as failed --by ops --reason bored --yes
        ! error: the effect is IN_PROGRESS; only an effect in doubt can be resolved (FAILED_PRECONDITION, 409)
        [4]
        $ driftq effect resolve op/charge order-77 --tenant acme --fence 1 --as retry --result 1 --by ops --reason r --yes
        ! error: result: is allowed only with SUCCEEDED or FAILED_FINAL (INVALID_ARGUMENT, 400)
        [2]
        $ driftq effect resolve op/charge order-77 --tenant acme --fence 1 --as succeeded --result '{"z": 1, "charge":"ch_1", "amount": 10.50}' --by ops --reason 'found ch_1' --yes
        resolved: SUCCEEDED
        $ driftq effect show op/charge order-77 --tenant acme --wait 30s
        scope  op/charge
        key  order-77
        tenant  acme
        state  SUCCEEDED
        fence  1
        owner  api-2
        code  0
        result  {"z": 1, "charge":"ch_1", "amount": 10.50}
        on doubt  probe
        resolved as  succeeded
        resolved by  ops
        resolved because  found ch_1
        resolved at  TIME
        began  TIME
        changed  TIME
        kept until  TIME
        downstream key  dq_n7ckhvcca23acbzsoraxtmx725hdn3hg37jqsz7o
        $ driftq effect show op/charge order-77 --tenant-id acme -o json | grep -o '"result":[^}]*}'
        "result":{"z": 1, "charge":"ch_1", "amount": 10.50}
        $ driftq effect show op/charge order-77 --tenant-id acme -o ndjson | grep -o '"amount": 10.50'
        "amount": 10.50
        $ driftq effect resolve effect/orders/biller order-78 --fence 1 --as retry --error 'never arrived' --by ops --reason 'no charge there' --yes -o ndjson | grep -o '"state":"[^"]*"'
        "state":"FAILED_RETRYABLE"
        $ driftq effect list
        scope  key  tenant  fence  owner  began  held until  in doubt since  because  message
    "#]]);
    let raw = stage.get("/v1/effects?scope=op/charge&key=order-77&tenant_id=acme");
    let result = r#""result":{"z": 1, "charge":"ch_1", "amount": 10.50},"#;
    assert!(raw.contains(result), "byte for byte: {raw}");
}

#[test]
fn the_receipt_of_a_message_is_found_by_its_key() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 12' --idempotency-key order-77
        m_1 in partition 0 at offset 0
        $ driftq effect show produce/orders order-77 -o json | grep -o '"offset":[0-9]*'
        "offset":0
        "offset":0
        $ driftq effect show produce/orders order-78
        ! error: the effect does not exist (NOT_FOUND, 404)
        [3]
        $ driftq effect show produce/nowhere order-77
        ! error: the topic does not exist; check the name with `driftq topic list`, or create it with: driftq topic create <topic> (NOT_FOUND, 404)
        [3]
    "#]]);
}

#[test]
fn a_dead_letter_can_be_redriven_with_force() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 12'
        m_1 in partition 0 at offset 0
        $ driftq consume orders biller --count 1 | grep -o '"token":"[^"]*"'
        "token":"lt_1"
        $ driftq nack lt_1 --final --reason card_declined
        nacked
        $ driftq dlq redrive orders --error card --force --dry-run
        would redrive 1
        $ driftq dlq redrive orders --error card --force
        redriven: 1
    "#]]);
}

#[test]
fn effects_are_explained() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    begun(&stage);
    stage.check(&expect![[r#"
        $ driftq explain op/charge order-77 --tenant acme | sed 's/[0-9.]* m\?s ago/SOON ago/'
        op/charge order-77 IN_DOUBT: the outcome of fence 1 of api-2 is unknown: it was reported as unknown SOON ago (timeout); the next begin must ask the provider first
        $ driftq explain effect/orders/biller order-78 | sed 's/[0-9.]* m\?s ago/SOON ago/'
        effect/orders/biller order-78 PARKED: the outcome of fence 1 of worker-a is unknown: it was reported as unknown SOON ago (timeout); resolve it with: driftq effect resolve
        $ driftq explain orders/0/0 | grep '^  effect'
          effect order-78: PARKED, fence 1
        $ driftq explain op/charge none
        ! error: the effect does not exist (NOT_FOUND, 404)
        [3]
        $ driftq explain op/charge
        ! error: `op/charge` is not a message: use m_..., lt_... or TOPIC/PARTITION/OFFSET. To explain an effect: driftq explain op/charge KEY
        [2]
    "#]]);
}
