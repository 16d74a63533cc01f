//! Durations and times as people write them: `5m`, `1h30m`, `250ms`, `2d`.
//!
//! A duration is one or more numbers with a unit, the largest unit first. A number without a unit is
//! in milliseconds. A time is RFC 3339, or a duration before or after now. Ranges are checked where
//! the value is used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use driftq_api::Time;

/// The accepted forms of a duration, for errors.
pub(crate) const FORMS: &str =
    "a duration such as 250ms, 10s, 5m, 1h30m or 2d, or a number of milliseconds";

/// The units, largest first, with their milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a duration into milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ms = if is_number { text.parse().ok() } else { with_units(text) };
    ms.ok_or_else(|| format!("must be {FORMS}"))
}

/// Parses a duration whose numbers all have a unit.
fn with_units(text: &str) -> Option<u64> {
    let (mut rest, mut units, mut sum) = (text, UNITS.as_slice(), 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let unit = &after[..after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len())];
        let at = units.iter().position(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(units[at].1)?)?;
        // Each unit occurs once.
        units = &units[at + 1..];
        rest = &after[unit.len()..];
    }
    (!text.is_empty()).then_some(sum)
}

/// Parses a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    milliseconds(text).map(Duration::from_millis)
}

/// Parses a time in the past: RFC 3339, or an age.
pub(crate) fn time_ago(text: &str) -> Result<String, String> {
    point(text, u64::checked_sub).ok_or_else(|| {
        "must be a time such as 2026-11-14T12:00:00Z, or an age such as 90s, 2h or 7d".to_owned()
    })
}

/// Parses a time to come: RFC 3339, or a duration from now.
pub(crate) fn time_from_now(text: &str) -> Result<String, String> {
    point(text, u64::checked_add).ok_or_else(|| {
        "must be a time such as 2026-11-14T12:00:00Z, or a duration from now such as 90s, 2h or 7d"
            .to_owned()
    })
}

/// A time is sent as it was typed. A number without a unit is neither.
fn point(text: &str, from_now: fn(u64, u64) -> Option<u64>) -> Option<String> {
    if text.parse::<Time>().is_ok() {
        return Some(text.to_owned());
    }
    let at = Time(from_now(now_ms(), with_units(text)?)?);
    // A time after the last possible one is written as that one.
    let text = at.to_string();
    (text.parse() == Ok(at)).then_some(text)
}

/// The time of the local clock.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_durations() {
        for (text, ms) in [
            ("0", 0),
            ("1500", 1_500),
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m5ms", 60_005),
        ] {
            assert_eq!(milliseconds(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_durations() {
        for text in [
            "",
            " 5m",
            "5 m",
            "5x",
            "m",
            "-5s",
            "+5",
            "1.5h",
            "30m1h",
            "5m5m",
            "1h30",
            "5M",
            "18446744073709551616",
            "213503982335d",
            "5ｍ",
        ] {
            assert_eq!(milliseconds(text), Err(format!("must be {FORMS}")), "{text}");
        }
    }

    #[test]
    fn a_time_is_kept_and_a_duration_is_counted_from_now() {
        assert_eq!(time_ago("2026-11-14T12:00:00Z").as_deref(), Ok("2026-11-14T12:00:00Z"));
        let Time(ago) = time_ago("2h").unwrap().parse().unwrap();
        let Time(to_come) = time_from_now("2h").unwrap().parse().unwrap();
        let apart = to_come - ago;
        assert!((14_400_000..14_460_000).contains(&apart), "{apart}");
        for text in ["5", "yesterday", "2026-11-14", "99999999999d", ""] {
            assert!(time_ago(text).is_err(), "{text}");
            assert!(time_from_now(text).is_err(), "{text}");
        }
        assert!(time_from_now("3000000d").is_err(), "after the year 9999");
    }
}
