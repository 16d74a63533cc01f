//! The reference page and the OpenAPI document agree on routes, fields, statuses and errors, in
//! both directions.
//!
//! How the page is parsed: a route is a heading `` `POST /v1/ack` ``. Below it, `field` and
//! `parameter` tables list the request, JSON blocks the response, and lines that begin with `Query
//! form`, `Answers` and `Refuses with` the rest. An object is shown with all its fields or omitted:
//! in JSON as `{ "…": … }`, in a table as one row. An object omitted in one section must be shown
//! in another. In JSON, a text next to objects is a remark.

use std::collections::{BTreeMap, BTreeSet};

use driftq_api::ErrorCode;
use driftq_server::http::document;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/reference/api.md");

type Names = BTreeSet<String>;

/// The words in backticks.
fn ticked(text: &str) -> Names {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn names<'a>(of: impl IntoIterator<Item = &'a str>) -> Names {
    of.into_iter().map(str::to_owned).collect()
}

/// A section of the page, from its heading to the next.
struct Section {
    heading: &'static str,
    text: &'static str,
}

fn sections() -> Vec<Section> {
    let parts = PAGE.split("\n#").skip(1);
    let section = |part: &'static str| {
        let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
        Section { heading: heading.trim_start_matches(['#', ' ']), text }
    };
    parts.map(section).collect()
}

impl Section {
    /// First cells of the rows of all tables whose first column is `head`.
    fn rows(&self, head: &str) -> Vec<&'static str> {
        let mut is_meant = false;
        let mut rows = Vec::new();
        for line in self.text.lines() {
            let Some(first) = line.strip_prefix('|').and_then(|cells| cells.split('|').next())
            else {
                is_meant = false;
                continue;
            };
            if is_meant { rows.push(first) } else { is_meant = first.trim() == head }
        }
        rows
    }

    /// The paragraph with this beginning.
    fn paragraph(&self, beginning: &str) -> &'static str {
        let begin = |paragraph: &&str| paragraph.starts_with(beginning);
        self.text.split("\n\n").map(str::trim).find(begin).unwrap_or_default()
    }

    fn fields(&self, head: &str) -> Names {
        self.rows(head).into_iter().flat_map(ticked).collect()
    }

    /// The fields of the response by dotted name, and the names of the omitted objects.
    fn answered(&self) -> (Names, Names) {
        let (mut shown, mut left_out) = (Names::new(), Names::new());
        for block in self.text.split("```json\n").skip(1) {
            let (block, _) = block.split_once("```").expect("a block ends");
            let value: Value = serde_json::from_str(block)
                .unwrap_or_else(|error| panic!("{}: {error}\n{block}", self.heading));
            dotted(&value, "", &mut shown, &mut left_out);
        }
        (shown, left_out)
    }
}

fn dotted(value: &Value, at: &str, shown: &mut Names, left_out: &mut Names) {
    for item in value.as_array().into_iter().flatten() {
        dotted(item, at, shown, left_out);
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if name == "…" {
            left_out.insert(at.to_owned());
            continue;
        }
        let name = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        dotted(inner, &name, shown, left_out);
        shown.insert(name);
    }
}

/// The document, and the objects the page has shown or only named.
struct Compared {
    document: Value,
    shown: Names,
    named: Names,
}

