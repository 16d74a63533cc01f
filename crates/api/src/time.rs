//! Points in time in requests and responses.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A point in time: milliseconds since 1970, written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A later time than `Timestamp::MAX` is written as that.
        let at = i64::try_from(self.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let at = at.unwrap_or(Timestamp::MAX);
        write!(f, "{at:.3}")
    }
}

/// The text is not a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotATime;

impl fmt::Display for NotATime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be a time from 1970 to 9999-12-30T22:00:00Z, such as 2026-11-14T12:00:00Z",
        )
    }
}

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Time, NotATime> {
        let at: Timestamp = text.parse().map_err(|_| NotATime)?;
        // Fractions of a millisecond are truncated, not rounded.
        let ms = at.as_millisecond();
        u64::try_from(ms).map(Time).map_err(|_| NotATime)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .pattern(Some("^(19[7-9][0-9]|[2-9][0-9]{3})-"))
            .description(Some(
                "RFC 3339, from 1970 to 9999. Responses are in UTC, with milliseconds.",
            ))
            .into()
    }
}

impl ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds() {
        assert_eq!(Time(1_800_000_000_250).to_string(), "2027-01-15T08:00:00.250Z");
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(u64::MAX).to_string(), "9999-12-30T22:00:00.999Z");
    }

    #[test]
    fn any_offset_is_read_and_finer_digits_are_cut() {
        for text in ["2027-01-15T09:00:00.250999+01:00", "2027-01-15T08:00:00.25Z"] {
            assert_eq!(text.parse(), Ok(Time(1_800_000_000_250)), "{text}");
        }
        for text in ["", "tomorrow", "2027-01-15", "1969-12-31T23:59:59Z", "1800000000"] {
            assert_eq!(text.parse::<Time>(), Err(NotATime), "{text}");
        }
        // The limit that the error names.
        assert!("9999-12-30T22:00:00Z".parse::<Time>().is_ok());
        assert_eq!("9999-12-31T23:59:59Z".parse::<Time>(), Err(NotATime));
    }
}
