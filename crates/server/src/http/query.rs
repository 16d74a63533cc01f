//! The query form of requests. A parameter sets a field of the JSON form, and the schema of that
//! field determines how its value is parsed. The OpenAPI document is generated from the same form.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use driftq_api::{INTEGER_MAX, Time};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{Object, OneOf, RefOr, Schema};

use super::api_error::{ApiError, Invalid};
use super::json_error::from_json;
use super::profile;
use super::request::{ApiRequest, Param};

/// The parameters of a request, with their schemas.
pub(super) struct Form {
    pub(super) params: Vec<FormParam>,
}

pub(super) struct FormParam {
    pub(super) name: &'static str,
    path: &'static str,
    pub(super) kind: Kind,
    pub(super) schema: RefOr<Schema>,
    pub(super) is_required: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Integer,
    Boolean,
    UnixMs,
}

impl FormParam {
    pub(super) fn path(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.split('.')
    }
}

impl Form {
    /// Creates the form of a request with the schema of `S`. Parameters without a field in `S` are
    /// left out.
    pub(super) fn new<S: ToSchema>(params: &'static [Param]) -> Form {
        let fields = Fields::of::<S>();
        let params = params.iter().filter_map(|param| fields.param(param)).collect();
        Form { params }
    }

    /// Returns the form of a request type, which is created once.
    fn of<T: ApiRequest>() -> &'static Form {
        static FORMS: LazyLock<RwLock<HashMap<TypeId, &'static Form>>> =
            LazyLock::new(RwLock::default);
        let known = FORMS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = known.get(&TypeId::of::<T>()) {
            return form;
        }
        drop(known);
        let mut forms = FORMS.write().unwrap_or_else(PoisonError::into_inner);
        forms
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::leak(Box::new(Form::new::<T>(T::QUERY))))
    }
}

/// Parses a request from its query, under the profile `v1` if `is_v1`.
pub(crate) fn from_query<T: ApiRequest>(query: &str, is_v1: bool) -> Result<T, ApiError> {
    let form = Form::of::<T>();
    let mut request = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if is_v1 && profile::ignores(&name, &value) {
            continue;
        }
        let Some(param) = form.params.iter().find(|param| param.name == name) else {
            if is_v1 {
                continue;
            }
            let known: Vec<_> = form.params.iter().map(|param| param.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ApiError::invalid(&name, format!("unknown parameter; known: {known}")));
        };
        let invalid = |reason: &str| Invalid::new(&name, format!("{reason} (got {value:?})"));
        let value = param.kind.read(&value).map_err(invalid)?;
        let path: Vec<&str> = param.path().collect();
        set(&mut request, &path, value).map_err(|()| Invalid::new(&name, "is given twice"))?;
    }
    let text = serde_json::to_vec(&request).expect("values serialize");
    Ok(from_json(&text)?)
}

impl Kind {
    fn read(self, text: &str) -> Result<Value, &'static str> {
        match self {
            Kind::Text => Ok(Value::from(text)),
            Kind::Integer => integer(text).map(Value::from).ok_or("must be an integer"),
            Kind::UnixMs => {
                let ms = integer(text).and_then(|ms| u64::try_from(ms).ok());
                let ms = ms.ok_or("must be Unix milliseconds")?;
                Ok(Value::from(Time(ms).to_string()))
            }
            Kind::Boolean => match text {
                "true" | "1" => Ok(Value::from(true)),
                "false" | "0" => Ok(Value::from(false)),
                _ => Err("must be true or false"),
            },
        }
    }
}

/// Parses an integer in JSON syntax, without plus sign and leading zeros. It must be exact in every
/// client.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let is_json = number.to_string() == text;
    (is_json && number.unsigned_abs() <= INTEGER_MAX).then_some(number)
}

