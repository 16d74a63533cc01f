//! A node that stops announces it, gives up its shards, and leaves.

use expect_test::expect;

use super::script::check;

#[test]
fn a_draining_node_gives_up_its_shards_and_leaves() {
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
        0.5s drain
            renew, draining
            give up 0e2
            next 8.000s
        0.51s view n1! n2 / 0:2@n1 1:1@n2 2:1@n1
            wishes 0:n2 1:n2 2:n2
            next 1.500s
        0.6s given up 0
            next 1.500s
        0.7s claimed 2 e2
            give up 2e2
            next 1.500s
        0.8s given up 2
            leave
            next: whatever comes
        0.9s time
            next: whatever comes
    "#]]);
}

/// A renewal in flight would restore the row of the node.
#[test]
fn a_node_does_not_leave_while_a_renewal_is_in_flight() {
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
        1.1s drain
            give up 0e2
            next 8.000s
        1.2s given up 0
            next 8.000s
        1.3s view n1 / 0:2@n1
            wishes 0:n1
            leave
            next: whatever comes
        1.4s view n1! / 0:2
            wishes 0:n1
            next: whatever comes
    "#]]);
}

#[test]
fn a_node_without_shards_leaves_at_once() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 / 0:0
            wishes 0:n1
            next 0.200s
        0.5s drain
            leave
            next: whatever comes
    "#]]);
}

#[test]
fn without_a_database_a_node_leaves_once_its_shards_are_dropped() {
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
        1s drain
            renew, draining
            give up 0e2
            next 8.000s
        3s no view
            renew, draining
            next 8.000s
        5s no view
            renew, draining
            next 8.000s
        7s no view
            renew, draining
            next 8.000s
        8s time
            abandon 0
            next: whatever comes
        8.01s given up 0
            next: whatever comes
        9s no view
            leave
            next: whatever comes
    "#]]);
}

/// The other node stops too, so neither claims a shard.
#[test]
fn no_shard_is_claimed_while_every_node_drains() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2! / 0:1@n1 1:1@n2
            wishes 0:n1 1:n1
            claim 0e1
            next 0.200s
        0.02s claimed 0 e2
            next 0.200s
        0.5s drain
            renew, draining
            give up 0e2
            next 8.000s
        0.51s view n1! n2! / 0:2@n1 1:1
            wishes 
            next 1.500s
        0.6s given up 0
            leave
            next: whatever comes
    "#]]);
}

#[test]
fn a_draining_node_owns_its_shards_until_it_gives_them_up() {
    check(expect![[r#"
        0s time
            renew
            next: whatever comes
        0.01s view n1 n2! / 0:1@n2 1:1@n2
            wishes 0:n1 1:n1
            next 0.200s
        1s time
            renew
            next 8.000s
        1.01s view n1 n2! / 0:1@n2 1:1
            wishes 0:n1 1:n1
            claim 1e1
            next 2.000s
        1.03s claimed 1 e2
            next 2.000s
        2s time
            renew
            next 9.000s
        2.01s view n1 / 0:1@n2 1:2@n1
            wishes 0:n1 1:n1
            next 3.000s
        3s time
            renew
            next 10.000s
        3.01s view n1 / 0:1@n2 1:2@n1
            wishes 0:n1 1:n1
            claim 0e1
            next 4.000s
    "#]]);
}
