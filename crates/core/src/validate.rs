//! Validation of names, keys, owners and lease times.

use crate::command::{Rejection, Worker};
use crate::effect::Scope;
use crate::id::Text;
use crate::limits::{
    DLQ_TOPIC_BYTES_MAX, GROUP_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN,
    OWNER_BYTES_MAX, TOPIC_BYTES_MAX,
};
use crate::name::{GroupName, TopicName};

/// Rejects names that are not of letters, digits, `.`, `_` and `-`, or do not start with a letter
/// or digit.
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
                "must be 1 to {bytes_max} of A-Z a-z 0-9 . _ - and start with a letter or digit"
            ),
        ))
    }
}

/// Whether a topic can have this name.
pub fn is_topic_name(name: &str) -> bool {
    check_name("name", name, TOPIC_BYTES_MAX).is_ok()
}

/// Rejects the name of an operation that is not a name, or a path such as the full method name
/// `/pkg.Service/Method` of gRPC.
fn check_operation(name: &str) -> Result<(), Rejection> {
    let fits = (1..=GROUP_BYTES_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
    if fits {
        Ok(())
    } else {
        let reason = format!(
            "the operation must be 1 to {GROUP_BYTES_MAX} of A-Z a-z 0-9 . _ - / and start with a letter, a digit or /"
        );
        Err(Rejection::invalid("scope", reason))
    }
}

pub(crate) fn check_owner(owner: &str) -> Result<(), Rejection> {
    let fits = (1..=OWNER_BYTES_MAX).contains(&owner.len()) && !owner.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Rejection::invalid("owner", format!("must be 1 to {OWNER_BYTES_MAX} printable bytes")))
    }
}

/// Rejects an id, or another text of a worker, that is not short and printable.
pub(crate) fn check_worker_text(field: &'static str, text: &str) -> Result<(), Rejection> {
    if (1..=OWNER_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(())
    } else {
        let reason = format!("must be 1 to {OWNER_BYTES_MAX} printable bytes");
        Err(Rejection::invalid(field, reason))
    }
}

pub(crate) fn check_worker(worker: &Worker) -> Result<(), Rejection> {
    check_worker_text("worker.id", &worker.id)?;
    let texts = [
        ("worker.sdk", &worker.sdk),
        ("worker.version", &worker.version),
        ("worker.host", &worker.host),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            check_worker_text(field, text)?;
        }
    }
    Ok(())
}

pub(crate) fn check_key(key: &str) -> Result<(), Rejection> {
    if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(Rejection::invalid(
            "key",
            format!("must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes without control characters"),
        ))
    }
}

pub(crate) fn check_lease(lease_ms: u64) -> Result<(), Rejection> {
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        Ok(())
    } else {
        Err(Rejection::invalid(
            "lease_ms",
            format!("must be between {LEASE_MS_MIN} and {LEASE_MS_MAX} (got {lease_ms})"),
        ))
    }
}

impl Scope {
    /// Parses the name of a scope in `namespace`.
    pub fn parse(namespace: &Text, text: &str) -> Result<Scope, Rejection> {
        let wrong = || {
            Rejection::invalid(
                "scope",
                "must be op/<name>, effect/<topic>/<group> or produce/<topic>",
            )
        };
        let topic = |name: &str| -> Result<TopicName, Rejection> {
            check_name("scope", name, DLQ_TOPIC_BYTES_MAX)?;
            Ok(TopicName { namespace: namespace.clone(), topic: name.into() })
        };
        match text.split_once('/').ok_or_else(wrong)? {
            ("op", name) => {
                check_operation(name)?;
                Ok(Scope::Op(name.into()))
            }
            ("effect", rest) => {
                let (name, group) = rest.split_once('/').ok_or_else(wrong)?;
                check_name("scope", group, GROUP_BYTES_MAX)?;
                Ok(Scope::Delivery(GroupName { topic: topic(name)?, group: group.into() }))
            }
            ("produce", name) => Ok(Scope::Produce(topic(name)?)),
            _ => Err(wrong()),
        }
    }
}
