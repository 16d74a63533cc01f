//! Effects without a delivery: the table of `begin` and the rules of `finish`.

use driftq_core::ShardConfig;
use expect_test::expect;

use crate::transcript::{World, check};

#[test]
fn an_effect_is_executed_once_and_replayed() {
    check(expect![[r#"
        0s begin op/charge k on=park request=1200 owner=api-1
            EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 succeeded result={"charge":"ch_1"}
            op/charge k.1 SUCCEEDED result {charge:ch_1}, kept until 604801s
        2s begin op/charge k on=park request=1200 owner=api-2
            REPLAY: op/charge k.1 SUCCEEDED result {charge:ch_1}, kept until 604801s
        3s effect op/charge k => op/charge k.1 SUCCEEDED result {charge:ch_1}, kept until 604801s
    "#]]);
}

#[test]
fn the_same_key_with_another_request_is_rejected_in_every_state() {
    check(expect![[r#"
        0s begin op/charge k on=probe request=1200 => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s begin op/charge k on=probe request=1300
            refused: this key was used for a different request; use a new key for a new request
        1s begin op/charge k on=probe
            refused: this key was used for a different request; use a new key for a new request
        1s begin op/charge k on=probe hash=1200
            refused: this key was used for a different request; use a new key for a new request
        1s begin op/charge none on=probe => EXECUTE: op/charge none.1 IN_PROGRESS until 31s
        1s begin op/charge none on=probe request=1200
            refused: this key was used for a different request; use a new key for a new request
        31s begin op/charge k on=probe request=1300
            refused: this key was used for a different request; use a new key for a new request
        32s finish op/charge k.1 retryable => op/charge k.1 FAILED_RETRYABLE, kept until 604832s
        32s begin op/charge k on=probe request=1300
            refused: this key was used for a different request; use a new key for a new request
        32s again op/charge k request=1300
            refused: this key was used for a different request; use a new key for a new request
        33s again op/charge k request=1200 => EXECUTE: op/charge k.2 IN_PROGRESS until 63s
        34s finish op/charge k.2 failed error=declined
            op/charge k.2 FAILED_FINAL "declined", kept until 604834s
        34s begin op/charge k on=probe request=1300
            refused: this key was used for a different request; use a new key for a new request
    "#]]);
}

#[test]
fn a_begin_repeated_with_its_nonce_returns_the_same_answer() {
    check(expect![[r#"
        0s begin op/charge k on=park nonce=a owner=api-1
            EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        10s begin op/charge k on=park nonce=a => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        10s begin op/charge k on=park nonce=b => IN_PROGRESS: fence 1 of "api-1", ask in 20000ms
        10s begin op/charge k on=park => IN_PROGRESS: fence 1 of "api-1", ask in 20000ms
        30s begin op/charge k on=park nonce=a
            park: fence 1 of "api-1" began 0s in doubt since 30s, lease_expired, ask in 60000ms
        31s begin op/charge l on=probe nonce=a => EXECUTE: op/charge l.1 IN_PROGRESS until 61s
        61s begin op/charge l on=probe nonce=b
            probe: op/charge l.2 IN_PROGRESS until 91s; fence 1 of "" began 31s in doubt since 61s, lease_expired
        62s begin op/charge l on=probe nonce=b
            probe: op/charge l.2 IN_PROGRESS until 91s; fence 1 of "" began 31s in doubt since 61s, lease_expired
        62s begin op/charge l on=probe nonce=a => IN_PROGRESS: fence 2 of "", ask in 29000ms
    "#]]);
}

#[test]
fn the_policy_of_the_first_begin_applies_to_doubt() {
    check(expect![[r#"
        0s begin op/retry k on=retry owner=w1 => EXECUTE: op/retry k.1 IN_PROGRESS until 30s
        0s begin op/probe k on=probe owner=w1 => EXECUTE: op/probe k.1 IN_PROGRESS until 30s
        0s begin op/park k on=park owner=w1 => EXECUTE: op/park k.1 IN_PROGRESS until 30s
        30s begin op/retry k on=park owner=w2
            EXECUTE: op/retry k.2 IN_PROGRESS until 60s; fence 1 of "w1" began 0s in doubt since 30s, lease_expired
        30s begin op/probe k on=park owner=w2
            probe: op/probe k.2 IN_PROGRESS until 60s; fence 1 of "w1" began 0s in doubt since 30s, lease_expired
        30s begin op/park k on=retry owner=w2
            park: fence 1 of "w1" began 0s in doubt since 30s, lease_expired, ask in 60000ms
        31s finish op/retry k.2 succeeded
            op/retry k.2 SUCCEEDED, kept until 604831s; fence 1 of "w1" began 0s in doubt since 30s, lease_expired
        31s finish op/probe k.2 succeeded
            op/probe k.2 SUCCEEDED, kept until 604831s; fence 1 of "w1" began 0s in doubt since 30s, lease_expired
        31s finish op/park k.1 succeeded => op/park k.1 SUCCEEDED, kept until 604831s
    "#]]);
}

#[test]
fn a_retry_past_the_provider_window_is_parked() {
    check(expect![[r#"
        0s begin op/charge k on=retry window=1m => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        59999ms begin op/charge k on=retry window=10m
            EXECUTE: op/charge k.2 IN_PROGRESS until 89.999s; fence 1 of "" began 0s in doubt since 30s, lease_expired
        89998ms wait
        89999ms begin op/charge k on=retry
            park: fence 2 of "" began 59.999s in doubt since 89.999s, lease_expired, ask in 60000ms
        89999ms effects PARKED
            op/charge k.2 PARKED; fence 2 of "" began 59.999s in doubt since 89.999s, lease_expired (scanned 1, the end)
        2m finish op/charge k.2 retryable renew
            op/charge k.2 FAILED_RETRYABLE, kept until 604920s
        2m again op/charge k => EXECUTE: op/charge k.3 IN_PROGRESS until 150s; key renewed 1 times
        3m effect op/charge k
            op/charge k.3 PARKED; fence 3 of "" began 120s in doubt since 150s, lease_expired; key renewed 1 times
    "#]]);
}

#[test]
fn a_retryable_failure_is_reacquired_under_a_higher_fence() {
    check(expect![[r#"
        0s again op/charge k => refused: no such effect
        0s begin op/charge k on=retry => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        0s again op/charge k => IN_PROGRESS: fence 1 of "", ask in 30000ms
        1s finish op/charge k.1 retryable code=503 error=busy
            op/charge k.1 FAILED_RETRYABLE code 503 "busy", kept until 604801s
        2s begin op/charge k on=retry
            RETRYABLE: op/charge k.1 FAILED_RETRYABLE code 503 "busy", kept until 604801s
        3s again op/charge k owner=w2 => EXECUTE: op/charge k.2 IN_PROGRESS until 33s
        4s finish op/charge k.1 succeeded
            refused: fence 1 is not current: the effect is IN_PROGRESS at fence 2
        5s finish op/charge k.2 succeeded code=7
            op/charge k.2 SUCCEEDED code 7, kept until 604805s
        6s again op/charge k => REPLAY: op/charge k.2 SUCCEEDED code 7, kept until 604805s
    "#]]);
}

#[test]
fn only_the_latest_fence_can_finish_and_only_once() {
    check(expect![[r#"
        0s begin op/charge k on=retry => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 unknown error=timeout
            op/charge k.1 IN_DOUBT "timeout"; fence 1 of "" began 0s in doubt since 1s, reported
            op/charge k.1 in doubt: reported
        1s finish op/charge k.1 unknown error=timeout
            as before: op/charge k.1 IN_DOUBT "timeout"; fence 1 of "" began 0s in doubt since 1s, reported
        2s begin op/charge k on=retry
            EXECUTE: op/charge k.2 IN_PROGRESS until 32s; fence 1 of "" began 0s in doubt since 1s, reported
        3s finish op/charge k.1 succeeded
            refused: fence 1 is not current: the effect is IN_PROGRESS at fence 2
        4s finish op/charge k.2 succeeded result=1
            op/charge k.2 SUCCEEDED result 1, kept until 604804s; fence 1 of "" began 0s in doubt since 1s, reported
        5s finish op/charge k.2 succeeded result=1
            as before: op/charge k.2 SUCCEEDED result 1, kept until 604804s; fence 1 of "" began 0s in doubt since 1s, reported
        5s finish op/charge k.2 succeeded result=2
            refused: this fence is already finished with a different outcome
        5s finish op/charge k.2 failed error=no
            refused: this fence is already finished with a different outcome
        5s finish op/charge k.2 unknown
            refused: this fence is already finished with a different outcome
        5s extend-effect op/charge k.2
            refused: fence 2 is not current: the effect is SUCCEEDED at fence 2
        5s extend-effect op/charge k.1
            refused: fence 1 is not current: the effect is SUCCEEDED at fence 2
    "#]]);
}

#[test]
fn a_late_finish_with_the_latest_fence_is_accepted() {
    check(expect![[r#"
        0s begin op/charge k on=park => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 unknown error=timeout
            op/charge k.1 PARKED "timeout"; fence 1 of "" began 0s in doubt since 1s, reported
            op/charge k.1 in doubt: reported
        2s finish op/charge k.1 succeeded => op/charge k.1 SUCCEEDED, kept until 604802s
        2s begin op/charge l on=park => EXECUTE: op/charge l.1 IN_PROGRESS until 32s
        40s begin op/charge l on=park
            park: fence 1 of "" began 2s in doubt since 32s, lease_expired, ask in 60000ms
        41s finish op/charge l.1 failed error=declined
            op/charge l.1 FAILED_FINAL "declined", kept until 604841s
        42s begin op/charge l on=park
            REPLAY: op/charge l.1 FAILED_FINAL "declined", kept until 604841s
    "#]]);
}

#[test]
fn only_an_effect_in_doubt_can_be_resolved() {
    check(expect![[r#"
        0s begin op/charge k on=park => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s resolve op/charge k.1 as=succeeded
            refused: the effect is IN_PROGRESS; only an effect in doubt can be resolved
        30s resolve op/charge k.2 as=succeeded
            refused: fence 2 is not current: the effect is PARKED at fence 1
        30s resolve op/charge k.1 as=succeeded by=
            refused: by: is required: it is stored with the outcome
        30s resolve op/charge k.1 as=succeeded reason=
            refused: reason: is required: it is stored with the outcome
        31s resolve op/charge k.1 as=succeeded by=eva reason="found it" result=1
            op/charge k.1 SUCCEEDED result 1, kept until 604831s; Succeeded by eva: found it
        32s finish op/charge k.1 succeeded result=1
            refused: fence 1 is not current: the effect is SUCCEEDED at fence 1
        33s begin op/charge k on=park
            REPLAY: op/charge k.1 SUCCEEDED result 1, kept until 604831s; Succeeded by eva: found it
        34s resolve op/charge k.1 as=failed
            refused: the effect is SUCCEEDED; only an effect in doubt can be resolved
        34s resolve op/charge none.1 as=failed => refused: no such effect
        35s begin op/charge l on=probe => EXECUTE: op/charge l.1 IN_PROGRESS until 65s
        65s resolve op/charge l.1 as=retry
            op/charge l.1 FAILED_RETRYABLE, kept until 604865s; Retry by ops: looked
        66s finish op/charge l.1 succeeded
            refused: fence 1 is not current: the effect is FAILED_RETRYABLE at fence 1
        66s again op/charge l => EXECUTE: op/charge l.2 IN_PROGRESS until 96s
        67s finish op/charge l.2 succeeded => op/charge l.2 SUCCEEDED, kept until 604867s
        68s finish op/charge l.2 succeeded => as before: op/charge l.2 SUCCEEDED, kept until 604867s
        68s begin op/charge m on=park => EXECUTE: op/charge m.1 IN_PROGRESS until 98s
        98s resolve op/charge m.1 as=failed error="never sent"
            op/charge m.1 FAILED_FINAL "never sent", kept until 604898s; Failed by ops: looked
        98s effect op/charge m
            op/charge m.1 FAILED_FINAL "never sent", kept until 604898s; Failed by ops: looked
    "#]]);
}

#[test]
fn extend_renews_the_lease_of_an_effect() {
    check(expect![[r#"
        0s begin op/charge k on=park lease=1s => EXECUTE: op/charge k.1 IN_PROGRESS until 1s
        500ms extend-effect op/charge k.1 => extended until 1.500s
        1499ms begin op/charge k on=park => IN_PROGRESS: fence 1 of "", ask in 1ms
        1499ms extend-effect op/charge k.1 lease=5s => extended until 6.499s
        6499ms extend-effect op/charge k.1
            refused: fence 1 is not current: the effect is PARKED at fence 1
    "#]]);
}

#[test]
fn an_expired_outcome_allows_a_new_execution() {
    check(expect![[r#"
        0s begin op/charge k on=retry ttl=1m => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 succeeded result=1
            op/charge k.1 SUCCEEDED result 1, kept until 61s
        60999ms begin op/charge k on=retry request=other
            refused: this key was used for a different request; use a new key for a new request
        60999ms begin op/charge k on=retry
            REPLAY: op/charge k.1 SUCCEEDED result 1, kept until 61s
        61s begin op/charge k on=retry request=other
            expire to 61.001s
            EXECUTE: op/charge k.1 IN_PROGRESS until 91s
        62s finish op/charge k.1 succeeded result=2
            op/charge k.1 SUCCEEDED result 2, kept until 604862s
        3m wait
        3m effect op/charge k => op/charge k.1 SUCCEEDED result 2, kept until 604862s
        30d effect op/charge k
            expire to 604862.001s
            refused: no such effect
        30d rows record => record 0
    "#]]);
}

/// A token issued for an earlier life of the key is not valid for a later one, although both have
/// fence 1.
#[test]
fn a_token_of_an_expired_effect_is_rejected() {
    check(expect![[r#"
        0s begin op/charge k on=retry ttl=1m => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        0s keep-effect op/charge k.1 as old
        1s finish op/charge k.1 succeeded result=1
            op/charge k.1 SUCCEEDED result 1, kept until 61s
        2m begin op/charge k on=retry
            expire to 61.001s
            EXECUTE: op/charge k.1 IN_PROGRESS until 150s
        2m finish op/charge k.1 succeeded token=old result=2 => refused: no such effect
        2m finish op/charge k.1 succeeded result=3
            op/charge k.1 SUCCEEDED result 3, kept until 604920s
    "#]]);
}

#[test]
fn equal_keys_of_two_tenants_or_scopes_are_different_effects() {
    check(expect![[r#"
        0s begin op/charge k on=retry => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        0s begin op/charge k on=retry tenant=acme
            EXECUTE: acme:op/charge k.1 IN_PROGRESS until 30s
        0s begin op/charge k on=retry tenant=default => IN_PROGRESS: fence 1 of "", ask in 30000ms
        0s begin op/refund k on=retry => EXECUTE: op/refund k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 succeeded => op/charge k.1 SUCCEEDED, kept until 604801s
        2s effect op/charge k tenant=acme => acme:op/charge k.1 IN_PROGRESS until 30s
        2s effect op/refund k => op/refund k.1 IN_PROGRESS until 30s
        2s effects IN_PROGRESS tenant=acme
            acme:op/charge k.1 IN_PROGRESS until 30s (scanned 2, the end)
        2s effects IN_PROGRESS scope=op/refund
            op/refund k.1 IN_PROGRESS until 30s (scanned 2, the end)
    "#]]);
}

#[test]
fn effects_survive_a_crash() {
    check(expect![[r#"
        0s begin op/charge k on=probe window=1h request=x
            EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s begin op/charge l on=park => EXECUTE: op/charge l.1 IN_PROGRESS until 31s
        2s finish op/charge l.1 succeeded result=[1]
            op/charge l.1 SUCCEEDED result [1], kept until 604802s
        3s crash until 32s
        33s begin op/charge k on=probe request=x => IN_PROGRESS: fence 1 of "", ask in 9000ms
        42s begin op/charge k on=probe request=x
            probe: op/charge k.2 IN_PROGRESS until 72s; fence 1 of "" began 0s in doubt since 42s, lease_expired
        43s begin op/charge l on=park
            REPLAY: op/charge l.1 SUCCEEDED result [1], kept until 604802s
        44s crash
        45s finish op/charge k.2 succeeded
            op/charge k.2 SUCCEEDED, kept until 604845s; fence 1 of "" began 0s in doubt since 42s, lease_expired
    "#]]);
}

#[test]
fn a_begin_with_invalid_fields_is_rejected() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s begin op/charge k
            refused: on_doubt: must be retry, probe or park: it decides what happens if a worker dies before finish
        0s begin op/charge k on=retry lease=249ms
            refused: lease_ms: must be between 250 and 43200000 (got 249)
        0s begin op/charge k on=retry ttl=59s
            refused: ttl_ms: must be between 60000 and 31536000000
        0s begin op/charge k on=retry window=0ms
            refused: provider_window_ms: must be between 1 and 315360000000
        0s begin op/charge k on=retry nonce=üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
            refused: nonce: must be 1 to 64 characters
        0s begin op/charge k on=retry hash=üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü
            refused: request_hash: must be 1 to 128 characters
        0s begin op/charge k on=retry owner=oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo
            refused: owner: must be 1 to 255 printable bytes
        0s begin op/charge wide on=retry nonce=üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü hash=üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü owner=ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo
            EXECUTE: op/charge wide.1 IN_PROGRESS until 30s
        0s begin effect/orders/biller k on=retry
            refused: scope: effect/… requires a lease_token
        0s begin produce/orders k on=retry => refused: scope: produce/… is read-only
        0s begin op/charge k on=retry => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        1s finish op/charge k.1 retryable result=1
            refused: result: is allowed only with SUCCEEDED or FAILED_FINAL
        1s finish op/charge k.1 unknown result=1
            refused: result: is allowed only with SUCCEEDED or FAILED_FINAL
        1s finish op/charge k.1 succeeded error=no => refused: error: is not allowed with SUCCEEDED
        1s effects SUCCEEDED => refused: state: must be IN_PROGRESS, IN_DOUBT or PARKED
        1s effect op/charge none => refused: no such effect
        1s effect effect/orders/biller k => refused: no such effect
        1s effect effect/none/biller k => refused: no such topic
    "#]]);
}

#[test]
fn a_new_effect_is_rejected_while_storage_is_nearly_full() {
    check(expect![[r#"
        0s begin op/charge k on=park => EXECUTE: op/charge k.1 IN_PROGRESS until 30s
        0s storage low => ok
        1s begin op/charge l on=park => full: storage
        1s begin op/charge k on=park => IN_PROGRESS: fence 1 of "", ask in 29000ms
        1s finish op/charge k.1 succeeded => op/charge k.1 SUCCEEDED, kept until 604801s
        2s storage fine => ok
        2s begin op/charge l on=park => EXECUTE: op/charge l.1 IN_PROGRESS until 32s
    "#]]);
}

#[test]
fn a_stored_idempotency_key_can_be_read_as_an_effect() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders hello idem=order-77 => stored 0:0
        1s effect produce/orders order-77 => taken by 0:0 until 604800s
        1s effect produce/orders order-78 => refused: no such effect
    "#]]);
}

#[test]
fn a_fence_after_a_restore_is_higher_and_below_2_to_the_53() {
    for (restore, fence) in [(0, 1), (1, (1 << 21) + 1), (u32::MAX, (1 << 53) - (1 << 21) + 1)] {
        let mut world = World::new(ShardConfig { restore, ..ShardConfig::default() });
        let began = world.ask("0s begin op/charge k on=park");
        let message = format!("EXECUTE: op/charge k.{fence} IN_PROGRESS until 30s");
        assert_eq!(began, message);
        assert!(fence < 1_u64 << 53);
    }
}
