//! What comes from another node: any bytes are refused in peace, and what is read says the same when it is sent on.
#![no_main]

use std::fmt::Debug;

use driftq_core::travel::{self, TRAVEL_VERSION, Unreadable};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bounded(|| {
    let bytes = [&TRAVEL_VERSION.to_le_bytes(), input].concat();
    check(&bytes, travel::open_call, travel::pack_call);
    check(&bytes, travel::open_answer, travel::pack_answer);
    check(&bytes, travel::open_deliveries, |given| travel::pack_deliveries(given));
}));

fn check<T: Debug>(
    bytes: &[u8],
    open: impl Fn(&[u8]) -> Result<T, Unreadable>,
    pack: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(read) = open(bytes) else { return };
    let again = open(&pack(&read)).expect("what was packed can be read");
    assert_eq!(format!("{again:?}"), format!("{read:?}"), "sent on, it says something else");
}
