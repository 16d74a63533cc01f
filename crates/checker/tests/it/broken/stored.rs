//! Bad histories of stored messages, their order and their keys.

use driftq_checker::history::{Fact, Op, Produce, Settings};

use super::operator::{set, settings};
use crate::tale::{Tale, content, duplicate_of, group_made, id, moved, orders, produced};
use crate::tale_of_commits::arrived_there;

pub(super) fn answered_but_not_stored(tale: &mut Tale, wrong: bool) {
    tale.commits([]);
    if wrong {
        let call = tale.sends(1);
        tale.is_done(call, produced(0));
    } else {
        tale.produces(1);
    }
}

pub(super) fn stored_but_never_sent(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let call = tale.sends(if wrong { 9 } else { 1 });
    tale.stores(1, |_| ());
    tale.is_lost(call);
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn delivered_with_another_key(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.grants(0, 1, |_| ());
    tale.delivers(0, 1, |delivery| {
        if wrong {
            delivery.message.key = "cust-8".into();
        }
    });
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn delivered_under_another_id(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.produces(1);
    tale.grants(0, 1, |_| ());
    tale.delivers(0, 1, |delivery| delivery.id = id(if wrong { 9 } else { 0 }));
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn refused_and_stored(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let call = tale.sends(1);
    tale.stores(1, |_| ());
    if wrong {
        tale.is_refused(call, "RESOURCE_EXHAUSTED", "");
    } else {
        tale.is_done(call, produced(0));
    }
    tale.leases(0, 1);
    tale.acks(0, 1);
    tale.is_over();
}

pub(super) fn sent_once_and_stored_twice(tale: &mut Tale, wrong: bool) {
    let call = tale.sends(1);
    tale.is_lost(call);
    if !wrong {
        tale.sends(1);
    }
    tale.stores(1, |_| ());
    tale.stores(1, |_| ());
    tale.is_over();
}

pub(super) fn sent_later_and_stored_earlier(tale: &mut Tale, wrong: bool) {
    tale.process = 2;
    let lost = tale.sends(2);
    tale.stores(2, |_| ());
    tale.is_lost(lost);
    tale.process = 1;
    tale.produces(1);
    tale.process = 2;
    let again = tale.sends(2);
    let offset = if wrong { 0 } else { tale.stores(2, |_| ()) };
    tale.is_done(again, produced(offset));
}

pub(super) fn an_older_epoch_commits(tale: &mut Tale, wrong: bool) {
    tale.epoch = 5;
    tale.produces(1);
    tale.epoch = if wrong { 4 } else { 6 };
    tale.produces(2);
}

pub(super) fn an_offset_is_left_out(tale: &mut Tale, wrong: bool) {
    tale.produces(1);
    tale.high += u64::from(wrong);
    tale.produces(2);
}

pub(super) fn one_producer_out_of_order(tale: &mut Tale, wrong: bool) {
    let lost = tale.sends(2);
    tale.stores(2, |_| ());
    tale.is_lost(lost);
    tale.produces(1);
    let again = tale.sends(2);
    let offset = if wrong { 0 } else { tale.stores(2, |_| ()) };
    tale.is_done(again, produced(offset));
}

pub(super) fn stored_with_another_size(tale: &mut Tale, wrong: bool) {
    tale.produces_with(1, |stored| stored.size += u64::from(wrong));
}

pub(super) fn a_key_taken_twice(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000 + u64::from(wrong);
    let call = tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.is_done(call, produced(0));
    tale.passes(10_000);
    let call = tale.sends_keyed(2, "order-77");
    tale.stores(2, |stored| stored.idem = Some(("order-77".into(), until + 10_000)));
    tale.is_done(call, produced(1));
}

pub(super) fn a_repeat_stored_again(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000;
    for _ in 0..2 {
        let call = tale.sends_keyed(1, "order-77");
        tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
        tale.is_lost(call);
        if !wrong {
            tale.passes(10_000);
        }
    }
}

pub(super) fn a_key_outlives_its_window(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000;
    let call = tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.is_done(call, produced(0));
    tale.passes(if wrong { 10_000 } else { 9_999 });
    let call = tale.sends_keyed(1, "order-77");
    tale.commits([deduplicated("default", 0)]);
    tale.is_done(call, duplicate_of(0));
}

pub(super) fn a_repeat_with_other_content(tale: &mut Tale, wrong: bool) {
    tale.commits([set(Settings { dedupe_by_key: !wrong, ..settings() })]);
    let until = tale.now + 10_000;
    let call = tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.is_done(call, produced(0));
    let call = tale.sends_keyed(2, "order-77");
    tale.commits([deduplicated("default", 0)]);
    tale.is_done(call, duplicate_of(0));
}

pub(super) fn a_conflict_where_only_keys_count(tale: &mut Tale, wrong: bool) {
    tale.commits([set(Settings { dedupe_by_key: wrong, ..settings() })]);
    let until = tale.now + 10_000;
    let call = tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.is_done(call, produced(0));
    let call = tale.sends_keyed(2, "order-77");
    tale.is_refused(call, "CONFLICT", "");
}

pub(super) fn a_key_meets_another_tenant(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000;
    for (body, tenant) in [(1, "acme"), (2, "default")] {
        let mut message = content(body);
        message.tenant = tenant.into();
        let idem = Some("order-77".into());
        let produce = Produce {
            topic: orders(),
            message: message.clone(),
            idem,
            nonce: None,
            target: None,
            size: 10,
        };
        tale.asks(Op::Produce(produce));
        tale.stores(body, |stored| {
            stored.message = message;
            stored.idem = Some(("order-77".into(), until));
        });
    }
    tale.sends_keyed(2, "order-77");
    tale.commits([deduplicated("default", if wrong { 0 } else { 1 })]);
}

fn deduplicated(tenant: &str, offset: u64) -> Fact {
    let (tenant, idem) = (tenant.into(), "order-77".into());
    Fact::Deduplicated { topic: orders(), tenant, idem, id: id(offset) }
}

pub(super) fn the_clock_goes_back(tale: &mut Tale, wrong: bool) {
    tale.produces(1);
    tale.now -= u64::from(wrong);
    tale.produces(2);
}

pub(super) fn a_batch_is_left_out(tale: &mut Tale, wrong: bool) {
    tale.produces(1);
    tale.batch += u64::from(wrong);
    tale.produces(2);
}

pub(super) fn a_generation_comes_back(tale: &mut Tale, wrong: bool) {
    tale.commits([group_made(3, 0)]);
    tale.commits([moved(if wrong { 3 } else { 4 }, 0)]);
}

pub(super) fn too_large_to_be_stored(tale: &mut Tale, wrong: bool) {
    let size = (16 << 20) + 1024 + u64::from(wrong);
    let message = content(1);
    let produce = Produce { topic: orders(), message, idem: None, nonce: None, target: None, size };
    tale.asks(Op::Produce(produce));
    tale.stores(1, |stored| stored.size = size);
}

pub(super) fn stored_under_another_tenant(tale: &mut Tale, wrong: bool) {
    tale.sends(1);
    tale.stores(1, |stored| {
        if wrong {
            stored.message.tenant = "acme".into();
        }
    });
}

pub(super) fn a_duplicate_under_another_key(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000;
    for (body, key) in [(1, "order-77"), (2, "order-78")] {
        tale.sends_keyed(body, key);
        tale.stores(body, |stored| stored.idem = Some((key.into(), until)));
    }
    tale.sends_keyed(1, "order-77");
    tale.commits([deduplicated("default", u64::from(wrong))]);
}

/// Pins a key of `orders` for `for_ms` from now.
fn pinned(tale: &mut Tale, for_ms: u64) -> u64 {
    let until = tale.now + for_ms;
    let (tenant, idem) = ("default".into(), "order-77".into());
    tale.commits([Fact::Pinned { topic: orders(), tenant, idem, until }]);
    until
}

/// Stores the message of the key in another shard.
fn stored_there(tale: &mut Tale, body: u64, offset: u64, until: u64) {
    let Fact::Stored(mut stored) = arrived_there(body, offset) else { return };
    stored.asked = Some(orders());
    stored.idem = Some(("order-77".into(), until));
    tale.commits_there([Fact::Stored(stored)]);
}

pub(super) fn a_pin_leads_to_two_messages(tale: &mut Tale, wrong: bool) {
    let until = pinned(tale, 10_000);
    for offset in [0, 1] {
        let call = tale.sends_keyed(1, "order-77");
        // By the clock of the other shard, the pin may have expired.
        tale.passes(10_000);
        if wrong || offset == 0 {
            stored_there(tale, 1, offset, until);
        }
        tale.is_lost(call);
    }
}

pub(super) fn a_key_is_pinned_twice(tale: &mut Tale, wrong: bool) {
    pinned(tale, 10_000);
    tale.passes(10_000 - u64::from(wrong));
    pinned(tale, 10_000);
}

pub(super) fn a_pin_is_ignored(tale: &mut Tale, wrong: bool) {
    let until = pinned(tale, 10_000);
    tale.sends_keyed(1, "order-77");
    stored_there(tale, 1, 0, until);
    tale.passes(10_000 - u64::from(wrong));
    tale.sends_keyed(2, "order-77");
    let taken = Some(("order-77".into(), tale.now + 10_000));
    tale.stores(2, |stored| stored.idem = taken);
}

pub(super) fn a_taken_key_is_pinned(tale: &mut Tale, wrong: bool) {
    let until = tale.now + 10_000;
    tale.sends_keyed(1, "order-77");
    tale.stores(1, |stored| stored.idem = Some(("order-77".into(), until)));
    tale.passes(10_000 - u64::from(wrong));
    pinned(tale, 10_000);
}

pub(super) fn a_pin_outlives_its_window(tale: &mut Tale, wrong: bool) {
    pinned(tale, u64::from(!wrong));
}

pub(super) fn delivered_before_it_is_stored(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    tale.sends(1);
    if !wrong {
        tale.stores(1, |_| ());
    }
    tale.grants(0, 1, |_| ());
    tale.delivers(0, 1, |_| ());
}

pub(super) fn a_conflict_with_nothing(tale: &mut Tale, wrong: bool) {
    tale.makes_group();
    let call = tale.sends_keyed(1, "k");
    tale.is_refused(call, if wrong { "CONFLICT" } else { "RESOURCE_EXHAUSTED" }, "");
    tale.is_over();
}

/// A pin to another shard, which rejected the message. The key can be used for other content.
pub(super) fn a_conflict_with_a_rejected_message(tale: &mut Tale, wrong: bool) {
    let call = tale.sends_keyed(1, "order-77");
    let (tenant, idem, until) = ("default".into(), "order-77".into(), tale.now + 600_000);
    tale.commits([Fact::Pinned { topic: orders(), tenant, idem, until }]);
    if wrong {
        tale.is_refused(call, "RESOURCE_EXHAUSTED", "")
    } else {
        tale.is_lost(call)
    }
    let call = tale.sends_keyed(2, "order-77");
    tale.is_refused(call, "CONFLICT", "");
}
