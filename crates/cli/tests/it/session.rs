//! A session with `driftq dev`, verb by verb, wrong input included.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn topics_are_created_shown_changed_and_deleted() {
    let mut stage = Stage::alone();
    let server = stage.start(&["dev", "--topic", "orders:3"]);
    stage.check(&expect![[r#"
        $ driftq topic list
        name  partitions  messages  bytes  dead letters  groups
        orders  3  0  0  0
        $ driftq topic create refunds --set lease_ms=60000
        created: refunds, partitions: 1
        $ driftq topic create refunds --set lease_ms=60000
        exists: refunds, partitions: 1
        $ driftq topic create refunds --partitions 2
        ! error: the topic already exists with partitions 1, not 2 (ALREADY_EXISTS, 409)
        [4]
        $ driftq topic create 'no spaces'
        ! error: name: must be 1 to 250 of A-Z a-z 0-9 . _ - and start with a letter or digit (INVALID_ARGUMENT, 400)
        [2]
        $ driftq topic create x --set lease_ms
        ! error: `lease_ms` is not a setting; write it as NAME=VALUE
        [2]
        $ driftq topic create x --set lease_m=5
        ! error: settings.lease_m: unknown field; known: lease_ms, max_in_flight, max_open, retry_policy, max_backlog_messages, max_backlog_bytes, retention_ms, retention_bytes, dlq_retention_ms, dedupe_ttl_ms, dedupe_compare, effect_ttl_ms, on_doubt, unkeyed, require_token, auto_create_groups, group_idle_ms, history (INVALID_ARGUMENT, 400)
        [2]
        $ driftq topic create x --partitions 0
        ! error: invalid value '0' for '--partitions <PARTITIONS>': 0 is not in 1..=1024
        !
        ! For more information, try '--help'.
        [2]
        $ driftq topic set refunds lease_ms=null max_in_flight=64 -o json | grep -o '"changed[^]]*]'
        "changed_settings":["max_in_flight"]
        $ driftq topic set refunds lease_ms=1
        ! error: settings.lease_ms: must be between 250 and 43200000 (got 1) (INVALID_ARGUMENT, 400)
        [2]
        $ driftq topic show refunds | head -4
        name  refunds
        partitions  1
        messages  0
        bytes  0
        $ driftq topic create tasks --set 'retry_policy={"max_attempts":3}' && driftq topic show tasks -o json | grep -o '"retry_policy":{[^}]*}'
        created: tasks, partitions: 1
        "retry_policy":{"max_attempts":3,"backoff_ms":1000,"max_backoff_ms":600000}
        $ driftq topic set tasks retry_policy.max_attempts=5 retry_policy.backoff_ms=20 -o json | grep -o '"retry_policy":{[^}]*}'
        "retry_policy":{"max_attempts":5,"backoff_ms":20,"max_backoff_ms":600000}
        $ driftq topic set tasks retry_policy.attempts=5
        ! error: settings.retry_policy.attempts: unknown field; known: max_attempts, backoff_ms, max_backoff_ms (INVALID_ARGUMENT, 400)
        [2]
        $ driftq topic set tasks retry_policy=null retry_policy.max_attempts=5
        ! error: `retry_policy.max_attempts=5` sets `retry_policy.max_attempts` a second time
        [2]
        $ driftq topic set tasks lease_ms=1h30m retry_policy.max_backoff_ms=2d -o json | grep -oE '"(lease_ms|max_backoff_ms)":[0-9]*'
        "lease_ms":5400000
        "max_backoff_ms":172800000
        $ driftq topic set tasks lease_ms=5x
        ! error: `lease_ms=5x`: the value must be a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds, or null
        [2]
        $ driftq topic delete tasks --yes
        deleted tasks with 0 messages
        $ driftq topic show nowhere
        ! error: topic "nowhere" does not exist; check the name with `driftq topic list`, or create it with: driftq topic create nowhere (NOT_FOUND, 404)
        [3]
        $ driftq topic list -o ndjson | wc -l
        2
        $ driftq topic show dlq.orders
        name  dlq.orders
        partitions  3
        messages  0
        bytes  0
        dead letters  0
        groups
        created  TIME
        changed settings
        settings  auto_create_groups=true
                          dedupe_compare=content
                          dedupe_ttl_ms=604800000
                          dlq_retention_ms=null
                          effect_ttl_ms=604800000
                          group_idle_ms=null
                          history=false
                          lease_ms=30000
                          max_backlog_bytes=1073741824
                          max_backlog_messages=1000000
                          max_in_flight=1000
                          max_open=10000
                          on_doubt=null
                          require_token=false
                          retention_bytes=1073741824
                          retention_ms=3600000
                          retry_policy={"backoff_ms":1000,"max_attempts":20,"max_backoff_ms":600000}
                          unkeyed=first
        $ driftq topic delete refunds
        ! error: deleting "refunds" would drop 0 messages (0 open), 0 groups, 0 dead letters; repeat with --yes
        [2]
        $ driftq topic delete refunds --yes
        deleted refunds with 0 messages
        $ driftq topic lst
        ! error: unrecognized subcommand 'lst'
        !
        !   tip: a similar subcommand exists: 'list'
        !
        ! Usage: driftq topic [OPTIONS] <COMMAND>
        !
        ! For more information, try '--help'.
        [2]
    "#]]);
    let said = server.stop();
    assert!(said.contains("curl -s $Q/produce"), "{said}");
    assert!(said.contains("discarded: 0 messages"), "{said}");
}

#[test]
fn messages_are_produced_and_consumed() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 12' --idempotency-key order-77
        m_1 in partition 0 at offset 0
        $ driftq produce orders 'pay 12' --idempotency-key order-77
        m_1 in partition 0 at offset 0 (already stored)
        $ driftq produce orders 'pay 13' --idempotency-key order-77
        ! error: this idempotency key was used for a different message: value differs; use a new key for new content (CONFLICT, 422)
        [4]
        $ driftq produce nowhere 'pay 12'
        ! error: the topic does not exist; check the name with `driftq topic list`, or create it with: driftq topic create <topic> (NOT_FOUND, 404)
        [3]
        $ driftq produce orders 'pay 12' --idempotency-key ''
        ! error: a value is required for '--idempotency-key <IDEMPOTENCY_KEY>' but none was supplied
        !
        ! For more information, try '--help'.
        [2]
        $ driftq produce orders
        ! error: the following required arguments were not provided:
        !   <VALUE>
        !
        ! Usage: driftq produce --url <URL> <TOPIC> <VALUE>
        !
        ! For more information, try '--help'.
        [2]
        $ driftq produce orders @nowhere.json
        ! error: cannot read nowhere.json: No such file or directory (os error 2)
        [2]
        $ printf 'a\nb\n' | driftq produce orders --lines --key k
        2 stored, 0 rejected
        $ printf '\377\na\n' | driftq produce orders --lines
        ! error: line 1 is not UTF-8: 0 lines stored; this line and the rest were not sent
        [2]
        $ printf 'c' | driftq produce orders - -o json | grep -o '"offset":[0-9]*'
        "offset":3
        $ driftq peek orders
        partition  offset  id  key  value  produced
        0  0  m_1  pay 12  TIME
        0  1  m_2  k  a  TIME
        0  2  m_3  k  b  TIME
        0  3  m_4  c  TIME
        $ driftq peek orders --limit 1
        partition  offset  id  key  value  produced
        0  0  m_1  pay 12  TIME
        ! more results: repeat with --cursor MDox
        $ driftq peek orders -o ndjson | head -1 | grep -o '"value":"[^"]*"'
        "value":"pay 12"
        $ driftq peek orders --state ready
        ! error: the following required arguments were not provided:
        !   --group <GROUP>
        !
        ! Usage: driftq peek --group <GROUP> --state <STATE> --url <URL> <TOPIC>
        !
        ! For more information, try '--help'.
        [2]
        $ driftq peek orders --group biller --state lost
        ! error: invalid value 'lost' for '--state <STATE>'
        !   [possible values: ready, leased, waiting, settled]
        !
        ! For more information, try '--help'.
        [2]
        $ driftq consume orders biller --ack --count 4 | grep -o '"value":"[^"]*"'
        "value":"pay 12"
        "value":"a"
        "value":"b"
        "value":"c"
        $ driftq consume orders other --count 1 | grep -o '"value":"[^"]*"'
        "value":"pay 12"
        $ driftq group show orders other | grep leased
        leased  1
        partition  next to deliver  settled through  backlog  leased  waiting  oldest unsettled  blocked
        consumer  leased  next expiry  settled 1m  failed 1m  expired 1m  hold p50 ms  hold p95 ms  last seen
        $ driftq consume nowhere biller
        ! error: topic "nowhere" does not exist; check the name with `driftq topic list`, or create it with: driftq topic create nowhere (NOT_FOUND, 404)
        [3]
        $ driftq consume orders other --credit 0 --count 1
        ! error: unexpected argument '--credit' found
        !
        !   tip: to pass '--credit' as a value, use '-- --credit'
        !
        ! Usage: driftq consume <TOPIC> <GROUP>
        !
        ! For more information, try '--help'.
        [2]
        $ driftq peek orders --group biller
        partition  offset  id  key  value  produced  state  attempts  last error  next attempt  owner  lease ends
        0  0  m_1  pay 12  TIME  settled  0
        0  1  m_2  k  a  TIME  settled  0
        0  2  m_3  k  b  TIME  settled  0
        0  3  m_4  c  TIME  settled  0
        $ driftq consume orders biller & until driftq group show orders biller -o json | grep -q '"consumer":"'; do :; done; driftq topic delete orders --yes; wait $!
        deleted orders with 4 messages
        ! error: the server closed the stream; run the command again to see the reason
        [7]
    "#]]);
}

#[test]
fn deliveries_are_settled_and_dead_letters_redriven() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 12'
        m_1 in partition 0 at offset 0
        $ driftq consume orders biller --count 1 | grep -o '"token":"[^"]*"'
        "token":"lt_1"
        $ driftq explain lt_1 | sed -E 's/for [0-9.]+ m?s/for A WHILE/'
        m_1 at orders/0/0, produced at TIME
        biller: attempt 1 of 20 is leased to driftq-cli for A WHILE more
        $ driftq extend lt_1 --lease-ms 60000
        lease expires at TIME
        $ driftq extend lt_1 --lease-ms 1m30s
        lease expires at TIME
        $ driftq extend lt_1 --lease-ms 1.5m
        ! error: invalid value '1.5m' for '--lease-ms <DURATION>': must be a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds
        !
        ! For more information, try '--help'.
        [2]
        $ driftq dlq list orders --since yesterday
        ! error: invalid value 'yesterday' for '--since <TIME>': must be a time such as TIME, or an age such as 90s, 2h or 7d
        !
        ! For more information, try '--help'.
        [2]
        $ driftq produce orders x --deadline 2026
        ! error: invalid value '2026' for '--deadline <TIME>': must be a time such as TIME, or a duration from now such as 90s, 2h or 7d
        !
        ! For more information, try '--help'.
        [2]
        $ driftq group seek orders biller 2
        ! error: `2` is not a position; use earliest, latest, a time such as TIME, an age such as 2h, or PARTITION:OFFSET
        [2]
        $ driftq nack lt_1 --final --delay-ms 5
        ! error: the argument '--dead-letter' cannot be used with '--delay-ms <DURATION>'
        !
        ! Usage: driftq nack --dead-letter --url <URL> <TOKEN>
        !
        ! For more information, try '--help'.
        [2]
        $ driftq nack lt_1 --final --reason card_declined
        nacked
        $ driftq ack lt_1
        ! error: the lease of attempt 1 has ended: the message was dead-lettered. Discard the result; do not retry. (STALE_LEASE, 409)
        [4]
        $ driftq ack nonsense
        ! error: token: not a token of this server; send the token exactly as received (INVALID_ARGUMENT, 400)
        [2]
        $ driftq ack et_aaaaaaaa
        ! error: token: is an effect token; send the lease token of the delivery (lt_…) (INVALID_ARGUMENT, 400)
        [2]
        $ driftq dlq list orders
        id  key  group  reason  attempts  last error  dead since  state
        m_2  biller  rejected  1  card_declined  TIME  dead
        $ driftq dlq show orders m_2
        id  m_2
        state  dead
        key
        value  pay 12
        group  biller
        reason  rejected
        last error  card_declined
        attempts  1
        last owner  driftq-cli
        produced  TIME
        first delivered  TIME
        dead since  TIME
        message  m_1
        topic  orders
        partition  0
        offset  0
        tenant  default
        $ driftq dlq show orders m_1 -o json | grep -oE '"(id|state)":"[^"]*"'
        "id":"m_2"
        "id":"m_1"
        "state":"dead"
        $ driftq dlq show orders m_aaaacaai
        ! error: m_3 is not the id of a message or dead letter of "orders" (NOT_FOUND, 404)
        [3]
        $ driftq explain m_2 | sed -E 's/for [0-9.]+ m?s/for A WHILE/'
        m_2 at dlq.orders/0/0, produced at TIME
        a dead letter of group biller of orders for A WHILE (rejected after 1 attempt: card_declined); it was message m_1
        $ driftq topic delete dlq.orders --yes
        ! error: a dead-letter topic cannot be changed or deleted by itself; delete dead letters with: driftq dlq purge (FAILED_PRECONDITION, 409)
        [4]
        $ driftq dlq summary orders
        count  error
        1  card_declined
        dead letters: 1
        $ driftq dlq list orders --reason tired
        ! error: invalid value 'tired' for '--reason <REASON>'
        !   [possible values: exhausted, rejected, deadline, undeliverable]
        !
        ! For more information, try '--help'.
        [2]
        $ driftq explain orders/0/0 | sed -E 's/for [0-9.]+ m?s/for A WHILE/'
        m_1 at orders/0/0, produced at TIME
        biller: a dead letter for A WHILE (rejected: card_declined)
          last error: card_declined
          dead letter: m_2
        $ driftq dlq redrive orders --error card --dry-run
        would redrive 1
        $ driftq dlq redrive orders m_1 --error card
        ! error: the argument '[IDS]...' cannot be used with '--error <ERROR>'
        !
        ! Usage: driftq dlq redrive --url <URL> <TOPIC> <IDS>...
        !
        ! For more information, try '--help'.
        [2]
        $ driftq dlq redrive orders m_aaaacaai
        redriven: 0
        ! rejected: m_3 is not the id of a message or dead letter of "orders"
        ! error: rejected: 1
        [3]
        $ driftq dlq purge orders --until 2999-01-01T00:00:00Z --by ops
        ! error: 1 dead letters would be deleted; repeat with --yes
        [2]
        $ driftq dlq redrive orders --error card --by ops --comment fixed
        redriven: 1
        $ driftq dlq redrive orders m_1
        redriven: 0; m_2 was already redriven as m_4
        $ driftq dlq redrive orders --error card
        redriven: 0; no dead letter matches the filter, or they were redriven before
        $ driftq dlq redrive orders --yes
        redriven: 0; the topic has no dead letters that were not redriven
        $ driftq dlq list orders --state redriven -o ndjson | grep -o '"state":"[^"]*"'
        "state":"redriven"
        $ driftq consume orders biller --ack --count 1 | grep -o '"value":"[^"]*"'
        "value":"pay 12"
        $ driftq dlq purge orders
        ! error: until: is required with filter, so that the number of matches does not grow (INVALID_ARGUMENT, 400)
        [2]
        $ driftq dlq purge orders --until 2999-01-01T00:00:00Z --by ops --yes
        purged 0
    "#]]);
}

