//! Bytes in requests: base64 in the standard alphabet, padded, in one piece.

use data_encoding::BASE64;

/// Decodes a text, if it is the canonical encoding of its bytes.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    // The library also accepts several padded pieces in a row.
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
