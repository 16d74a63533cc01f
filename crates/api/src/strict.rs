//! What a request is held to beyond its types: an object is written as one, and every integer is one that
//! all clients can hold.
//!
//! Derived code takes a list of values for an object as well: `["orders","","x"]` would be a message.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The greatest integer of a request: above it JSON clients read another number than was written.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A value that is written as an object.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(deserializer).map(|object| object.0)
}

pub(crate) fn optional_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let object = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(object.map(|object| object.0))
}

pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        fits @ 0..=INTEGER_MAX => Ok(fits),
        _ => Err(Error::custom("integers are below 9007199254740992")),
    }
}

/// As [`integer`], where it may be absent.
pub fn optional_integer<'de, D>(deserializer: D) -> Result<Option<u64>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Integer(u64);
    impl<'de> Deserialize<'de> for Integer {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Integer, D::Error> {
            integer(deserializer).map(Integer)
        }
    }
    Ok(Option::<Integer>::deserialize(deserializer)?.map(|integer| integer.0))
}

#[cfg(test)]
mod tests {
    use crate::message::{Produce, ProduceBatch};
    use crate::settle::Settle;
    use crate::{Object, group, strict};

    fn reads<T: serde::de::DeserializeOwned>(text: &str) -> bool {
        serde_json::from_str::<Object<T>>(text).is_ok()
    }

    #[test]
    fn a_list_is_not_taken_for_an_object_at_any_depth() {
        assert!(reads::<Produce>(r#"{"topic":"t","value":"x","envelope":null}"#));
        assert!(!reads::<Produce>(r#"["t","k","x"]"#));
        assert!(!reads::<Produce>(r#"{"topic":"t","value":"x","envelope":["run"]}"#));
        let list = r#"{"topic":"t","value":"x","envelope":{"retry_policy":[5]}}"#;
        assert!(!reads::<Produce>(list));
        assert!(reads::<ProduceBatch>(r#"{"messages":[{"topic":"t"}]}"#));
        assert!(!reads::<ProduceBatch>(r#"{"messages":[["t"]]}"#));
        assert!(reads::<group::Seek>(r#"{"to":{"time":"2027-01-15T08:00:00Z"}}"#));
        assert!(!reads::<group::Seek>(r#"{"to":["2027-01-15T08:00:00Z"]}"#));
        assert!(!reads::<group::Seek>(r#"{"to":[0,5]}"#));
    }

    #[test]
    fn an_integer_is_one_that_every_client_can_hold() {
        for (offset, is_read) in
            [(strict::INTEGER_MAX, true), (strict::INTEGER_MAX + 1, false), (u64::MAX, false)]
        {
            assert_eq!(reads::<Settle>(&format!(r#"{{"offset":{offset}}}"#)), is_read);
            let seek = format!(r#"{{"to":{{"partition":0,"offset":{offset}}}}}"#);
            assert_eq!(reads::<group::Seek>(&seek), is_read);
        }
        assert!(reads::<Settle>(r#"{"offset":null}"#));
    }
}