#[test]
fn groups_are_created_paused_moved_and_explained() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders 'pay 12'
        m_1 in partition 0 at offset 0
        $ driftq group create orders biller
        group  biller
        backlog  1
        leased  0
        waiting  0
        oldest unsettled  TIME

        partition  next to deliver  settled through  backlog  leased  waiting  oldest unsettled  blocked
        0  0  -1  1  0  0  TIME  no_consumers
        $ driftq group create orders late --start never
        ! error: invalid value 'never' for '--start <START>'
        !   [possible values: earliest, latest]
        !
        ! For more information, try '--help'.
        [2]
        $ driftq group list orders
        group  backlog  leased  waiting  oldest unsettled  paused since  paused by  paused because
        biller  1  0  0  TIME
        $ driftq group list
        topic  group  backlog  leased  waiting  oldest unsettled  paused since  paused by  paused because
        orders  biller  1  0  0  TIME
        $ driftq explain orders biller
        orders/biller: nothing is delivered: no consumer is connected; 1 not delivered yet
        $ driftq explain orders
        ! error: `orders` is not a message: use m_..., lt_... or TOPIC/PARTITION/OFFSET. To explain a group: driftq explain orders GROUP
        [2]
        $ driftq explain orders absent
        ! error: group "absent" does not exist; create it with: driftq group create orders absent (NOT_FOUND, 404)
        [3]
        $ driftq explain m_1
        m_1 at orders/0/0, produced at TIME
        biller: not delivered yet, and next in line; nothing is delivered: no consumer is connected
        $ driftq explain orders/0/7
        ! error: the message does not exist (NOT_FOUND, 404)
        [3]
        $ driftq group pause orders biller --reason 'bad deploy 41f2' --by ops
        group  biller
        backlog  1
        leased  0
        waiting  0
        oldest unsettled  TIME
        paused since  TIME
        paused by  ops
        paused because  bad deploy 41f2

        partition  next to deliver  settled through  backlog  leased  waiting  oldest unsettled  blocked
        0  0  -1  1  0  0  TIME  paused
        $ driftq group seek orders biller latest --dry-run
        dry run: 0 messages to redeliver, 1 skipped, 0 open dropped
        $ driftq group seek orders biller tomorrow
        ! error: `tomorrow` is not a position; use earliest, latest, a time such as TIME, an age such as 2h, or PARTITION:OFFSET
        [2]
        $ driftq group seek orders biller 0:1 --yes
        moved: 0 messages to redeliver, 1 skipped, 0 open dropped
        $ driftq group resume orders biller -o json | grep -c paused
        0
        [1]
        $ driftq group pause orders biller --until 2020-01-01T00:00:00Z
        ! error: --until TIME is in the past; use a later time, or omit it to pause until `resume`
        [2]
        $ driftq group show orders absent
        ! error: group "absent" does not exist; create it with: driftq group create orders absent (NOT_FOUND, 404)
        [3]
        $ driftq group delete orders biller
        ! error: deleting "biller" would discard its cursors: 0 messages are unsettled (0 open); repeat with --yes
        [2]
        $ driftq group delete orders biller --yes
        deleted biller
    "#]]);
}

