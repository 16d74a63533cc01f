//! A request in parts, so that each part can be corrupted.

use serde_json::Value;

/// A request in parts.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Name and value, as they appear in the URL.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) body: Option<Value>,
}

impl Ask {
    pub(crate) fn new(method: &str, path: &str) -> Ask {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Ask {
            method: method.to_owned(),
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            headers: Vec::new(),
            body: None,
        }
    }

    pub(crate) fn with(self, body: Value) -> Ask {
        Ask { body: Some(body), ..self }
    }

    /// Returns the bytes of the request, with its own body or another.
    pub(crate) fn bytes(&self, body: Option<Vec<u8>>) -> Vec<u8> {
        let own = || self.body.as_ref().map(|body| body.to_string().into_bytes());
        let body = body.or_else(own).unwrap_or_default();
        let pairs: Vec<_> =
            self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        let (method, path, query) = (&self.method, &self.path, pairs.join("&"));
        let line = format!("{method} {path}{mark}{query} HTTP/1.1\r\nhost: localhost\r\n");
        let mut bytes = line.into_bytes();
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
        bytes.extend(body);
        bytes
    }
}
