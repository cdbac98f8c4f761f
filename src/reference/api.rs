//! `docs/reference/api.md`: the operations of the API, from `docs/openapi.json`, which a test of
//! the console keeps equal to its routes.

use serde_json::Value;

use super::{cell, golden};

const HEAD: &str = "# Operations of the API

Every operation with the scope that a token needs, and the fields that it takes; those with a star
are needed. A test makes this page from `docs/openapi.json`, which has ranges and answers, too. How
to get a token, and what answers look like: [the API](../api.md).
";

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// A schema in words: its values, or its type.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return values.join(", ");
    }
    match text(schema, "type") {
        "array" => format!("list of {}", kind(&schema["items"])),
        "string" if schema["format"].is_string() => text(schema, "format").to_owned(),
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

fn row(name: &str, is_needed: bool, schema: &Value, says: &str) -> String {
    let star = if is_needed { " *" } else { "" };
    format!("| `{name}`{star} | {} | {} |\n", cell(&kind(schema)), cell(says))
}

/// Fields in path and query, then those of the body.
fn fields(operation: &Value) -> String {
    let mut rows = String::new();
    for field in operation["parameters"].as_array().into_iter().flatten() {
        let is_needed = field["required"] == true;
        rows += &row(text(field, "name"), is_needed, &field["schema"], text(field, "description"));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    for (name, schema) in body["properties"].as_object().into_iter().flatten() {
        let needed = body["required"].as_array();
        let is_needed = needed.is_some_and(|names| names.iter().any(|known| known == name));
        rows += &row(name, is_needed, schema, text(schema, "description"));
    }
    rows
}

#[test]
fn the_page_of_the_api_is_true() {
    let document: Value =
        serde_json::from_str(include_str!("../../docs/openapi.json")).expect("JSON");
    let (mut page, mut count) = (HEAD.to_owned(), 0);
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            count += 1;
            let scopes = operation["security"][0]["token"].as_array().into_iter().flatten();
            let scopes: Vec<String> =
                scopes.filter_map(Value::as_str).map(|scope| format!("`{scope}`")).collect();
            let scope = match scopes.as_slice() {
                [] => "No token is needed, or a session is.".to_owned(),
                scopes => format!("Scope: {}.", scopes.join(", ")),
            };
            // Braces at the end of a heading would be its attributes, but for the signs of code.
            let title = format!("`{} {path}`", method.to_uppercase());
            let says = super::wrapped(&format!("{} {scope}", text(operation, "summary")));
            page += &format!("\n## {title}\n\n{says}\n");
            let rows = fields(operation);
            if !rows.is_empty() {
                page += &format!("\n| Field | Type | Meaning |\n|---|---|---|\n{rows}");
            }
        }
    }
    assert!(count > 60, "the operations are found: {count}");
    golden("api.md", &page);
}
