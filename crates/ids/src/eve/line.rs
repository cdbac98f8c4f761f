//! A record as it is written: a JSON object on a line, its fields in the order in which they came.

use gauntlet_protocols::{Fields, Value};

use crate::bytes::base64;

/// A JSON object that grows.
pub(super) struct Line {
    out: Vec<u8>,
    /// Nothing is in the innermost object or list yet.
    is_first: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { out: b"{".to_vec(), is_first: true }
    }

    /// The line, without its end.
    pub(super) fn finish(mut self) -> String {
        self.out.push(b'}');
        String::from_utf8(self.out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        self.text(key);
        self.out.push(b':');
    }

    fn text(&mut self, text: &str) {
        // Memory takes all that is written to it.
        let _ = serde_json::to_writer(&mut self.out, text);
    }

    fn integer(&mut self, number: i128) {
        self.out.extend_from_slice(number.to_string().as_bytes());
    }

    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text(value);
    }

    pub(super) fn optional(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(key, value);
        }
    }

    pub(super) fn number(&mut self, key: &str, value: impl Into<i128>) {
        self.key(key);
        self.integer(value.into());
    }

    pub(super) fn truth(&mut self, key: &str, value: bool) {
        self.key(key);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(super) fn base64(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.text(&base64::encode(bytes));
    }

    /// Bytes as ASCII text; a dot for what is not printable, but ends of lines.
    pub(super) fn printable(&mut self, key: &str, bytes: &[u8]) {
        let text: String = bytes.iter().map(|byte| printable(*byte)).collect();
        self.string(key, &text);
    }

    pub(super) fn object(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.nested(write);
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.is_first = true;
        write(self);
        self.out.push(b'}');
        self.is_first = false;
    }

    fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.key(key);
        self.out.push(b'[');
        self.is_first = true;
        for item in items {
            self.comma();
            write(self, item);
            self.is_first = false;
        }
        self.out.push(b']');
        self.is_first = false;
    }

    pub(super) fn strings<'s>(&mut self, key: &str, items: impl IntoIterator<Item = &'s str>) {
        self.list(key, items, |line, item| line.text(item));
    }

    pub(super) fn numbers(&mut self, key: &str, items: impl IntoIterator<Item = u64>) {
        self.list(key, items, |line, item| line.integer(item.into()));
    }

    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.list(key, items, |line, item| line.nested(|line| write(line, item)));
    }

    /// A value that others made.
    pub(super) fn json(&mut self, key: &str, value: &serde_json::Value) {
        self.key(key);
        // Memory takes all that is written to it.
        let _ = serde_json::to_writer(&mut self.out, value);
    }

    /// What a parser has to say, beside what is there.
    pub(super) fn fields(&mut self, fields: &Fields) {
        for (key, value) in &fields.0 {
            self.key(key);
            self.value(value);
        }
    }

    /// One named value of a parser.
    pub(super) fn field(&mut self, key: &str, value: &Value) {
        self.key(key);
        self.value(value);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Text(text) => self.text(text),
            Value::Number(number) => self.integer((*number).into()),
            Value::Bool(truth) => {
                self.out.extend_from_slice(if *truth { b"true" } else { b"false" });
            }
            Value::List(values) => {
                self.out.push(b'[');
                self.is_first = true;
                for value in values {
                    self.comma();
                    self.value(value);
                    self.is_first = false;
                }
                self.out.push(b']');
                self.is_first = false;
            }
            Value::Object(fields) => self.nested(|line| line.fields(fields)),
        }
    }
}

fn printable(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' | b' '..=b'~' => char::from(byte),
        _ => '.',
    }
}
