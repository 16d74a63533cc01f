//! Tokens of leases and effects: nobody mints one without the key, and whatever was minted says what it said.
#![no_main]

use std::fmt::Debug;

use data_encoding::BASE64URL_NOPAD;
use driftq_core::{EffectToken, LeaseToken, NotAToken, TOKEN_CHARS_MAX, Token, TokenKeys};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

const KEY: [u8; 32] = [7; 32];

fuzz_target!(|input: &[u8]| bounded(|| {
    check::<LeaseToken>(input);
    check::<EffectToken>(input);
}));

fn check<T: Token + PartialEq + Debug>(input: &[u8]) {
    let keys = TokenKeys::new(1, KEY).and(2, [8; 32]);
    if let Ok(text) = std::str::from_utf8(input) {
        assert_eq!(keys.verify::<T>(text), Err(NotAToken), "forged");
    }
    let mut bytes = vec![1, 1];
    bytes.extend_from_slice(input);
    let mac = blake3::keyed_hash(&KEY, &bytes);
    bytes.extend_from_slice(mac.as_bytes());
    let text = format!("{}{}", T::PREFIX, BASE64URL_NOPAD.encode(&bytes));
    if let Ok(token) = keys.verify::<T>(&text) {
        assert!(text.len() <= TOKEN_CHARS_MAX, "{} characters", text.len());
        let minted = keys.mint(&token);
        assert!(minted.len() <= text.len(), "it grew");
        assert_eq!(keys.verify::<T>(&minted), Ok(token), "minted anew");
    }
    let mut forged = text.into_bytes();
    let at = mac.as_bytes()[0] as usize % forged.len();
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("ASCII");
    assert_eq!(keys.verify::<T>(&forged), Err(NotAToken), "character {at} is another");
    let others = TokenKeys::new(1, [9; 32]);
    assert_eq!(others.verify::<T>(&forged), Err(NotAToken), "under another key");
}