impl Compared {
    /// The fields of a schema in all its variants, and the names of those variants.
    fn fields(&self, schema: &Value) -> (BTreeMap<String, Vec<Value>>, Names) {
        let mut fields: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut called = Names::new();
        let mut rest = vec![schema.clone()];
        while let Some(schema) = rest.pop() {
            let name = schema["$ref"].as_str().and_then(|of| of.rsplit('/').next());
            // Errors have their own table and their own test.
            if let Some(name) = name.filter(|name| *name != "Error") {
                let referred = self.document["components"]["schemas"][name].clone();
                if referred["properties"].is_object() {
                    called.insert(name.to_owned());
                }
                rest.push(referred);
            }
            rest.extend(schema.get("items").cloned());
            for shapes in ["oneOf", "anyOf"] {
                rest.extend(schema[shapes].as_array().into_iter().flatten().cloned());
            }
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                fields.entry(name.clone()).or_default().push(property.clone());
            }
        }
        (fields, called)
    }

    /// The names the page must have for `schemas`, given that it has `page` and omits `left_out`.
    fn expect(&mut self, schemas: &[Value], at: &str, page: &Names, left_out: &Names) -> Names {
        let mut expected = Names::new();
        for schema in schemas {
            let (fields, called) = self.fields(schema);
            if fields.is_empty() {
                continue;
            }
            let inside = if at.is_empty() { String::new() } else { format!("{at}.") };
            let is_spelt_out = page.iter().any(|name| name.starts_with(&inside));
            if !is_spelt_out || left_out.contains(at) {
                self.named.extend(called);
                continue;
            }
            self.shown.extend(called);
            for (name, of) in fields {
                let name = format!("{inside}{name}");
                expected.extend(self.expect(&of, &name, page, left_out));
                expected.insert(name);
            }
        }
        expected
    }
}

fn operations(document: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (path, of) in document["paths"].as_object().expect("paths") {
        for (method, operation) in of.as_object().expect("operations") {
            all.push((format!("{} {path}", method.to_uppercase()), operation.clone()));
        }
    }
    all
}

/// Error codes of an operation.
fn codes(operation: &Value) -> Names {
    let text = operation["responses"].to_string();
    let is_there = |code: &ErrorCode| text.contains(&format!("/{}\"", code.schema_name()));
    ErrorCode::ALL.iter().copied().filter(is_there).map(word).collect()
}

fn word(code: ErrorCode) -> String {
    serde_json::to_value(code).expect("a word").as_str().expect("a word").to_owned()
}

/// The section of each operation; `GET POST /v1/consume` is a section of two.
fn routes() -> BTreeMap<String, Section> {
    let mut routes = BTreeMap::new();
    for section in sections() {
        let Some(route) = section.heading.strip_prefix('`').and_then(|of| of.strip_suffix('`'))
        else {
            continue;
        };
        let (methods, path) = route.rsplit_once(' ').expect("methods and a path");
        for method in methods.split(' ') {
            let (heading, text) = (section.heading, section.text);
            routes.insert(format!("{method} {path}"), Section { heading, text });
        }
    }
    routes
}

#[test]
fn the_page_has_exactly_the_existing_routes() {
    let document = document();
    let of_document: Names = operations(&document).into_iter().map(|(route, _)| route).collect();
    let of_page: Names = routes().into_keys().collect();
    assert_eq!(of_page, of_document);
}

#[test]
fn requests_and_responses_on_the_page_match_the_document() {
    let document = document();
    let routes = routes();
    let mut compared =
        Compared { document: document.clone(), shown: Names::new(), named: Names::new() };
    for (route, operation) in operations(&document) {
        let section = &routes[&route];
        let nothing = Names::new();
        let body = operation["requestBody"]["content"]["application/json"]["schema"].clone();
        let of_page = section.fields("field");
        let expected = compared.expect(std::slice::from_ref(&body), "", &of_page, &nothing);
        if !body.is_null() {
            assert_eq!(of_page, expected, "{route}: request body");
        }

        let parameters = operation["parameters"].as_array().expect("there is always one");
        let of_kind = |kind| {
            let of_kind = parameters.iter().filter(move |parameter| parameter["in"] == kind);
            of_kind.filter_map(|parameter| parameter["name"].as_str())
        };
        let query = names(of_kind("query"));
        let of_page = match section.paragraph("Query form") {
            "" if body.is_null() => &section.fields("parameter") | &section.fields("field"),
            "Query form: the same names." => {
                section.fields("field").into_iter().filter(|name| !name.contains('.')).collect()
            }
            listed => ticked(listed),
        };
        assert_eq!(of_page, query, "{route}: query parameters");
        for header in of_kind("header") {
            assert!(ticked(section.text).contains(header), "{route}: {header}");
        }

        let answers = operation["responses"].as_object().expect("answers");
        let answers = answers.iter().filter(|(status, _)| {
            status.starts_with('2') || route == "GET /v1/readyz" && *status == "503"
        });
        let statuses = names(answers.clone().map(|(status, _)| status.as_str()));
        assert_eq!(ticked(section.paragraph("Answers")), statuses, "{route}: statuses");
        let bodies: Vec<Value> = answers
            .filter_map(|(_, answer)| answer["content"].as_object()?.values().next())
            .map(|content| content["schema"].clone())
            .collect();
        let (of_page, left_out) = section.answered();
        let mut expected = compared.expect(&bodies, "", &of_page, &left_out);
        // Entries of a map are examples, and `value_base64` is documented with `value`.
        let is_entry = |name: &&String| {
            name.contains("routing.meta.")
                || route == "GET /v1/series" && name.starts_with("series.")
        };
        expected.extend(of_page.iter().filter(is_entry).cloned());
        expected.retain(|name| !name.ends_with("value_base64"));
        assert_eq!(of_page, expected, "{route}: response");
    }
    let settings = sections().into_iter().find(|section| section.heading == "Settings");
    let of_page = settings.expect("a section").fields("setting");
    let schema = serde_json::json!({ "$ref": "#/components/schemas/Settings" });
    let expected = compared.expect(&[schema], "", &of_page, &Names::new());
    assert_eq!(of_page, expected, "settings");
    // Settings are the same everywhere.
    compared.shown.extend(names(["SettingsPatch"]));
    let never: Vec<&String> = compared.named.difference(&compared.shown).collect();
    assert!(never.is_empty(), "omitted everywhere: {never:?}");
}

