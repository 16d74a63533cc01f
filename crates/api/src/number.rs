//! Numbers of requests. Each type has one range: the server enforces it and the OpenAPI document states it.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OneOf, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::INTEGER_MAX;

/// Reads any 64-bit integer, so that an error can show the value.
fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
    struct Integer;
    impl Visitor<'_> for Integer {
        type Value = i128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_i64<E>(self, number: i64) -> Result<i128, E> {
            Ok(number.into())
        }

        fn visit_u64<E>(self, number: u64) -> Result<i128, E> {
            Ok(number.into())
        }
    }
    deserializer.deserialize_i64(Integer)
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $range:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub struct $name($type);

        impl $name {
            /// The valid values.
            pub const RANGE: RangeInclusive<$type> = $range;

            /// Returns the value.
            pub fn get(self) -> $type {
                self.0
            }

            /// Wraps a stored value, which was checked before it was stored.
            pub fn stored(value: $type) -> $name {
                $name(value)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let number = integer(deserializer)?;
                let value = <$type>::try_from(number).ok();
                value.filter(|value| $name::RANGE.contains(value)).map($name).ok_or_else(|| {
                    let (min, max) = ($name::RANGE.start(), $name::RANGE.end());
                    D::Error::custom(format_args!("must be between {min} and {max} (got {number})"))
                })
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(*$name::RANGE.start()))
                    .maximum(Some(*$name::RANGE.end()))
                    .into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

const MINUTE_MS: u64 = 60_000;
const YEAR_MS: u64 = 365 * 24 * 60 * MINUTE_MS;

numbers! {
    /// How long a lease lasts.
    LeaseMs(u64) = 250..=43_200_000;
    /// How long a nacked message waits.
    DelayMs(u64) = 0..=604_800_000;
    /// How long a request waits for messages, or for the outcome of an effect.
    WaitMs(u64) = 0..=60_000;
    /// Unsettled deliveries that a stream may have.
    Prefetch(u32) = 1..=10_000;
    /// A process id or a number of threads that a worker reports.
    WorkerNumber(u32) = 0..=2_147_483_647;
    /// Items of a page, or messages of a poll.
    Limit(u32) = 1..=1_000;
    /// A partition of a topic.
    PartitionNumber(u32) = 0..=1_023;
    /// Partitions of a new topic. 0 is 1.
    PartitionCount(u32) = 0..=1_024;
    /// An offset, fence or count.
    Integer(u64) = 0..=INTEGER_MAX;
    /// A record of an audit chain.
    RecordNumber(u64) = 1..=INTEGER_MAX;
    /// How long a failed message waits for its next attempt.
    BackoffMs(u64) = 0..=YEAR_MS;
    /// How long the outcome of an effect is kept.
    EffectTtlMs(u64) = MINUTE_MS..=YEAR_MS;
    /// How long a provider deduplicates by its key.
    ProviderWindowMs(u64) = 1..=10 * YEAR_MS;
    /// Leased messages per group and partition.
    MaxInFlight(u32) = 1..=100_000;
    /// Leased and waiting messages per group and partition.
    MaxOpen(u32) = 1..=1_000_000;
    /// Unsettled messages, or bytes, of a partition.
    BacklogLimit(u64) = 1..=INTEGER_MAX;
    /// How long settled messages are kept.
    RetentionMs(u64) = 0..=YEAR_MS;
    /// Bytes of settled messages that are kept.
    RetentionBytes(u64) = 0..=INTEGER_MAX;
    /// How long dead letters are kept.
    DlqRetentionMs(u64) = MINUTE_MS..=10 * YEAR_MS;
    /// How long an idempotency key is kept.
    DedupeTtlMs(u64) = 1_000..=YEAR_MS;
    /// How far the test clock is advanced.
    AdvanceMs(u64) = 1..=YEAR_MS;
    /// How long a group may have no consumer.
    GroupIdleMs(u64) = MINUTE_MS..=YEAR_MS;
}

/// Deliveries of a message, or −1 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MaxAttempts(i32);

impl MaxAttempts {
    /// No limit.
    pub const UNLIMITED: i32 = -1;
    /// The other valid values.
    pub const RANGE: RangeInclusive<i32> = 1..=1_000;

    /// Returns the value.
    pub fn get(self) -> i32 {
        self.0
    }

    /// Wraps a stored value, which was checked before it was stored.
    pub fn stored(value: i32) -> MaxAttempts {
        MaxAttempts(value)
    }
}

impl<'de> Deserialize<'de> for MaxAttempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MaxAttempts, D::Error> {
        let number = integer(deserializer)?;
        let is_valid =
            |value: &i32| *value == MaxAttempts::UNLIMITED || MaxAttempts::RANGE.contains(value);
        let value = i32::try_from(number).ok().filter(is_valid);
        value.map(MaxAttempts).ok_or_else(|| {
            D::Error::custom(format_args!("must be between 1 and 1000, or -1 (got {number})"))
        })
    }
}

impl PartialSchema for MaxAttempts {
    fn schema() -> RefOr<Schema> {
        let integer = |min, max| {
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(min)).maximum(Some(max))
        };
        OneOf::builder()
            .item(integer(MaxAttempts::UNLIMITED, MaxAttempts::UNLIMITED))
            .item(integer(*MaxAttempts::RANGE.start(), *MaxAttempts::RANGE.end()))
            .into()
    }
}

impl ToSchema for MaxAttempts {}
