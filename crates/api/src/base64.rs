//! Bytes on the wire: base64 of the standard alphabet, padded, in one piece.

use data_encoding::BASE64;

/// The bytes of a text, if it is the one text of those bytes.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    // The library also takes padded pieces one after the other.
    let is_one_piece = !text.trim_end_matches('=').contains('=');
    BASE64.decode(text.as_bytes()).ok().filter(|_| is_one_piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_text_of_each_value() {
        assert_eq!(from_base64("eA=="), Some(b"x".to_vec()));
        assert_eq!(from_base64(""), Some(Vec::new()));
        for text in ["eA", "eB==", "eA==eA==", "eA==\n", "-_==", "=", "eA=", "eA==="] {
            assert_eq!(from_base64(text), None, "{text}");
        }
    }
}
