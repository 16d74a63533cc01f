//! Values from a file, the environment and flags, and the errors for invalid ones.

use expect_test::expect;

use crate::stage::Stage;

#[test]
fn each_value_has_its_source_and_the_later_source_wins() {
    Stage::alone().check(&expect![[r#"
        $ driftq config | grep -E '^(key|listen|engine|limits.body_bytes|log) '
        key  value  from
        listen  127.0.0.1:8080  default
        engine  sqlite  default
        log  info  default
        limits.body_bytes  8388608  default
        $ printf 'listen = "127.0.0.1:1"\nlog = "warn"\n[limits]\nbody_bytes = 4_194_304\n' > driftq.toml
        $ DRIFTQ_LISTEN=127.0.0.1:2 DRIFTQ_ENGINE= driftq config --log debug | grep -E '^(listen|engine|limits.body_bytes|log) '
        listen  127.0.0.1:2  DRIFTQ_LISTEN
        engine  sqlite  default
        log  debug  --log
        limits.body_bytes  4194304  driftq.toml:4
        $ DRIFTQ_LISTEN=127.0.0.1:2 driftq config --listen 127.0.0.1:3 | grep ^listen
        listen  127.0.0.1:3  --listen
        $ printf 'insecure = true\n' > other.toml
        $ driftq config --config other.toml | grep -E '^(listen|insecure)'
        listen  127.0.0.1:8080  default
        insecure  true  other.toml:1
        $ DRIFTQ_CONFIG=other.toml driftq config --insecure=false | grep -E '^(listen|insecure)'
        listen  127.0.0.1:8080  default
        insecure  false  --insecure
        $ (umask 022; mkdir found; printf 'log = "warn"\ninsecure = true\n' > found/driftq.toml)
        $ cd found && driftq serve --engine memory
        ! error: driftq.toml:2: `insecure`: cannot be set in a driftq.toml that was not named; name the file with --config, or use --insecure
        [2]
        $ cd found && driftq config --config driftq.toml | grep ^insecure
        insecure  true  driftq.toml:2
        $ cd found && sed -i s/true/false/ driftq.toml && driftq config --insecure | grep ^insecure
        insecure  true  --insecure
        $ driftq config -o ndjson | grep body_bytes
        {"flag":"--limits-body-bytes","form":"BYTES","from":"driftq.toml:4","help":"Maximum size of a request body, at least twice limits.value_bytes, at most 64 MiB","key":"limits.body_bytes","value":4194304,"variable":"DRIFTQ_LIMITS_BODY_BYTES"}
    "#]]);
}

#[test]
fn lists_and_optional_values_are_read_from_every_source() {
    Stage::alone().check(&expect![[r#"
        $ printf 'http.allowed_origins = ["https://example.com", "http://localhost:5173"]\ndefaults.dlq_retention_ms = 86400000\n' > driftq.toml
        $ driftq config | grep -E 'origins|dlq_ret'
        http.allowed_origins  https://example.com,http://localhost:5173  driftq.toml:1
        defaults.dlq_retention_ms  86400000  driftq.toml:2
        $ DRIFTQ_DEFAULTS_DLQ_RETENTION_MS=none driftq config --http-allowed-origins https://localhost | grep -E 'origins|dlq_ret'
        http.allowed_origins  https://localhost  --http-allowed-origins
        defaults.dlq_retention_ms  none  DRIFTQ_DEFAULTS_DLQ_RETENTION_MS
        $ printf 'defaults.lease_ms = "1h30m"\ndefaults.retry_policy.backoff_ms = 250\ndefaults.retention_ms = "5x"\ndefaults.dlq_retention_ms = "2 days"\n' > durations.toml
        $ driftq config --config durations.toml
        ! error: durations.toml:3: `defaults.retention_ms`: must be a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds (got `5x`)
        ! error: durations.toml:4: `defaults.dlq_retention_ms`: must be a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds, or none (got `2 days`)
        [2]
        $ sed -i 3,4d durations.toml && driftq config --config durations.toml --cluster-lease-ms 20s | grep -E 'lease_ms|[.]backoff'
        cluster.lease_ms  20000  --cluster-lease-ms
        defaults.lease_ms  5400000  durations.toml:1
        defaults.retry_policy.backoff_ms  250  durations.toml:2
        $ DRIFTQ_DEFAULTS_RETENTION_MS=2d driftq config | grep retention_ms
        defaults.retention_ms  172800000  DRIFTQ_DEFAULTS_RETENTION_MS
        defaults.dlq_retention_ms  86400000  driftq.toml:2
        $ driftq config --defaults-retry-policy-max-attempts -1 | grep attempts
        defaults.retry_policy.max_attempts  -1  --defaults-retry-policy-max-attempts
    "#]]);
}

#[test]
fn a_profile_sets_values_that_are_not_given() {
    Stage::alone().check(&expect![[r#"
        $ printf '[defaults]\nprofile = "v1"\nmax_in_flight = 7\n' > driftq.toml
        $ driftq config | grep -E 'profile|lease_ms|in_flight|retention_ms'
        cluster.lease_ms  10000  default
        defaults.profile  v1  driftq.toml:2
        defaults.lease_ms  2000  profile v1
        defaults.max_in_flight  7  driftq.toml:3
        defaults.max_open  2  profile v1
        defaults.retry_policy.max_attempts  -1  profile v1
        defaults.retry_policy.backoff_ms  250  profile v1
        defaults.retry_policy.max_backoff_ms  250  profile v1
        defaults.max_backlog_messages  2  profile v1
        defaults.max_backlog_bytes  20  profile v1
        defaults.retention_ms  3600000  default
        defaults.dlq_retention_ms  none  default
        defaults.dedupe_ttl_ms  600000  profile v1
        defaults.dedupe_compare  key  profile v1
        defaults.effect_ttl_ms  600000  profile v1
        defaults.unkeyed  first  profile v1
        $ driftq config --profile none | grep -E 'profile|lease_ms|in_flight'
        cluster.lease_ms  10000  default
        defaults.profile  none  --profile
        defaults.lease_ms  30000  default
        defaults.max_in_flight  7  driftq.toml:3
    "#]]);
}

#[test]
fn an_invalid_file_is_reported_with_line_and_suggested_key() {
    Stage::alone().check(&expect![[r#"
        $ printf 'listen = "127.0.0.1:1"\n\n[limits]\nvalue_byte = 5\nconnections = "many"\n[limit]\nbody_bytes = 1\n[colour]\n' > driftq.toml
        $ driftq config
        ! error: driftq.toml:4: unknown key `limits.value_byte`; did you mean `limits.value_bytes`?
        ! error: driftq.toml:7: unknown key `limit.body_bytes`; did you mean `limits.body_bytes`?
        ! error: driftq.toml:8: unknown key `colour`
        ! error: driftq.toml:5: `limits.connections`: must be COUNT (got `many`)
        [2]
        $ driftq serve
        ! error: driftq.toml:4: unknown key `limits.value_byte`; did you mean `limits.value_bytes`?
        ! error: driftq.toml:7: unknown key `limit.body_bytes`; did you mean `limits.body_bytes`?
        ! error: driftq.toml:8: unknown key `colour`
        ! error: driftq.toml:5: `limits.connections`: must be COUNT (got `many`)
        [2]
        $ printf 'listen = \n' > driftq.toml
        $ driftq config
        ! error: driftq.toml:1: `listen =`: string values must be quoted, expected literal string
        [2]
        $ driftq config --config nowhere.toml
        ! error: nowhere.toml: No such file or directory (os error 2)
        [2]
    "#]]);
}

#[test]
fn invalid_values_are_rejected_before_the_server_starts() {
    Stage::alone().check(&expect![[r#"
        $ printf '[limits]\nvalue_bytes = 99999999\n[defaults]\nlease_ms = 1\n' > driftq.toml
        $ driftq serve --listen 0.0.0.0:0
        ! error: --listen: 0.0.0.0:0 is reachable from other machines; set --api-key-file, or --insecure if the network is trusted
        ! error: driftq.toml:2: `limits.value_bytes`: must be between 1 and 16777216 (got 99999999)
        ! error: driftq.toml:4: `defaults.lease_ms`: must be between 250 and 43200000 (got 1)
        [2]
        $ rm driftq.toml
        $ driftq config --limits-body-bytes 1000
        ! error: --limits-body-bytes: must be between 2097152 (twice limits.value_bytes) and 67108864 (got 1000)
        [2]
        $ driftq config --defaults-retry-policy-max-attempts 0
        ! error: --defaults-retry-policy-max-attempts: max_attempts must be between 1 and 1000, or -1
        [2]
        $ driftq config --http-allowed-origins example.com/
        ! error: --http-allowed-origins: `example.com/` is not an origin; write it as https://example.com or http://localhost:5173
        [2]
        $ DRIFTQ_LISTN=127.0.0.1:1 DRIFTQ_SERVICE_PORT=80 driftq config
        ! error: DRIFTQ_LISTN: unknown variable; did you mean `DRIFTQ_LISTEN`?
        [2]
        $ DRIFTQ_LOG=loud driftq config
        ! error: DRIFTQ_LOG: must be error|warn|info|debug|trace (got `loud`)
        [2]
        $ driftq config --engine postgres
        ! error: --database-url: is required by the postgres engine; write it as postgresql://user:password@host/database
        [2]
        $ driftq config --listen localhost
        ! error: --listen: must be IP:PORT (got `localhost`)
        [2]
    "#]]);
}

#[test]
fn the_api_key_is_never_printed() {
    Stage::alone().check(&expect![[r#"
        $ echo short > key.txt; chmod 600 key.txt
        $ driftq config --api-key-file key.txt
        ! error: --api-key-file: key.txt: the API key has 5 characters and must have at least 32; generate one with: openssl rand -hex 32
        [2]
        $ driftq config --api-key-file nowhere.txt
        ! error: --api-key-file: nowhere.txt: No such file or directory (os error 2)
        [2]
        $ echo 0123456789abcdef0123456789-secret > key.txt
        $ driftq config --api-key-file key.txt --listen 0.0.0.0:80 | grep -E 'listen|key'
        key  value  from
        listen  0.0.0.0:80  --listen
        api_key_file  key.txt  --api-key-file
        tls_key_file  none  default
        metrics_listen  none  default
        defaults.unkeyed  spread  default
        $ driftq config --api-key-file key.txt -o json | grep -c secret
        0
        [1]
    "#]]);
}
