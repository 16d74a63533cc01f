//! A damaged row stops its lane or cursor and nothing else. Nothing is skipped before a repair.

use expect_test::expect;

use crate::transcript::check;

#[test]
fn a_damaged_page_stops_its_lane_until_it_is_repaired() {
    check(expect![[r#"
        100s topic orders 2 => created
        100s group orders/biller => created
        100s produce orders m0 p=0 => stored 0:0
        101s produce orders m1 p=0 => stored 0:1
        102s produce orders n0 p=1 => stored 1:0
        103s crash and damage page 1
        104s join a orders/biller
            joined
            a gets orders/biller 1:0.1 "n0" spent 1 until 134s
            damage: row Page { topic: TopicId(1), lane: Lane(0), last: 1 } is damaged: its checksum is wrong
        105s produce orders m2 p=0 => stored 0:2
        106s view orders/biller
            next 0 of 3, committed -1, backlog 3, leased 0, waiting 0, quarantined; next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
        106s explain orders/biller
            nothing is delivered: stored rows are damaged; run `driftq shard repair`; 3 not delivered yet, 1 leased to consumers
        107s peek orders 0
            refused: stored data is damaged (row Page { topic: TopicId(1), lane: Lane(0), last: 1 } is damaged: its checksum is wrong); nothing was changed
            damage: row Page { topic: TopicId(1), lane: Lane(0), last: 1 } is damaged: its checksum is wrong
        108s repair orders 0 dry => lost [(1, 2)], reopened [], next 2
        108s repair orders 0 dry from=2 => lost [], reopened [], next 3
        108s repair orders 0 dry from=4 => lost [], reopened [], done
        109s repair orders 0
            lost [], reopened [], next 1
            dead letter 0:1 is gone
        109s repair orders 0 from=1
            lost [(1, 2)], reopened [], next 2
            0:1..2 lost
        109s repair orders 0 from=2 => lost [], reopened [], next 3
        109s repair orders 0 from=3
            lost [], reopened [], done
            a gets orders/biller 0:0.1 "m0" spent 1 until 139s
            a gets orders/biller 0:2.1 "m2" spent 1 until 139s
        110s view orders/biller
            next 3 of 3, committed -1, backlog 2, leased 2, waiting 0, nothing_new; next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, nothing_new
    "#]]);
}

#[test]
fn a_missing_page_stops_its_lane_until_it_is_repaired() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s group orders/biller => created
        100s produce orders m0 => stored 0:0
        101s produce orders m1 => stored 0:1
        102s produce orders m2 => stored 0:2
        103s crash and lose page 1
        104s join a orders/biller credit=1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 134s
            damage: row page of topic 1, lane 0, offset 1 is damaged: it is missing
        105s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        106s crash
        107s join a orders/biller
            joined
            damage: row page of topic 1, lane 0, offset 1 is damaged: it is missing
        108s repair orders 0
            lost [(1, 2)], reopened [], next 2
            0:1..2 lost
        108s repair orders 0 from=2 => lost [], reopened [], next 3
        108s repair orders 0 from=3
            lost [], reopened [], done
            a gets orders/biller 0:2.1 "m2" spent 1 until 138s
        109s ack orders/biller 0:2.1
            ok
            orders/biller 0:2 acked
        110s crash
        111s view orders/biller
            next 3 of 3, committed 2, backlog 0, leased 0, waiting 0, no_consumers
    "#]]);
}

#[test]
fn a_repair_ends_the_open_delivery_of_a_lost_message() {
    check(expect![[r#"
        100s topic orders 1 retry=1,1s,1s => created
        100s join a orders/biller => joined
        101s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 131s
        102s crash and lose page 0
        103s begin-under orders/biller 0:0.1 on=park
            refused: stored data is damaged (row page of topic 1, lane 0, offset 0 is damaged: it is missing); nothing was changed
            damage: row page of topic 1, lane 0, offset 0 is damaged: it is missing
        140s view orders/biller
            damage: row page of topic 1, lane 0, offset 0 is damaged: it is missing
            next 1 of 1, committed -1, backlog 1, leased 1, waiting 0, quarantined
        141s repair orders 0
            lost [(0, 1)], reopened [], next 1
            orders/biller 0:0 purged
            0:0..1 lost
        141s repair orders 0 from=1 => lost [], reopened [], done
        142s view orders/biller
            next 1 of 1, committed 0, backlog 0, leased 0, waiting 0, no_consumers
        143s ack orders/biller 0:0.1 => ok
    "#]]);
}

#[test]
fn a_damaged_block_stops_its_cursor_and_its_messages_are_delivered_again() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s group orders/audit => created
        100s join a orders/biller => joined
        101s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 131s
        101s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 131s
        101s produce orders m2
            stored 0:2
            a gets orders/biller 0:2.1 "m2" spent 1 until 131s
        102s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
        102s begin-under orders/biller 0:0.1 on=park
            EXECUTE: effect/orders/biller m_aaaacaaa.1 IN_PROGRESS until 131s
        103s crash and damage block 0
        104s join a orders/biller => joined
        104s join b orders/audit
            joined
            b gets orders/audit 0:0.1 "m0" spent 1 until 134s
            b gets orders/audit 0:1.1 "m1" spent 1 until 134s
            b gets orders/audit 0:2.1 "m2" spent 1 until 134s
        105s ack orders/biller 0:0.1
            refused: stored data is damaged (row Block { generation: Generation(5), lane: Lane(0), block: 0, batch: BatchNo(8) } is damaged: its checksum is wrong); nothing was changed
            damage: row Block { generation: Generation(5), lane: Lane(0), block: 0, batch: BatchNo(8) } is damaged: its checksum is wrong
        106s view orders/biller
            next 3 of 3, committed -1, backlog 0, leased 0, waiting 0, quarantined
        107s repair orders 0 dry from=3 => lost [], reopened [("biller", 0, 3)], done
        108s repair orders 0 from=3
            lost [], reopened [("biller", 0, 3)], next 3
            orders/biller 0:0 returned, due 108s
            orders/biller 0:1 returned, due 108s
            orders/biller 0:2 returned, due 108s
            block 0 repaired
            a gets orders/biller 0:0.65537 "m0" spent 1 until 138s
            a gets orders/biller 0:1.65537 "m1" spent 1 until 138s
            a gets orders/biller 0:2.65537 "m2" spent 1 until 138s
        108s repair orders 0 from=3 => lost [], reopened [], done
        109s ack orders/biller 0:0.1 => stale: leased, attempt 65537 is current
        111s ack orders/biller 0:2.65537
            ok
            orders/biller 0:2 acked
        112s crash
        113s view orders/biller
            next 3 of 3, committed -1, backlog 2, leased 2, waiting 0, consumers_full
    "#]]);
}

#[test]
fn a_missing_block_stops_its_cursor() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s join a orders/biller => joined
        101s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 131s
        102s crash and lose block 0
        103s view orders/biller
            next 1 of 1, committed -1, backlog 0, leased 0, waiting 0, quarantined
        104s repair orders 0 from=1
            lost [], reopened [("biller", 0, 1)], next 1
            orders/biller 0:0 returned, due 104s
            block 0 repaired
        104s repair orders 0 from=1 => lost [], reopened [], done
        105s join a orders/biller
            joined
            a gets orders/biller 0:0.65537 "m0" spent 1 until 135s
    "#]]);
}

#[test]
fn a_lane_in_quarantine_is_not_trimmed() {
    check(expect![[r#"
        1000s topic orders 1 retention=0s => created
        1000s join a orders/biller => joined
        1001s produce orders m0
            stored 0:0
            a gets orders/biller 0:0.1 "m0" spent 1 until 1031s
        1002s produce orders m1
            stored 0:1
            a gets orders/biller 0:1.1 "m1" spent 1 until 1032s
        1003s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
            trim 0:1..2
        1004s crash and damage block 0
        1100s rows page => page 1
        1101s repair orders 0 from=2
            lost [], reopened [("biller", 0, 1)], next 2
            orders/biller 0:0 returned, due 1101s
        1101s repair orders 0 from=2
            lost [], reopened [], next 2
            block 0 repaired
        1102s join a orders/biller
            joined
            a gets orders/biller 0:0.65537 "m0" spent 1 until 1132s
        1103s ack orders/biller 0:0.65537
            ok
            orders/biller 0:0 acked
            trim 0:0..2
        1200s rows page => page 0
    "#]]);
}

#[test]
fn a_missing_owner_row_loses_only_the_name() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s produce orders m0 => stored 0:0
        100s join a orders/biller owner=w1
            joined
            a gets orders/biller 0:0.1 "m0" spent 1 until 130s
        101s crash and lose owner 0
        102s ack orders/biller 0:0 owner=w1 => refused: not owner
        102s join b orders/biller owner=w2 => joined
        103s ack orders/biller 0:0.1
            ok
            orders/biller 0:0 acked
        104s produce orders m1
            stored 0:1
            b gets orders/biller 0:1.1 "m1" spent 1 until 134s
        105s ack orders/biller 0:1.1
            ok
            orders/biller 0:1 acked
    "#]]);
}

#[test]
fn a_repeated_commit_is_answered_although_its_message_is_damaged() {
    check(expect![[r#"
        0s topic orders 1 => created
        0s produce orders a => stored 0:0
        0s join a orders/biller lease=10s credit=1 owner=w1
            joined
            a gets orders/biller 0:0.1 "a" spent 1 until 10s
        1s commit orders/biller 0:0.1 produce="orders b"
            committed, orders 0:1
            orders/biller 0:0 acked
            a gets orders/biller 0:1.1 "b" spent 1 until 11s
        2s crash and damage page 0
        3s commit orders/biller 0:0.1 produce="orders b" => committed before, orders 0:1
        3s commit orders/biller 0:0.1 produce="orders c"
            refused: this delivery is already committed with different content
    "#]]);
}

#[test]
fn rows_of_a_later_release_are_not_repaired() {
    check(expect![[r#"
        100s topic orders 1 => created
        100s group orders/biller => created
        100s produce orders m0 => stored 0:0
        101s crash and write newer page 0
        102s join a orders/biller
            joined
            damage: row Page { topic: TopicId(1), lane: Lane(0), last: 0 } is damaged: its version is unknown
        103s repair orders 0 dry
            refused: a later release has written rows of this partition: serve it with that release; a repair would delete them
        103s repair orders 0
            refused: a later release has written rows of this partition: serve it with that release; a repair would delete them
        105s topic jobs 1 => created
        105s group jobs/runner => created
        105s produce jobs j0 => stored 0:0
        106s join b jobs/runner
            joined
            b gets jobs/runner 0:0.1 "j0" spent 1 until 136s
        107s crash and write newer block 0
        108s repair jobs 0 from=1
            refused: a later release has written rows of this partition: serve it with that release; a repair would delete them
    "#]]);
}
