//! Escaping of untrusted text for terminals and logs. Characters that move the cursor, end a line
//! or change the text direction are escaped as in JSON.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character is a control or formatting character.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Escapes a text into one line.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            _ if is_unseen(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => shown.push(c),
        }
    }
    shown.into()
}

/// Escapes a text but keeps its line breaks.
pub(crate) fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Writes each log event as one line. Each call of `write` must carry one complete event.
pub(crate) struct OneLine<W>(pub(crate) W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        self.0.write_all(format!("{}\n", escaped(line)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped_and_the_rest_is_left() {
        let plain = "größer → 10 % \\n {\"a\": \"b\"} 日本";
        assert_eq!(escaped(plain), plain);
        assert_eq!(
            escaped("a\nb\r\tc\0\u{1b}[31m\u{7f}\u{9b}\u{202e}\u{2028}\u{feff}"),
            r"a\nb\r\tc\u0000\u001b[31m\u007f\u009b\u202e\u2028\ufeff"
        );
        assert_eq!(escaped_lines("a\n\u{1b}b\n"), "a\n\\u001bb\n");
    }

    #[test]
    fn an_event_is_one_line_and_json_stays_json() {
        let mut written = Vec::new();
        let mut log = OneLine(&mut written);
        log.write_all(b"INFO purged by=m\nINFO forged\x1b[2J\n").unwrap();
        log.write_all("{\"by\":\"a\\n\u{202e}b\"}\n".as_bytes()).unwrap();
        let written = String::from_utf8(written).unwrap();
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines[0], r"INFO purged by=m\nINFO forged\u001b[2J");
        let read: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(read["by"], "a\n\u{202e}b");
        assert_eq!(lines.len(), 2);
    }
}
