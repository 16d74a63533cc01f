//! A node that could not renew stops serving before anybody else may begin.

use expect_test::expect;

use super::script::check;

/// A lease of 10 s, a margin of 2 s: counted from when the last renewal was asked for, at 1 s.
#[test]
fn a_node_that_cannot_renew_steps_down_before_its_lease_is_over() {
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
fn having_stepped_down_it_renews_first_and_claims_what_is_still_its_own() {
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

/// The first thing heard is whatever was waiting: it is not served by.
#[test]
fn a_process_that_was_stopped_notices_before_anything_else() {
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

/// It may have been done long ago, and another node may have the shard since.
#[test]
fn a_claim_that_was_under_way_when_the_lease_ended_is_dropped_when_it_is_answered() {
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
fn giving_up_does_not_outlast_the_lease() {
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

/// It was renewed, the database says, and is not alive, the database says: that is no renewal.
#[test]
fn a_view_without_this_node_is_no_renewal() {
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
