//! Settling deliveries.

use serde::{Deserialize, Serialize};
use utoipa::openapi::{Object, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::Time;
use crate::limits::ITEMS_MAX;
use crate::number::{DelayMs, Integer, LeaseMs, PartitionNumber};
use crate::schema::{GroupName, LeaseToken, Owner, TopicName};
use crate::strict::objects;
use crate::words::SettledStatus;

/// Identifies a delivery, by its token, or by position and owner as in v1.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the API reference says what each field is")]
pub struct Settle {
    #[schema(value_type = Option<LeaseToken>)]
    pub token: Option<String>,
    #[schema(value_type = Option<TopicName>)]
    pub topic: Option<String>,
    #[schema(value_type = Option<GroupName>)]
    pub group: Option<String>,
    pub partition: Option<PartitionNumber>,
    pub offset: Option<Integer>,
    #[schema(value_type = Option<Owner>)]
    pub owner: Option<String>,
    pub reason: Option<String>,
    pub delay_ms: Option<DelayMs>,
    #[serde(alias = "final")]
    pub dead_letter: Option<bool>,
    pub release: Option<bool>,
    pub lease_ms: Option<LeaseMs>,
    pub op: Option<Op>,
}

/// `POST /v1/ack`: a [`Settle`] with only the fields that identify the delivery.
#[derive(Debug)]
pub enum Ack {}

/// `POST /v1/nack`: a [`Settle`] that may have a reason, a delay and the kind of nack.
#[derive(Debug)]
pub enum Nack {}

/// `POST /v1/extend`: a [`Settle`] that may have `lease_ms`.
#[derive(Debug)]
pub enum Extend {}

/// An item of `POST /v1/settle`: a [`Settle`] with `op`.
#[derive(Debug)]
pub enum SettleItem {}

const OF_NACK: [&str; 4] = ["reason", "delay_ms", "dead_letter", "release"];
const OF_EXTEND: [&str; 1] = ["lease_ms"];

impl PartialSchema for Ack {
    fn schema() -> RefOr<Schema> {
        single(&[&OF_NACK, &OF_EXTEND])
    }
}

impl PartialSchema for Nack {
    fn schema() -> RefOr<Schema> {
        single(&[&OF_EXTEND])
    }
}

impl PartialSchema for Extend {
    fn schema() -> RefOr<Schema> {
        single(&[&OF_NACK])
    }
}

impl PartialSchema for SettleItem {
    fn schema() -> RefOr<Schema> {
        let mut settle = whole();
        settle.required.push("op".to_owned());
        // `op` is required, so null is not allowed.
        settle.properties.insert("op".to_owned(), Ref::from_schema_name(Op::name()).into());
        settle.into()
    }
}

impl ToSchema for Ack {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Settle::schemas(schemas);
    }
}

impl ToSchema for Nack {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Settle::schemas(schemas);
    }
}

impl ToSchema for Extend {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Settle::schemas(schemas);
    }
}

impl ToSchema for SettleItem {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Settle::schemas(schemas);
    }
}

fn whole() -> Object {
    let RefOr::T(Schema::Object(settle)) = Settle::schema() else {
        unreachable!("the schema of a struct with named fields is an object")
    };
    settle
}

/// Returns the schema of a route for one operation: without `op`, which the path implies, and
/// without the fields of other operations.
fn single(of_others: &[&[&str]]) -> RefOr<Schema> {
    let mut settle = whole();
    let is_own = |name: &str| name != "op" && !of_others.iter().any(|of| of.contains(&name));
    settle.properties.retain(|name, _| is_own(name));
    settle.into()
}

/// The operation of an item of `POST /v1/settle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Op {
    Ack,
    Nack,
    Extend,
}

/// `POST /v1/settle`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleMany {
    /// 1 to 1 000 items.
    #[serde(deserialize_with = "objects::<_, _, 1, ITEMS_MAX>")]
    #[schema(value_type = Vec<SettleItem>, min_items = 1, max_items = 1000)]
    pub items: Vec<Settle>,
}

/// The result of one item.
#[derive(Debug, Serialize, ToSchema)]
pub struct Settled {
    /// `acked`, `nacked` or `extended`.
    pub status: SettledStatus,
    /// The new end of an extended lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// The response to `POST /v1/settle`.
#[derive(Debug, Serialize, ToSchema)]
pub struct SettledMany {
    /// In the order of the request.
    pub results: Vec<crate::message::Item<Settled>>,
    /// The number of items that succeeded.
    pub done: usize,
    /// The number of items that were rejected or failed.
    pub refused: usize,
}