#[test]
fn invalid_urls_and_connection_errors_are_reported() {
    let mut stage = Stage::alone();
    stage.check(&expect![[r#"
        $ driftq topic list
        ! error: no server at URL; start one with `driftq dev`, or set --url
        [7]
        $ driftq version | sed 's/commit .*/commit SOME/'
        client  VERSION
        client commit SOME
        ! no server at URL
        $ driftq --version
        driftq VERSION
        $ driftq topic list --url nonsense
        ! error: --url nonsense is not a valid URL; write it as http://127.0.0.1:8080
        [2]
        $ driftq topic list --url https://127.0.0.1:9
        ! error: no server at https://127.0.0.1:9; start one with `driftq dev`, or set --url
        [7]
        $ DRIFTQ_API_KEY_FILE= driftq topic list
        ! error: no server at URL; start one with `driftq dev`, or set --url
        [7]
        $ DRIFTQ_URL= DRIFTQ_CONFIG= driftq config --data '' 2>&1
        error: --data: must not be empty; use . for the working directory
        [2]
        $ echo 'data = ""' > empty.toml && driftq serve --config empty.toml
        ! error: empty.toml:1: `data`: must not be empty; use . for the working directory
        [2]
        $ driftq topic list -o xml
        ! error: invalid value 'xml' for '--output <table|json|ndjson>'
        !   [possible values: table, json, ndjson]
        !
        ! For more information, try '--help'.
        [2]
        $ driftq dev --topic orders:many --listen 127.0.0.1:0
        ! error: --topic orders:many: PARTITIONS must be between 1 and 1024
        [2]
        $ driftq dev --listen 0.0.0.0:0
        ! error: --listen 0.0.0.0:0: dev listens on loopback only; use: driftq serve --engine memory
        [2]
        $ driftq topic list --api-key-file nowhere.txt
        ! error: --api-key-file: nowhere.txt: No such file or directory (os error 2)
        [2]
        $ driftq frobnicate
        ! error: unrecognized subcommand 'frobnicate'
        !
        ! Usage: driftq [OPTIONS] <COMMAND>
        !
        ! For more information, try '--help'.
        [2]
    "#]]);
    let file = stage.path().join("key.txt");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = ["serve", "--engine", "memory", "--api-key-file", "key.txt", "--log", "error"];
    let _server = stage.start(&key);
    stage.check(&expect![[r#"
        $ driftq topic list
        ! error: the server requires an API key; set --api-key-file or DRIFTQ_API_KEY (UNAUTHENTICATED, 401)
        [5]
        $ echo fedcba9876543210 > other.txt && driftq topic list --api-key-file other.txt
        ! error: the server rejected the API key (UNAUTHENTICATED, 401)
        [5]
        $ driftq topic list --api-key-file key.txt
        name  partitions  messages  bytes  dead letters  groups
        $ DRIFTQ_API_KEY_FILE=key.txt driftq version | grep -v commit
        client  VERSION
        server  VERSION
        engine  memory
        durability  none: everything is in memory
        started  TIME
    "#]]);
}

#[test]
fn temporary_and_final_rejections_have_different_exit_codes() {
    let mut stage = Stage::alone();
    let _server =
        stage.start(&["serve", "--engine", "memory", "--profile", "v1", "--log", "error"]);
    stage.check(&expect![[r#"
        $ driftq topic create orders
        created: orders, partitions: 1
        $ printf 'a\nb\nc\n' | driftq produce orders --lines
        2 stored, 1 rejected
        ! rejected: the partition is full, and no group reads it
        ! error: rejected: 1
        [6]
        $ driftq produce orders 'a value of more than twenty bytes'
        ! error: message must be at most 20 bytes (got 33) (RESOURCE_EXHAUSTED, 429)
        [6]
        $ driftq produce orders d -o json
        ! error: the partition is full, and no group reads it (RESOURCE_EXHAUSTED, 429)
        [6]
    "#]]);
}

#[test]
fn confirming_the_clock_without_a_jump_is_rejected() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq clock confirm
        ! error: nothing to confirm: no forward jump of the clock is held back (FAILED_PRECONDITION, 409)
        [4]
    "#]]);
}

#[test]
fn every_field_of_the_envelope_can_be_produced() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders:2"]);
    stage.check(&expect![[r#"
        $ driftq produce orders pay --key k --tenant-id acme --run-id r --step-id s --parent-step-id p --target-topic orders --partition-override 1 --deadline 2999-01-01T00:00:00Z --retry max_attempts=3 --retry backoff_ms=5 --label env=prod --header trace=a=b | grep -c partition
        1
        $ driftq consume orders biller --count 1 | grep -oE '"envelope":.*'
        "envelope":{"run_id":"r","step_id":"s","parent_step_id":"p","tenant_id":"acme","target_topic":"orders","partition_override":1,"deadline":"TIME","retry_policy":{"max_attempts":3,"backoff_ms":5},"labels":{"env":"prod"},"headers":{"trace":"a=b"}}}
        $ driftq produce orders pay --label env
        ! error: --label env: write it as NAME=VALUE
        [2]
        $ driftq produce orders pay --retry max_attempts=many
        ! error: --retry max_attempts=many: the value must be a number
        [2]
        $ driftq produce orders pay --retry attempts=3
        ! error: envelope.retry_policy.attempts: unknown field; known: max_attempts, backoff_ms, max_backoff_ms (INVALID_ARGUMENT, 400)
        [2]
    "#]]);
}

#[test]
fn an_interrupted_consumer_releases_what_it_holds() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev", "--topic", "orders"]);
    stage.check(&expect![[r#"
        $ driftq produce orders pay | grep -c offset
        1
        $ timeout --preserve-status -s INT 1 driftq consume orders biller | grep -c token
        1
        ! released 1 messages
        $ for n in $(seq 9000); do echo $n; done | driftq produce orders --lines
        9000 stored, 0 rejected
        $ timeout --preserve-status -s INT 2 driftq consume orders other --ack --prefetch 50 > printed 2>&1; driftq group show orders other -o json | grep -oE '"leased":[0-9]+'
        "leased":0
        "leased":0
        "leased":0
        $ driftq consume orders biller --count 1 | grep -oE '"(attempts|attempt)":[0-9]+'
        "attempts":1
        "attempt":2
    "#]]);
}

#[test]
fn a_busy_port_leaves_no_data_directory_behind() {
    let mut stage = Stage::alone();
    let _server = stage.start(&["dev"]);
    stage.check(&expect![[r#"
        $ driftq serve --data fresh --listen ${DRIFTQ_URL#http://} --log error 2>&1 | sed 's/127[0-9.:]*/ADDRESS/'; ls fresh
        error: cannot listen on ADDRESS Address already in use (os error 98); choose another address with --listen
        ! ls: cannot access 'fresh': No such file or directory
        [2]
        $ curl -s $DRIFTQ_URL/v1/openapi.json | head -c 20
        {
          "components": {
    "#]]);
}
