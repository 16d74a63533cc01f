//! A node that cannot renew stops serving before another node may start.

use expect_test::expect;

use super::script::check;

/// The lease is 10 s and the margin 2 s, counted from the request of the last
/// successful renewal, at 1 s.
#[test]
fn a_node_that_cannot_renew_steps_down_before_its_lease_expires() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2 2:1@n1
            wishes 0:n1 1:n2 2:n1
            claim 0e1 2e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.9s view n1 n2 / 0:2@n1 1:1@n2 2:1@n1
            wishes 0:n1 1:n2 2:n1
            next 2.000s
        2s time
            renew
            next 9.000s
        4s no view
            renew
            next 9.000s
        5s no view
            renew
            next 9.000s
        5.001s no view
            next 6.000s
        6s time
            renew
            next 9.000s
        8s no view
            renew
            next 9.000s
        8.999s time
            next 9.000s
        9s time
            abandon 0 2
            next: whatever comes
        10s no view
            renew
            next: whatever comes
    "#]]);
}

#[test]
fn after_stepping_down_a_node_renews_and_reclaims_its_shards() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s no view
            next 2.000s
        8s time
            abandon 0
            renew
            next: whatever comes
        8.01s no view
            next 9.000s
        9s time
            renew
            next: whatever comes
        9.01s view n1 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n1
            claim 0e2
            next 9.200s
        9.03s claimed 0 e3
            next 9.200s
        10s time
            renew
            next 17.000s
        10.01s view n1 / 0:3@n1 1:1@n2
            wishes 0:n1 1:n1
            next 11.000s
    "#]]);
}

/// The first event after the stop is an old one. The node must not act on it.
#[test]
fn a_suspended_process_steps_down_before_it_handles_any_event() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n2
            wishes 0:n1 1:n2
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        61s view n1 n2 / 0:2@n1 1:1@n2
            wishes 0:n1 1:n2
            abandon 0
            renew
            next: whatever comes
        61.01s view n1 n2 / 0:3@n2 1:1@n2
            wishes 0:n2 1:n1
            next 61.200s
    "#]]);
}

/// The claim may have happened long ago, and another node may have claimed the shard since.
#[test]
fn a_claim_in_flight_when_the_lease_expires_is_dropped() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:1@n1 1:1@n1
            wishes 0:n1 1:n1
            claim 0e1 1e1
            next 0.200s
        8s time
            abandon 0 1
            renew
            next: whatever comes
        8.01s view n1 / 0:1@n1 1:2@n1
            wishes 0:n1 1:n1
            next 8.200s
        8.5s claimed 1 e2
            abandon 1
            renew
            claim 1e2
            next 16.000s
        8.6s not claimed 0
            next 8.637s
        9s time
            claim 0e1
            next 16.000s
    "#]]);
}

#[test]
fn shards_being_given_up_are_abandoned_when_the_lease_expires() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2 / 0:1@n1 1:1@n1
            wishes 0:n1 1:n2
            claim 0e1
            give up 1e1
            next 0.200s
        8s time
            abandon 0 1
            renew
            next: whatever comes
        8.1s given up 1
            next: whatever comes
    "#]]);
}

/// The database accepted the renewal but does not list the node as alive, so the renewal does not
/// count.
#[test]
fn a_view_without_this_node_does_not_count_as_a_renewal() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:1@n1
            wishes 0:n1
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n2 / 0:2@n1
            wishes 0:n1
            next 2.000s
        2s time
            renew
            next 8.000s
        2.01s no view
            next 3.000s
        8s time
            abandon 0
            renew
            next: whatever comes
    "#]]);
}
