//! Tokens of leases and effects: none can be forged without the key, and a valid token always has
//! the same content.
#![no_main]

use std::fmt::Debug;
use std::sync::LazyLock;

use data_encoding::BASE64URL_NOPAD;
use driftq_core::{
    EffectToken, LeaseToken, NotAToken, TOKEN_CHARS_MAX, Token, TokenKeys, TokenKind, TokenVersion,
};
use driftq_fuzz::{bounded, choice};
use libfuzzer_sys::fuzz_target;

const KEY: [u8; 32] = [7; 32];

// Deriving keys takes longer than the rest of a run.
static KEYS: LazyLock<TokenKeys> = LazyLock::new(|| TokenKeys::new(1, KEY).and(2, [8; 32]));
static OTHERS: LazyLock<TokenKeys> = LazyLock::new(|| TokenKeys::new(1, [9; 32]));
static LEASE_V2: LazyLock<[u8; 32]> =
    LazyLock::new(|| blake3::derive_key("driftq lease token v2", &KEY));
static EFFECT_V2: LazyLock<[u8; 32]> =
    LazyLock::new(|| blake3::derive_key("driftq effect token v2", &KEY));

fuzz_target!(|input: &[u8]| bounded(|| {
    let Some((chosen, input)) = choice(input, 6) else { return };
    match chosen {
        0 => check_text::<LeaseToken>(input),
        1 => check_text::<EffectToken>(input),
        2 => check_signed::<LeaseToken>(TokenVersion::V1, input),
        3 => check_signed::<EffectToken>(TokenVersion::V1, input),
        4 => check_signed::<LeaseToken>(TokenVersion::V2, input),
        _ => check_signed::<EffectToken>(TokenVersion::V2, input),
    }
}));

fn check_text<T: Token + PartialEq + Debug>(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        assert_eq!(KEYS.verify::<T>(text), Err(NotAToken), "forged");
    }
}

/// Uses the input as the fields of a token, with a valid MAC of its own kind and of the other kind.
fn check_signed<T: Token + PartialEq + Debug>(version: TokenVersion, input: &[u8]) {
    let keys = &*KEYS;
    let mut signed = vec![version as u8, 1];
    signed.extend_from_slice(input);
    let text = |bytes: &[u8], mac: &blake3::Hash| {
        let bytes = [bytes, mac.as_bytes()].concat();
        format!("{}{}", T::PREFIX, BASE64URL_NOPAD.encode(&bytes))
    };
    let mac = mac(version, T::KIND, &signed);
    let own = text(&signed, &mac);
    if let Ok(token) = keys.verify::<T>(&own) {
        assert!(own.len() <= TOKEN_CHARS_MAX, "{} characters", own.len());
        assert_eq!(keys.mint(version, &token), own, "minted again");
    }
    let other = match T::KIND {
        TokenKind::Lease => TokenKind::Effect,
        TokenKind::Effect => TokenKind::Lease,
    };
    // A version 1 lease MAC covers only the bytes. These are the bytes that an effect MAC covers.
    for tail in [&b""[..], EffectToken::PREFIX.as_bytes()] {
        let extended = [&signed, tail].concat();
        let foreign = self::mac(version, other, &signed);
        if let Ok(token) = keys.verify::<T>(&text(&extended, &foreign)) {
            assert_eq!(version, TokenVersion::V1, "version 2 has a key per kind");
            // Possible only if the bytes are also a complete token of this kind, which no storage
            // mints as the other kind.
            assert_eq!(
                keys.mint(version, &token),
                text(&extended, &foreign),
                "read as another kind"
            );
        }
    }
    let mut forged = own.into_bytes();
    let at = mac.as_bytes()[0] as usize % forged.len();
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("ASCII");
    assert_eq!(keys.verify::<T>(&forged), Err(NotAToken), "character {at} was changed");
    assert_eq!(OTHERS.verify::<T>(&forged), Err(NotAToken), "under another key");
}

/// Independent implementation of the server's MAC.
fn mac(version: TokenVersion, kind: TokenKind, bytes: &[u8]) -> blake3::Hash {
    match (version, kind) {
        (TokenVersion::V1, TokenKind::Lease) => blake3::keyed_hash(&KEY, bytes),
        (TokenVersion::V1, TokenKind::Effect) => {
            blake3::keyed_hash(&KEY, &[bytes, EffectToken::PREFIX.as_bytes()].concat())
        }
        (TokenVersion::V2, TokenKind::Lease) => blake3::keyed_hash(&LEASE_V2, bytes),
        (TokenVersion::V2, TokenKind::Effect) => blake3::keyed_hash(&EFFECT_V2, bytes),
    }
}
