//! EVE records as plain trees, for whoever writes JSON.

use crate::text::text_of;

/// A value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text; of bytes that are no UTF-8 see [`text_of`].
    Text(String),
    /// A whole number.
    Number(i64),
    /// A truth value.
    Bool(bool),
    /// Values in order.
    List(Vec<Value>),
    /// Named values in order.
    Object(Fields),
}

/// Named values in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(pub Vec<(&'static str, Value)>);

impl Fields {
    /// Adds text.
    pub fn text(&mut self, name: &'static str, bytes: &[u8]) {
        self.0.push((name, Value::Text(text_of(bytes))));
    }

    /// Adds a number.
    pub fn number(&mut self, name: &'static str, number: i64) {
        self.0.push((name, Value::Number(number)));
    }

    /// Adds a truth value.
    pub fn truth(&mut self, name: &'static str, truth: bool) {
        self.0.push((name, Value::Bool(truth)));
    }

    /// Adds an object.
    pub fn object(&mut self, name: &'static str, fields: Fields) {
        self.0.push((name, Value::Object(fields)));
    }

    /// Adds a list.
    pub fn list(&mut self, name: &'static str, values: Vec<Value>) {
        self.0.push((name, Value::List(values)));
    }
}