#[test]
fn errors_of_each_route_on_the_page_match_the_document() {
    let document = document();
    let operations = operations(&document);
    // Readiness has its own error format.
    let others = operations.iter().filter(|(route, _)| route != "GET /v1/readyz");
    let of_all: Vec<Names> = others.map(|(_, of)| codes(of)).collect();
    let everywhere = sections().into_iter().find(|section| section.heading == "Errors");
    let everywhere = ticked(everywhere.expect("a section").paragraph("Any route"));
    let is_shared = |code: &&String| of_all.iter().all(|of| of.contains(*code));
    let shared: Names = of_all[0].iter().filter(is_shared).cloned().collect();
    // An unsupported method is not an operation.
    let also: Names = names(["METHOD_NOT_ALLOWED"]);
    assert_eq!(everywhere, &shared | &also, "on every route");
    let routes = routes();
    for (route, operation) in &operations {
        let of_page = ticked(routes[route].paragraph("Refuses with"));
        let own: Names = codes(operation).difference(&shared).cloned().collect();
        assert_eq!(of_page, own, "{route}");
    }
}

#[test]
fn the_error_table_matches_the_document() {
    let document = document();
    let section = sections().into_iter().find(|section| section.heading == "Errors");
    let mut of_page = Vec::new();
    for line in section.expect("a section").text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, code, status, retryable, fields, _, _] = cells.as_slice()
            && status.parse::<u16>().is_ok()
            && let Some(code) = code.strip_prefix('`').and_then(|code| code.strip_suffix('`'))
        {
            let always: Names =
                fields.split(", ").filter(|of| of.ends_with('`')).flat_map(ticked).collect();
            let sometimes: Names =
                fields.split(", ").filter(|of| of.ends_with('?')).flat_map(ticked).collect();
            let is_retryable = *retryable == "yes";
            of_page.push((code.to_owned(), (*status).to_owned(), is_retryable, always, sometimes));
        }
    }
    let of_document: Vec<_> = ErrorCode::ALL
        .iter()
        .copied()
        .map(|code| {
            let shape = &document["components"]["schemas"][code.schema_name()];
            let common = names(["error", "message", "retryable", "request_id", "part", "index"]);
            let required = shape["required"].as_array().expect("some are").iter();
            let required = names(required.filter_map(Value::as_str));
            assert!(required.is_superset(&names(["error", "message", "retryable"])), "{code:?}");
            let all =
                names(shape["properties"].as_object().expect("fields").keys().map(String::as_str));
            let always = required.difference(&common).cloned().collect();
            let sometimes = &(&all - &required) - &common;
            let status = code.status().to_string();
            (word(code), status, code.is_retryable(), always, sometimes)
        })
        .collect();
    assert_eq!(of_page, of_document);
}
