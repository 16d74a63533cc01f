//! Messages from other nodes: arbitrary bytes are rejected without a panic, and valid messages are
//! unchanged when encoded again.
#![no_main]

use std::fmt::Debug;

use driftq_core::node_codec::{self, DecodeError, NODE_CODEC_VERSION};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bounded(|| {
    let bytes = [&NODE_CODEC_VERSION.to_le_bytes(), input].concat();
    check(&bytes, node_codec::open_call, node_codec::pack_call);
    check(&bytes, node_codec::open_answer, node_codec::pack_answer);
    check(&bytes, node_codec::open_deliveries, |given| {
        node_codec::pack_deliveries(given, node_codec::NODE_CODEC_VERSION).expect("this release reads them")
    });
}));

fn check<T: Debug>(
    bytes: &[u8],
    open: impl Fn(&[u8]) -> Result<T, DecodeError>,
    pack: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(read) = open(bytes) else { return };
    let again = open(&pack(&read)).expect("packed messages can be read");
    assert_eq!(format!("{again:?}"), format!("{read:?}"), "the content changed");
}
