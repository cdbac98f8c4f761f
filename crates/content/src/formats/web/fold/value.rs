//! Values of a script's constants, and the text that they give.

use std::rc::Rc;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Unknown,
    Number(f64),
    /// Text; bytes as characters up to 255.
    Text(Rc<str>),
    List(Rc<Vec<Value>>),
}

/// About how many bytes a value gives as text.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::List(list) => 2 * list.len(),
        Value::Number(_) => 2,
        Value::Unknown => 0,
    }
}

/// Bytes as characters up to 255.
pub(super) fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}

/// A value as text in a list that is joined.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The characters of codes, also of a list of codes.
pub(super) fn characters(values: &[Value]) -> String {
    let code = |value: &Value| match value {
        Value::Number(number) if *number >= 0.0 => char::from_u32(*number as u32),
        _ => None,
    };
    let each = |value: &Value| match value {
        Value::List(list) => list.iter().filter_map(code).collect::<String>(),
        value => code(value).into_iter().collect(),
    };
    values.iter().map(each).collect()
}

/// The content of a blob: its parts, text or numbers.
pub(super) fn content(parts: &Value) -> String {
    match parts {
        Value::Text(text) => text.to_string(),
        Value::Number(number) => char::from_u32(*number as u32).into_iter().collect(),
        Value::List(list) => list
            .iter()
            .map(|part| match part {
                Value::List(inner) => characters(inner),
                part => content(part),
            })
            .collect(),
        Value::Unknown => String::new(),
    }
}
