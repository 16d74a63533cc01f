//! What may be the name of a topic or a group.

use crate::command::Rejection;

/// Names are letters, digits, `.`, `_` and `-`, and begin with a letter or digit.
pub(crate) fn check_name(
    field: &'static str,
    name: &str,
    bytes_max: usize,
) -> Result<(), Rejection> {
    let fits = name.len() <= bytes_max
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if fits {
        Ok(())
    } else {
        Err(Rejection::invalid(
            field,
            format!(
                "must be 1 to {bytes_max} of A-Z a-z 0-9 . _ - and begin with a letter or digit"
            ),
        ))
    }
}
