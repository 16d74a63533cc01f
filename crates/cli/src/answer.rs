//! Printable values: responses of the server, and JSON built by the client.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde_json::Value;
use serde_json::value::RawValue;

/// A value that can be printed as a table or as JSON.
pub(crate) trait Printable {
    /// Returns the value for tables.
    fn read(&self) -> &Value;
    /// Returns the complete JSON.
    fn whole(&self) -> String;
    /// Returns the complete JSON in one line.
    fn line(&self) -> String;
    /// Returns the list under `items`, one line of JSON per item.
    fn lines(&self, items: &str) -> Vec<String>;
}

impl Printable for Value {
    fn read(&self) -> &Value {
        self
    }

    fn whole(&self) -> String {
        format!("{self:#}")
    }

    fn line(&self) -> String {
        self.to_string()
    }

    fn lines(&self, items: &str) -> Vec<String> {
        self[items].as_array().into_iter().flatten().map(Value::to_string).collect()
    }
}

/// A response of the server. JSON output is the text that the server sent, because parsing and
/// formatting it again changes numbers: 10.50 becomes 10.5.
pub(crate) struct Answer {
    read: Value,
    written: String,
}

impl Answer {
    /// Parses a response. An empty text is `null`.
    pub(crate) fn parse(written: String) -> serde_json::Result<Answer> {
        let written = if written.is_empty() { "null".to_owned() } else { written };
        Ok(Answer { read: serde_json::from_str(&written)?, written })
    }

    /// Returns a field as the server wrote it.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.raw(name).map(RawValue::get)
    }

    /// Replaces a field in tables. JSON output is unchanged.
    pub(crate) fn in_tables(mut self, name: &str, value: Value) -> Answer {
        self.read[name] = value;
        self
    }

    pub(crate) fn into_value(self) -> Value {
        self.read
    }

    fn raw(&self, name: &str) -> Option<&RawValue> {
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(&self.written).ok()?;
        fields.remove(name)
    }
}

impl Deref for Answer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.read
    }
}

impl Printable for Answer {
    fn read(&self) -> &Value {
        &self.read
    }

    fn whole(&self) -> String {
        self.written.clone()
    }

    fn line(&self) -> String {
        one_line(&self.written)
    }

    fn lines(&self, items: &str) -> Vec<String> {
        let list = self.raw(items).and_then(|list| serde_json::from_str(list.get()).ok());
        let list: Vec<&RawValue> = list.unwrap_or_default();
        list.into_iter().map(|item| one_line(item.get())).collect()
    }
}

/// Replaces line breaks by spaces. JSON strings contain no raw line breaks, so only whitespace
/// between values changes.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_as_it_was_written() {
        let written =
            "{\"effects\":[{\"result\":{\n\"z\": 10.50, \"a\":12345678901234567890123}}]}";
        let answer = Answer::parse(written.to_owned()).unwrap();
        assert_eq!(answer.whole(), written);
        assert_eq!(
            answer.lines("effects"),
            [r#"{"result":{ "z": 10.50, "a":12345678901234567890123}}"#]
        );
        assert_eq!(answer.lines("nothing"), Vec::<String>::new());
        let effect = Answer::parse(answer.lines("effects").remove(0)).unwrap();
        assert_eq!(effect.field("result"), Some(r#"{ "z": 10.50, "a":12345678901234567890123}"#));
        assert_eq!(Answer::parse(String::new()).unwrap().whole(), "null");
    }
}
