//! Workers: the processes that consume messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::number::WorkerNumber;
use crate::schema::Owner;

/// A worker process, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Worker {
    #[schema(value_type = Owner)]
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Owner>)]
    pub sdk: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Owner>)]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Owner>)]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<WorkerNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<WorkerNumber>,
}

/// `POST /v1/leave`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// The id of the worker.
    #[schema(value_type = Owner)]
    pub worker: String,
}
