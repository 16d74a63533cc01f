//! Request types: their JSON form, and the parameters of their query form.

use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::body::Purpose;

/// A request: a JSON body, or a query that sets the same fields.
pub(crate) trait ApiRequest: DeserializeOwned + ToSchema + Send + 'static {
    /// The parameters of its query form.
    const QUERY: &'static [Param];
    /// The purpose of its body, which decides the memory pool.
    const PURPOSE: Purpose = Purpose::Other;

    /// Whether DriftQ-Core v1 has the request. Under the profile `v1`, such a query is read as v1
    /// read it.
    const IS_OF_V1: bool = false;
    /// Whether a lease of 0 means the default there.
    const MAY_LEASE_0: bool = false;

    /// The topic and the group that it names, for the access log.
    fn names(&self) -> (Option<&str>, Option<&str>) {
        (None, None)
    }
}

/// A request without parameters.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl ApiRequest for Nothing {
    const IS_OF_V1: bool = true;
    const QUERY: &'static [Param] = &[];
}

/// A delete request. `confirm` repeats the name to delete.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirm {
    pub(crate) confirm: Option<String>,
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
}

impl ApiRequest for Confirm {
    const QUERY: &'static [Param] = &[field("confirm"), field("by"), field("reason")];
}

/// A parameter of a query.
pub(crate) struct Param {
    pub(super) name: &'static str,
    /// The field of the JSON form.
    pub(super) path: &'static str,
    /// Whether the value is Unix milliseconds and the field a time.
    pub(super) is_unix_ms: bool,
}

/// A parameter with the name of its field.
pub(crate) const fn field(name: &'static str) -> Param {
    Param { name, path: name, is_unix_ms: false }
}

/// A parameter with another name than its field.
pub(crate) const fn alias(name: &'static str, path: &'static str) -> Param {
    Param { name, path, is_unix_ms: false }
}

/// A time as Unix milliseconds.
pub(crate) const fn unix_ms(name: &'static str, path: &'static str) -> Param {
    Param { name, path, is_unix_ms: true }
}
