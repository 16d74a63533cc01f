//! Bad histories of shard ownership.

use driftq_checker::history::What;

use crate::tale::Tale;

/// Each event is observed ten milliseconds after the previous one.
const LEASE_MS: u64 = 45;

fn renews(tale: &mut Tale, node: u64) {
    tale.happens(What::Renewed { node, lease_ms: LEASE_MS });
}

fn claims(tale: &mut Tale, node: u64, epoch: u64) {
    tale.happens(What::Claimed { node, shard: 0, epoch });
    renews(tale, node);
}

fn decides(tale: &mut Tale, node: u64, epoch: u64) {
    tale.happens(What::Decided { node, shard: 0, epoch, batch: 1 });
}

pub(super) fn an_epoch_is_given_out_twice(tale: &mut Tale, wrong: bool) {
    claims(tale, 1, 5);
    claims(tale, 2, if wrong { 5 } else { 6 });
}

pub(super) fn decided_under_the_epoch_of_another(tale: &mut Tale, wrong: bool) {
    claims(tale, 1, 5);
    claims(tale, 2, 6);
    decides(tale, if wrong { 1 } else { 2 }, 6);
}

pub(super) fn committed_after_the_claim_of_another(tale: &mut Tale, wrong: bool) {
    claims(tale, 1, 5);
    tale.epoch = if wrong { 5 } else { 6 };
    claims(tale, 2, 6);
    tale.produces(1);
}

pub(super) fn decided_after_the_lease(tale: &mut Tale, wrong: bool) {
    claims(tale, 1, 5);
    decides(tale, 1, 5);
    renews(tale, if wrong { 2 } else { 1 });
    for _ in 0..3 {
        decides(tale, 1, 5);
    }
}

pub(super) fn decided_long_after_it_goes_on(tale: &mut Tale, wrong: bool) {
    claims(tale, 1, 5);
    tale.happens(What::Stopped { node: 1, until: if wrong { 40 } else { 80 } });
    for _ in 0..4 {
        renews(tale, 2);
    }
    decides(tale, 1, 5);
}

pub(super) fn decided_long_after_it_goes_on_though_it_is_stopped_again(
    tale: &mut Tale,
    wrong: bool,
) {
    claims(tale, 1, 5);
    tale.happens(What::Stopped { node: 1, until: if wrong { 40 } else { 80 } });
    for _ in 0..3 {
        renews(tale, 2);
    }
    tale.happens(What::Stopped { node: 1, until: 500 });
    decides(tale, 1, 5);
}
