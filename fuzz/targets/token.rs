//! Lease tokens: nobody mints one without the key, and whatever was minted says what it said.
#![no_main]

use data_encoding::BASE64URL_NOPAD;
use driftq_core::{EffectToken, LeaseToken, NotAToken, TOKEN_CHARS_MAX, TokenKeys};
use driftq_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

const KEY: [u8; 32] = [7; 32];

fuzz_target!(|input: &[u8]| bounded(|| {
    let keys = TokenKeys::new(1, KEY).and(2, [8; 32]);
    if let Ok(text) = std::str::from_utf8(input) {
        assert_eq!(keys.verify::<LeaseToken>(text), Err(NotAToken), "forged");
        assert_eq!(keys.verify::<EffectToken>(text), Err(NotAToken), "forged");
    }
    let mut bytes = vec![1, 1];
    bytes.extend_from_slice(input);
    let mac = blake3::keyed_hash(&KEY, &bytes);
    bytes.extend_from_slice(mac.as_bytes());
    let text = format!("lt_{}", BASE64URL_NOPAD.encode(&bytes));
    if let Ok(token) = keys.verify::<LeaseToken>(&text) {
        assert!(text.len() <= TOKEN_CHARS_MAX, "{} characters", text.len());
        let minted = keys.mint(&token);
        assert!(minted.len() <= text.len(), "it grew");
        assert_eq!(keys.verify::<LeaseToken>(&minted), Ok(token), "minted anew");
    }
    let mut forged = text.into_bytes();
    let at = mac.as_bytes()[0] as usize % forged.len();
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("ASCII");
    assert_eq!(keys.verify::<LeaseToken>(&forged), Err(NotAToken), "character {at} is another");
    let others = TokenKeys::new(1, [9; 32]);
    assert_eq!(others.verify::<LeaseToken>(&forged), Err(NotAToken), "under another key");
}));
