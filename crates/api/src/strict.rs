//! Checks of a request beyond its types. An object must be written as a JSON object. Every integer
//! must fit into the numbers of all JSON clients. A list or map is read at most one item past its
//! limit. A name occurs once in a map.
//!
//! Derived code also accepts a list of values as an object: `["orders","","x"]` would be a message.
//! It also reads a list to its end before the length can be checked: 8 MiB of `{}` would be a
//! gigabyte of items. Of two values with the same name it keeps the last.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The greatest integer of a request. JSON clients cannot represent greater integers exactly.
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

/// A list of `MIN` to `MAX` items.
struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<'de, T, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX>
where
    T: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items::<T, MIN, MAX>(PhantomData)).map(List)
    }
}

/// Reads a [`List`].
struct Items<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T, const MIN: usize, const MAX: usize> Visitor<'de> for Items<T, MIN, MAX>
where
    T: Deserialize<'de>,
{
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX
            && let Some(item) = seq.next_element()?
        {
            items.push(item);
        }
        // An item past the limit is skipped without storing it.
        if items.len() < MIN || (items.len() == MAX && seq.next_element::<IgnoredAny>()?.is_some())
        {
            return Err(Error::custom(match MIN {
                0 => format!("must have at most {MAX} items"),
                _ => format!("must have between {MIN} and {MAX} items"),
            }));
        }
        Ok(items)
    }
}

pub(crate) fn objects<'de, D, T, const MIN: usize, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let List(objects) = List::<Object<T>, MIN, MAX>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

/// Reads an optional list. If present, it must have at least one text.
pub(crate) fn optional_texts<'de, D, const MAX: usize>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = Option::<List<String, 1, MAX>>::deserialize(deserializer)?;
    Ok(texts.map(|texts| texts.0))
}

/// Names and values, at most `MAX`.
struct Map<const MAX: usize>(BTreeMap<String, String>);

impl<'de, const MAX: usize> Deserialize<'de> for Map<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries::<MAX>).map(Map)
    }
}

/// Reads a [`Map`].
struct Entries<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for Entries<MAX> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            if map.len() == MAX {
                return Err(Error::custom(format!("at most {MAX} are allowed")));
            }
            if map.contains_key(&name) {
                return Err(Error::custom("the name is repeated"));
            }
            map.insert(name, entries.next_value()?);
        }
        Ok(map)
    }
}

/// Reads an optional map from names to texts.
pub(crate) fn optional_map<'de, D, const MAX: usize>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let map = Option::<Map<MAX>>::deserialize(deserializer)?;
    Ok(map.map(|map| map.0))
}

/// Reads a value that may have one of several types. Trying the types copies the value, so a value
/// that is longer than all valid ones is rejected first.
pub(crate) fn short<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> Deserialize<'a>,
{
    const BYTES_MAX: usize = 1_024;
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let text = if text.get().len() > BYTES_MAX { "null" } else { text.get() };
    serde_json::from_str(text).map_err(Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::commit::Commit;
    use crate::dlq::{Purge, Redrive};
    use crate::limits::{HEADERS_MAX, ITEMS_MAX, LABELS_MAX};
    use crate::message::{Envelope, Produce, ProduceBatch};
    use crate::settle::{Settle, SettleMany};
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

    /// Returns a request with far too many items.
    fn list(field: &str, item: &str) -> String {
        format!(r#"{{"{field}":[{}]}}"#, vec![item; 200_000].join(","))
    }

    /// Returns how many bytes of a list with far too many items are read, and the error.
    fn read<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> (usize, String) {
        let mut rest = text.as_bytes();
        let refused = serde_json::from_reader::<_, T>(&mut rest).expect_err("it is too long");
        (text.len() - rest.len(), refused.to_string())
    }

    #[test]
    fn a_list_is_read_no_further_than_one_past_its_bound() {
        let (message, id) = (r#"{"topic":""}"#, r#""""#);
        let (items, messages, ids) =
            (list("items", "{}"), list("messages", message), list("ids", id));
        let finish = r#"{"token":"","status":"UNKNOWN"}"#;
        let pointer = r#"{"dataset":"","version":"","partition_key":"","location":""}"#;
        let rows = [
            (read::<SettleMany>(&items), 1_000, "{}", "must have between 1 and 1000 items"),
            (read::<ProduceBatch>(&messages), 1_000, message, "must have between 1 and 1000 items"),
            (read::<Redrive>(&ids), 1_000, id, "must have between 1 and 1000 items"),
            (read::<Purge>(&ids), 100_000, id, "must have between 1 and 100000 items"),
            (read::<Commit>(&list("effects", finish)), 32, finish, "must have at most 32 items"),
            (
                read::<Commit>(&list("produce", message)),
                100,
                message,
                "must have at most 100 items",
            ),
            (
                read::<Commit>(&list("pointers", pointer)),
                100,
                pointer,
                "must have at most 100 items",
            ),
        ];
        for ((bytes, refused), max, item, message) in rows {
            let most = 64 + (max + 2) * (item.len() + 1);
            assert!(bytes < most, "{bytes} bytes are read of at most {max} items");
            assert!(refused.starts_with(message), "{refused}");
        }
    }

    #[test]
    fn a_list_may_have_as_many_as_its_bound() {
        assert!(reads::<ProduceBatch>(&format!(
            r#"{{"messages":[{}]}}"#,
            vec![r#"{"topic":""}"#; ITEMS_MAX].join(",")
        )));
        assert!(reads::<Redrive>(&format!(
            r#"{{"ids":[{}]}}"#,
            vec![r#""""#; ITEMS_MAX].join(",")
        )));
        assert!(reads::<Redrive>(r#"{"ids":null}"#));
        assert!(!reads::<Redrive>(r#"{"ids":[]}"#));
        assert!(!reads::<SettleMany>(r#"{"items":[]}"#));
        assert!(reads::<Commit>(r#"{"token":"lt_","effects":[]}"#));
    }

    #[test]
    fn a_map_is_read_no_further_than_one_past_its_bound() {
        let entries: Vec<String> = (0..200_000).map(|n| format!(r#""{n:06}":"x""#)).collect();
        for (field, max) in [("labels", LABELS_MAX), ("headers", HEADERS_MAX)] {
            let envelope = format!(r#"{{"{field}":{{{}}}}}"#, entries.join(","));
            let (bytes, refused) = read::<Envelope>(&envelope);
            assert!(bytes < 64 + (max + 2) * (entries[0].len() + 1), "{bytes} bytes are read");
            assert!(refused.starts_with(&format!("at most {max} are allowed")), "{refused}");
        }
    }

    #[test]
    fn a_name_occurs_once_in_a_map() {
        assert!(reads::<Envelope>(r#"{"labels":{"a":"1","b":"2"}}"#));
        assert!(!reads::<Envelope>(r#"{"labels":{"a":"1","a":"1"}}"#));
        assert!(!reads::<Envelope>(r#"{"headers":{"a":"1","a":"2"}}"#));
    }

    #[test]
    fn a_long_place_is_none() {
        let long = format!(r#"{{"to":[{}]}}"#, vec!["0"; 1_000].join(","));
        let refused = serde_json::from_str::<group::Seek>(&long).expect_err("it is too long");
        assert!(refused.to_string().starts_with(r#"must be "earliest""#), "{refused}");
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