/// Decodes a name or value of a query. Bytes that are not UTF-8 are rejected, so that no text is
/// stored altered.
fn decoded(text: &str) -> Result<String, ApiError> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| ApiError::invalid("", "the query is not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// Sets `path`. Fails if a parameter and its alias are both given.
fn set(request: &mut Map<String, Value>, path: &[&str], value: Value) -> Result<(), ()> {
    let [name, rest @ ..] = path else { return Err(()) };
    if rest.is_empty() {
        return match request.insert((*name).to_owned(), value) {
            Some(_) => Err(()),
            None => Ok(()),
        };
    }
    let inner = request.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    set(inner.as_object_mut().ok_or(())?, rest, value)
}

/// The schema of a request, and the schemas it refers to.
struct Fields {
    request: RefOr<Schema>,
    named: Vec<(String, RefOr<Schema>)>,
}

impl Fields {
    fn of<S: ToSchema>() -> Fields {
        let mut named = Vec::new();
        S::schemas(&mut named);
        Fields { request: S::schema(), named }
    }

    fn param(&self, param: &Param) -> Option<FormParam> {
        let path: Vec<&str> = param.path.split('.').collect();
        let plain = self.plain(self.field(&self.request, &path)?);
        let (kind, schema) = if param.is_unix_ms {
            let ms = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
            (Kind::UnixMs, ms.into())
        } else {
            (kind(plain.first()?), one_of(plain))
        };
        let is_required = self.is_required(&path);
        Some(FormParam { name: param.name, path: param.path, kind, schema, is_required })
    }

    fn is_required(&self, path: &[&str]) -> bool {
        let RefOr::T(Schema::Object(request)) = &self.request else { return false };
        path.first().is_some_and(|name| request.required.iter().any(|required| required == name))
    }

    fn field<'a>(&'a self, of: &'a RefOr<Schema>, path: &[&str]) -> Option<&'a RefOr<Schema>> {
        let [name, rest @ ..] = path else { return Some(of) };
        match of {
            RefOr::Ref(named) => self.field(self.named(&named.ref_location)?, path),
            RefOr::T(Schema::Object(object)) => self.field(object.properties.get(*name)?, rest),
            // An optional object.
            RefOr::T(Schema::OneOf(one_of)) => {
                one_of.items.iter().find_map(|item| self.field(item, path))
            }
            RefOr::T(_) => None,
        }
    }

    /// Returns the schemas of a field that a query can express. References are resolved, because
    /// the document names only types that appear in JSON.
    fn plain(&self, schema: &RefOr<Schema>) -> Vec<RefOr<Schema>> {
        match schema {
            RefOr::Ref(named) => {
                self.named(&named.ref_location).map_or_else(Vec::new, |schema| self.plain(schema))
            }
            RefOr::T(Schema::OneOf(one_of)) => {
                let plain = one_of.items.iter().flat_map(|item| self.plain(item));
                plain.map(|item| with_default(item, one_of.default.as_ref())).collect()
            }
            RefOr::T(Schema::Object(object)) if is_null(object) => Vec::new(),
            RefOr::T(Schema::Object(object)) if object.properties.is_empty() => {
                vec![not_null(object.clone()).into()]
            }
            RefOr::T(_) => Vec::new(),
        }
    }

    fn named(&self, location: &str) -> Option<&RefOr<Schema>> {
        let (_, name) = location.rsplit_once('/')?;
        self.named.iter().find(|(known, _)| known == name).map(|(_, schema)| schema)
    }
}

fn kind(schema: &RefOr<Schema>) -> Kind {
    let RefOr::T(Schema::Object(object)) = schema else { return Kind::Text };
    match &object.schema_type {
        SchemaType::Type(Type::Integer) => Kind::Integer,
        SchemaType::Type(Type::Boolean) => Kind::Boolean,
        _ => Kind::Text,
    }
}

fn is_null(object: &Object) -> bool {
    object.schema_type == SchemaType::Type(Type::Null)
}

fn one_of(schemas: Vec<RefOr<Schema>>) -> RefOr<Schema> {
    match <[RefOr<Schema>; 1]>::try_from(schemas) {
        Ok([only]) => only,
        Err(schemas) => schemas.into_iter().fold(OneOf::builder(), OneOfBuilder::item).into(),
    }
}

/// Adds the default of an optional field, which utoipa stores outside its type.
fn with_default(mut schema: RefOr<Schema>, default: Option<&Value>) -> RefOr<Schema> {
    if let (RefOr::T(Schema::Object(object)), Some(default)) = (&mut schema, default) {
        object.default = Some(default.clone());
    }
    schema
}

/// Removes null from the types of a schema, because a query cannot express it.
fn not_null(mut object: Object) -> Object {
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|of| *of != Type::Null);
        if let [only] = &types[..] {
            object.schema_type = SchemaType::Type(only.clone());
        }
    }
    object
}
