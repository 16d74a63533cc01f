//! A worker that is about to end leaves: it gets nothing more, on any of its connections.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_worker_that_left_gets_nothing_for_a_minute() {
    check(expect![[r#"
        1s topic orders 1 => created
        1s group orders/biller => created
        2s join a orders/biller poll worker=w1 credit=1 => joined
        2s join b orders/biller worker=w1 credit=1 => joined
        2s join c orders/biller worker=w2 credit=1 => joined
        3s leaveworker w1
            ok
            a is dismissed
            b is dismissed
        4s produce orders m0 + produce orders m1
            stored 0:0
            stored 0:1
            c gets orders/biller 0:0.1 "m0" spent 1 until 34s
        5s join d orders/biller poll worker=w1
            joined
            d is dismissed
        62s join e orders/biller poll worker=w1
            orders/biller 0:0 expired, due 34.342s
            c gets orders/biller 0:1.1 "m1" spent 1 until 64s
            joined
            e is dismissed
        63s join f orders/biller poll worker=w1
            joined
            f gets orders/biller 0:0.2 "m0" spent 2 until 93s after "ack_timeout"
        64s leaveworker w9
            orders/biller 0:1 expired, due 64.999s
            ok
        65s crash => c gets orders/biller 0:1.2 "m1" spent 2 until 94.999s after "ack_timeout"
        66s join g orders/biller poll worker=w1 => joined
    "#]]);
}

#[test]
fn what_a_worker_holds_stays_leased_until_it_settles() {
    check(expect![[r#"
        1s topic orders 1 => created
        2s join a orders/biller worker=w1 => joined
        3s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 33s
        4s leaveworker w1
            ok
            a is dismissed
        5s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
    "#]]);
}
