//! No text is accepted that was not minted, in any version, under any key, as any kind.

use super::*;

const VERSIONS: [TokenVersion; 2] = [TokenVersion::V1, TokenVersion::V2];

fn lease() -> LeaseToken {
    LeaseToken {
        restore: 1,
        namespace: "default".into(),
        shard: ShardId(3),
        topic: TopicId(4),
        lane: Lane::of(5),
        offset: 6,
        group: GroupId(7),
        generation: Generation(8),
        attempt: 9,
        granted_at: Timestamp(1_790_000_000_000),
    }
}

fn effect() -> EffectToken {
    EffectToken {
        restore: 1,
        namespace: "default".into(),
        shard: ShardId(3),
        hash: [4; 16],
        born: Timestamp(1_790_000_000_000),
        fence: 6,
    }
}

fn keys() -> TokenKeys {
    TokenKeys::new(1, [1; 32]).and(2, [2; 32])
}

fn bytes_of(text: &str) -> Vec<u8> {
    BASE64URL_NOPAD.decode(&text.as_bytes()[3..]).unwrap()
}

fn text_of(prefix: &str, bytes: &[u8]) -> String {
    format!("{prefix}{}", BASE64URL_NOPAD.encode(bytes))
}

/// Whether a text is accepted as a token of either kind.
fn is_accepted(text: &str) -> bool {
    let keys = keys();
    keys.verify::<LeaseToken>(text).is_ok() || keys.verify::<EffectToken>(text).is_ok()
}

#[test]
fn a_minted_token_is_accepted_under_current_and_older_keys() {
    let old = TokenKeys::new(1, [1; 32]);
    let new = TokenKeys::new(2, [2; 32]).and(1, [1; 32]);
    for version in VERSIONS {
        assert_eq!(old.verify(&old.mint(version, &lease())), Ok(lease()));
        assert_eq!(new.verify(&old.mint(version, &lease())), Ok(lease()));
        assert_eq!(new.verify(&old.mint(version, &effect())), Ok(effect()));
        assert_eq!(old.verify::<LeaseToken>(&new.mint(version, &lease())), Err(NotAToken));
    }
}

/// Tokens that clients hold: their texts never change.
#[test]
fn golden_texts() {
    let keys = keys();
    expect_test::expect![[r#"
        lt_AQEBB2RlZmF1bHQDBAUGBwgJgNjBoow0kULsfgCSGgS7uo3m-83SZTGxZ0bKYXtsOW52ovczKLg
        et_AQEBB2RlZmF1bHQDBAQEBAQEBAQEBAQEBAQEBIDYwaKMNAYTaxmwsRGhlpkPjhlkwGD6dZ8p-fe0CE4RPS5lsGO1xQ
        lt_AgEBB2RlZmF1bHQDBAUGBwgJgNjBoow0UYz46XLCXkDJRgCvrTOoo_l6g5N3xi9oFyZDR-V1Nzg
        et_AgEBB2RlZmF1bHQDBAQEBAQEBAQEBAQEBAQEBIDYwaKMNAZq1jK4sSP3-_iTlCmqUDu9bt4LMa7Oh67M5EjEU3aKTQ
    "#]].assert_eq(&format!(
        "{}\n{}\n{}\n{}\n",
        keys.mint(TokenVersion::V1, &lease()),
        keys.mint(TokenVersion::V1, &effect()),
        keys.mint(TokenVersion::V2, &lease()),
        keys.mint(TokenVersion::V2, &effect()),
    ));
}

/// In version 1 a lease MAC covers the bytes, an effect MAC the bytes and `et_`. So the signed bytes of an
/// effect token, `et_` and its MAC verify as a lease whose fields are the first bytes of the record hash.
#[test]
fn an_effect_token_is_not_rewritten_into_a_lease_token() {
    // Topic 4, lane 5, offset 6, group 7, generation 8, attempt 9, granted at 10.
    let hash = [4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for version in VERSIONS {
        let bytes = bytes_of(&keys().mint(version, &EffectToken { hash, ..effect() }));
        let (signed, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
        let forged = text_of("lt_", &[signed, b"et_", mac].concat());
        assert_eq!(keys().verify::<LeaseToken>(&forged), Err(NotAToken), "{version:?}");
    }
}

/// Every change that needs no key, to every token, read as every kind.
#[test]
fn no_changed_token_is_accepted_as_any_kind() {
    let keys = keys();
    let mut tried = 0;
    for version in VERSIONS {
        let minted = [keys.mint(version, &lease()), keys.mint(version, &effect())];
        let others = [
            keys.mint(version, &LeaseToken { namespace: "other".into(), ..lease() }),
            keys.mint(version, &EffectToken { namespace: "other".into(), ..effect() }),
        ];
        for (text, other) in minted.iter().zip(&others) {
            let bytes = bytes_of(text);
            let (signed, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
            let other = bytes_of(other);
            let (of_other, mac_of_other) = other.split_at(other.len() - MAC_BYTES);
            for prefix in [LeaseToken::PREFIX, EffectToken::PREFIX] {
                let mut changed = Vec::new();
                // With the prefix of either kind.
                changed.push(bytes.clone());
                // With bytes appended, or inserted before the MAC, with and without the prefix of a
                // kind.
                for tail in [&b"\0"[..], b"lt_", b"et_", mac, signed] {
                    changed.push([&bytes, tail].concat());
                    changed.push([signed, tail, mac].concat());
                }
                // Truncated at every position, with the MAC and without.
                for end in 0..signed.len() {
                    changed.push(bytes[..end].to_vec());
                    changed.push([&signed[..end], mac].concat());
                }
                // Under another key number, and as another version.
                for number in [0, 2, 255] {
                    changed.push([&bytes[..1], &[number], &bytes[2..]].concat());
                }
                for version in [0, 1, 2, 3, 255] {
                    changed.push([&[version], &bytes[1..]].concat());
                }
                // With the fields or the MAC of a token in another namespace.
                changed.push([signed, mac_of_other].concat());
                changed.push([of_other, mac].concat());
                for bytes in changed {
                    let changed = text_of(prefix, &bytes);
                    let is_minted = changed == *text;
                    assert_eq!(is_accepted(&changed), is_minted, "{version:?} {changed}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 600, "{tried}");
}

#[test]
fn a_token_with_one_changed_character_is_rejected() {
    let keys = keys();
    for version in VERSIONS {
        let text = keys.mint(version, &lease());
        for at in 0..text.len() {
            let mut changed: Vec<u8> = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(keys.verify::<LeaseToken>(&changed), Err(NotAToken), "character {at}");
        }
    }
    assert_eq!(keys.verify::<LeaseToken>(""), Err(NotAToken));
    assert_eq!(keys.verify::<LeaseToken>("lt_"), Err(NotAToken));
}
