//! Owner names are stored only while a consumer or an open message uses them.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_name_is_kept_while_a_consumer_uses_it() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller owner=worker + join b orders/mailer owner=worker + join c orders/biller owner=other
            joined
            joined
            joined
        2s rows owner => owner 2
        3s leave a => ok
        4s rows owner => owner 2
        5s leave b => ok
        6s rows owner => owner 1
        7s leave c => ok
        8s rows owner => owner 0
    "#]]);
}

#[test]
fn a_name_is_kept_while_an_open_message_uses_it() {
    check(expect![[r#"
        1s topic orders 1 retry=9,1h,1h => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller owner=worker
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s leave a => ok
        3s rows owner => owner 1
        4s nack orders/biller 0:0 owner=worker
            ok
            orders/biller 0:0 nacked, due 1876.645s
        5s rows owner => owner 1
        3h join b orders/biller owner=other
            joined
            b gets orders/biller 0:0.2 "m0" spent 2 until 10830s after "nack"
        3h rows owner => owner 1
        3h leave b => ok
        3h rows owner => owner 1
        3h ack orders/biller 0:0.2
            ok
            orders/biller 0:0 acked
            trim 0:0..1
        3h rows owner => owner 0
    "#]]);
}

#[test]
fn a_name_is_deleted_with_the_last_group_that_used_it() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller owner=worker
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        2s leave a => ok
        3s delete orders/biller
            deleted with backlog 1, open 1
            sweep blocks 3 0:0..1
            sweep cursor 3 0
        4s rows owner => owner 0
    "#]]);
}

#[test]
fn after_a_crash_names_used_only_by_consumers_are_deleted() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s produce orders m0 => stored 0:0
        1s join a orders/biller owner=holder credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 31s
        1s join b orders/biller owner=idle => joined
        2s rows owner => owner 2
        3s crash
        4s produce orders m1 => stored 0:1
        5s rows owner => owner 1
        6s ack orders/biller 0:0 owner=idle => refused: not owner
        7s ack orders/biller 0:0 owner=holder
            ok
            orders/biller 0:0 acked
        8s rows owner => owner 0
    "#]]);
}

#[test]
fn a_deleted_name_can_be_used_again() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s join a orders/biller owner=worker => joined
        2s leave a + join b orders/biller owner=worker
            ok
            joined
        3s rows owner => owner 1
        4s leave b => ok
        5s rows owner => owner 0
        6s join c orders/biller owner=worker => joined
        7s produce orders m0
            stored 0:0
            c gets orders/biller 0:0.1 "m0" spent 1 until 37s
        8s ack orders/biller 0:0 owner=worker
            ok
            orders/biller 0:0 acked
    "#]]);
}
