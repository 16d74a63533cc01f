//! What is shown: the answer of a server, or what was put together here.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde_json::Value;
use serde_json::value::RawValue;

/// Something to show, to people and to programs.
pub(crate) trait Shown {
    /// What tables are made of.
    fn read(&self) -> &Value;
    /// All of it, for programs.
    fn whole(&self) -> String;
    /// All of it, in one line.
    fn line(&self) -> String;
    /// The list that it has under `items`, a line for each.
    fn lines(&self, items: &str) -> Vec<String>;
}

impl Shown for Value {
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

/// What a server answered. Programs get it as it was written: what is read and written again has other
/// numbers, 10.5 for 10.50.
pub(crate) struct Answer {
    read: Value,
    written: String,
}

impl Answer {
    /// Reads an answer; none at all is `null`.
    pub(crate) fn parse(written: String) -> serde_json::Result<Answer> {
        let written = if written.is_empty() { "null".to_owned() } else { written };
        Ok(Answer { read: serde_json::from_str(&written)?, written })
    }

    /// A field as it was written.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.raw(name).map(RawValue::get)
    }

    /// Has tables show another value there.
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

impl Shown for Answer {
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

/// No text of JSON has a line break in it: it is between values, where a space says the same.
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
