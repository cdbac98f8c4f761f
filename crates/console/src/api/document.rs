//! The OpenAPI 3.1 document of the API, made of the table of operations.

use serde_json::{Map, Value, json};

use super::operation::{Field, Kind, Operation};
use super::table::OPERATIONS;

/// The OpenAPI document, made of the table of operations.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.route.path).or_insert_with(|| json!({}));
        path[operation.route.method.name().to_lowercase()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gauntlet",
            "version": "1",
            "summary": "What the console's pages do, for programs.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `gauntlet token new`, with the scope the operation names.",
                },
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": { "error": {
                        "type": "string", "description": "What is wrong, and what to do."
                    } },
                },
            },
            "responses": { "Error": {
                "description": "It was not done; the answer says why.",
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Error" },
                } },
            } },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let route = &operation.route;
    let mut parameters: Vec<Value> = in_path(route.path)
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    let mut described = json!({
        "operationId": id(operation),
        "summary": operation.summary,
        "responses": {
            "200": {
                "description": "Done.",
                "content": { "application/json": { "schema": object(operation.answer) } },
            },
            "default": { "$ref": "#/components/responses/Error" },
        },
    });
    if !operation.ordered.is_empty() {
        described["responses"]["202"] = json!({
            "description": "Another node of the array has the message, and was given this order; \
                            what it has not done yet it does when it takes the order.",
            "content": { "application/json": { "schema": object(operation.ordered) } },
        });
    }
    if let Some(scope) = operation.scope {
        described["security"] = json!([{ "token": [scope.name()] }]);
    }
    if route.method.writes_body() {
        if !operation.fields.is_empty() {
            described["requestBody"] = body(operation.fields);
        }
    } else {
        parameters.extend(operation.fields.iter().map(|f| {
            json!({ "name": f.name, "in": "query", "required": f.required,
                "description": f.about, "schema": schema(f.kind) })
        }));
    }
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    described
}

/// `POST /api/v1/queue/retry` is `post_queue_retry`.
fn id(operation: &Operation) -> String {
    let path = operation.route.path.trim_start_matches("/api/").trim_start_matches("v1/");
    let words = path.split('/').map(|w| w.trim_matches(['{', '}']).replace('.', "_"));
    let words: Vec<String> = words.collect();
    format!("{}_{}", operation.route.method.name().to_lowercase(), words.join("_"))
}

/// The names in a path.
pub(crate) fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|w| w.strip_prefix('{')?.strip_suffix('}'))
}

/// An order to a node, as [`crate::node::HeldOrder`] is written.
/// The schema of an object with these fields.
fn object(fields: &[(&str, &str)]) -> Value {
    let mut properties = Map::new();
    for (name, kind) in fields {
        let kinds: Vec<&str> = kind.split('|').collect();
        let kind = if kinds.len() == 1 { json!(kind) } else { json!(kinds) };
        properties.insert((*name).to_owned(), json!({ "type": kind }));
    }
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn body(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = schema(field.kind);
        schema["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> = fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    let schema = json!({ "type": "object", "required": required, "properties": properties,
        "additionalProperties": false });
    json!({
        "required": !required.is_empty(),
        "content": {
            "application/json": { "schema": schema },
            "application/x-www-form-urlencoded": { "schema": schema },
        },
    })
}

fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Lines => json!({ "type": "string" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Day => json!({ "type": "string", "format": "date" }),
        Kind::Choice(names) => json!({ "type": "string", "enum": names }),
        Kind::Choices(names) => {
            json!({ "type": "array", "items": { "type": "string", "enum": names } })
        }
    }
}
