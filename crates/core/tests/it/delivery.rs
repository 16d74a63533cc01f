//! What is produced is delivered, once to each group, until it is settled.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_message_is_delivered_and_acked() {
    check(expect![[r#"
        0s topic orders 2
            created
        0s produce orders hello key=a
            stored 0:0
        1s join a orders/biller lease=30s
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 31s
        2s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        3s ack orders/biller 0:0.1
            ok
        60s view orders/biller
            next 1 of 1, backlog 0, leased 0, waiting 0, nothing_new; next 0 of 0, backlog 0, leased 0, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_lease_that_runs_out_is_delivered_again_and_the_first_worker_is_refused() {
    check(expect![[r#"
        0s topic orders 1 retry=3,1s,8s
            created
        0s produce orders hello
            stored 0:0
        0s join a orders/biller lease=10s credit=1
            joined
            a gets orders/biller 0:0.1 "hello" spent 1 until 10s
        10s wait
            orders/biller 0:0 expired, due 10.342s
        12s ack orders/biller 0:0.1
            a gets orders/biller 0:0.2 "hello" spent 2 until 20.342s after "ack_timeout"
            stale: leased, attempt 2 is current
        13s ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
        14s ack orders/biller 0:0.2
            ok
    "#]]);
}
