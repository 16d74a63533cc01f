//! Lists, a page at a time. A cursor is the last name of the page before, in a form nobody takes apart.

use data_encoding::BASE64URL_NOPAD;
use driftq_core::Text;

use super::failure::Failure;

const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

/// How many a call may bring, or that there is no such number.
pub(crate) fn limit(limit: Option<u32>) -> Result<usize, Failure> {
    match limit.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(limit as usize),
        _ => Err(Failure::invalid("limit", "1 to 1000 are possible")),
    }
}

pub(crate) fn to_cursor(place: &str) -> String {
    BASE64URL_NOPAD.encode(place.as_bytes())
}

pub(crate) fn from_cursor(cursor: &str) -> Result<String, Failure> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok();
    bytes
        .filter(|bytes| !bytes.is_empty())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| Failure::invalid("cursor", "send next_cursor of the page before, unchanged"))
}

/// Which page is meant.
pub(crate) struct Pages {
    limit: usize,
    after: Option<String>,
}

impl Pages {
    pub(crate) fn new(of: Option<u32>, cursor: Option<&str>) -> Result<Pages, Failure> {
        Ok(Pages { limit: limit(of)?, after: cursor.map(from_cursor).transpose()? })
    }

    /// The page, of things sorted by name, and the cursor of the next.
    pub(crate) fn of<T>(
        &self,
        all: Vec<T>,
        name: impl Fn(&T) -> &Text,
    ) -> (Vec<T>, Option<String>) {
        let is_after = |item: &T| self.after.as_deref().is_none_or(|after| **name(item) > *after);
        let mut page: Vec<T> = all.into_iter().filter(is_after).take(self.limit + 1).collect();
        if page.len() <= self.limit {
            return (page, None);
        }
        page.truncate(self.limit);
        let next = page.last().map(|last| to_cursor(name(last)));
        (page, next)
    }
}
