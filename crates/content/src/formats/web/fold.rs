//! What a script makes of its constants, without running it: strings that are joined, reversed,
//! decoded or built from numbers, as pages that carry a file in their text do.
//!
//! Expressions are evaluated where they stand, from the start to the end, variables by their last
//! assignment; loops and functions are not followed. Steps and bytes are bounded.

mod value;

use std::collections::HashMap;
use std::rc::Rc;

use super::bytes;
use super::javascript::Token;
use value::{Value, characters, content, latin, plain, weight};

/// Evaluated expressions of one script.
const STEPS_MAX: usize = 500_000;
/// Bytes of the strings that one script makes.
const BYTES_MAX: usize = 48 * 1024 * 1024;
/// Expressions inside each other.
const DEPTH_MAX: usize = 40;
/// Variables of one script.
const NAMES_MAX: usize = 20_000;
/// Strings below this are no content, unless a function made them of bytes.
const TEXT_BYTES_MIN: usize = 40;

/// What a script makes or does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Found {
    /// A string of its own or one that was joined.
    Text(Rc<str>),
    /// What `atob`, `unescape`, `fromCharCode` and the like gave.
    Decoded(Rc<str>),
    /// Bytes that are made a file.
    File(Rc<str>),
    /// The name under which a file is saved.
    Name(Rc<str>),
    /// What is written into the page.
    Written(Rc<str>),
    /// Where the page goes.
    Address(Rc<str>),
}

pub(super) struct Folder<'t> {
    tokens: &'t [Token<'t>],
    names: HashMap<&'t str, Value>,
    steps_left: usize,
    bytes_left: usize,
    pub(super) found: Vec<Found>,
}

/// Properties whose value is an address that the page goes to.
const ADDRESSES: [&str; 4] = ["location", "href", "replace", "assign"];

impl<'t> Folder<'t> {
    /// Evaluates all of a script.
    pub(super) fn fold(tokens: &'t [Token<'t>]) -> Vec<Found> {
        let mut folder = Folder {
            tokens,
            names: HashMap::new(),
            steps_left: STEPS_MAX,
            bytes_left: BYTES_MAX,
            found: Vec::new(),
        };
        let mut at = 0;
        while at < tokens.len() && folder.steps_left > 0 {
            at = folder.statement(at, 0);
        }
        folder.found
    }

    fn sign(&self, at: usize) -> Option<char> {
        if let Some(Token::Sign(sign)) = self.tokens.get(at) { Some(*sign) } else { None }
    }

    fn word(&self, at: usize) -> Option<&'t str> {
        if let Some(Token::Word(word)) = self.tokens.get(at) { Some(word) } else { None }
    }

    /// Evaluates the token at one place; result: the next place.
    fn statement(&mut self, at: usize, depth: usize) -> usize {
        match &self.tokens[at] {
            Token::Word("function" | "var" | "let" | "const" | "return" | "if") => at + 1,
            Token::Word(word) => {
                // `name = ...`, but not `==` and `=>`; `name += ...`; `key: ...` of an object.
                match (self.sign(at + 1), self.sign(at + 2)) {
                    (Some('='), next) if !matches!(next, Some('=' | '>')) => {
                        let (value, end) = self.expression(at + 2, depth);
                        self.assign(word, at, value);
                        end.max(at + 2)
                    }
                    (Some('+'), Some('=')) => {
                        let (value, end) = self.expression(at + 3, depth);
                        let before = self.names.get(word).cloned().unwrap_or(Value::Unknown);
                        let sum = self.sum(before, value);
                        self.assign(word, at, sum);
                        end.max(at + 3)
                    }
                    (Some('(' | '.' | '['), _) => self.expression(at, depth).1.max(at + 1),
                    _ => at + 1,
                }
            }
            Token::Text(_) | Token::Sign('[' | '(') => self.expression(at, depth).1.max(at + 1),
            _ => at + 1,
        }
    }

    fn assign(&mut self, name: &'t str, at: usize, value: Value) {
        if let Value::Text(text) = &value {
            let is_property = at > 0 && self.sign(at - 1) == Some('.');
            if name == "download" && is_property {
                self.found.push(Found::Name(text.clone()));
            } else if ADDRESSES.contains(&name) {
                self.found.push(Found::Address(text.clone()));
            } else if matches!(name, "innerHTML" | "outerHTML" | "srcdoc") {
                self.found.push(Found::Written(text.clone()));
            }
        }
        if self.names.len() < NAMES_MAX || self.names.contains_key(name) {
            self.names.insert(name, value);
        }
    }

    /// Makes text, within the bytes of the script.
    fn text(&mut self, text: String) -> Value {
        match self.bytes_left.checked_sub(text.len()) {
            Some(left) => {
                self.bytes_left = left;
                Value::Text(text.into())
            }
            None => {
                self.steps_left = 0;
                Value::Unknown
            }
        }
    }

    fn sum(&mut self, left: Value, right: Value) -> Value {
        match (left, right) {
            (Value::Number(a), Value::Number(b)) => Value::Number(a + b),
            (Value::Text(a), Value::Text(b)) => self.join(&a, &b),
            (Value::Text(a), Value::Number(b)) => self.join(&a, &b.to_string()),
            (Value::Number(a), Value::Text(b)) => self.join(&a.to_string(), &b),
            // What is unknown is mostly short: the rest is kept.
            (Value::Text(a), Value::Unknown) | (Value::Unknown, Value::Text(a)) => Value::Text(a),
            _ => Value::Unknown,
        }
    }

    /// Joins; the bound is checked before the copy is made.
    fn join(&mut self, a: &str, b: &str) -> Value {
        if a.len() + b.len() > self.bytes_left {
            self.steps_left = 0;
            return Value::Unknown;
        }
        self.text([a, b].concat())
    }

    /// An expression from `at`; result: its value and where it ends.
    fn expression(&mut self, at: usize, depth: usize) -> (Value, usize) {
        let (mut value, mut at) = self.operand(at, depth);
        let mut is_joined = false;
        loop {
            let sign = match (self.sign(at), self.sign(at + 1)) {
                (Some('+' | '-' | '*' | '^'), Some('=')) => break,
                (Some('+'), Some('+')) | (Some('-'), Some('-')) => break,
                (Some(sign @ ('+' | '-' | '*' | '^')), _) => sign,
                _ => break,
            };
            let (right, end) = self.operand(at + 1, depth);
            at = end.max(at + 1);
            value = match (sign, value, right) {
                ('+', a, b) => {
                    is_joined = true;
                    self.sum(a, b)
                }
                ('-', Value::Number(a), Value::Number(b)) => Value::Number(a - b),
                ('*', Value::Number(a), Value::Number(b)) => Value::Number(a * b),
                ('^', Value::Number(a), Value::Number(b)) => {
                    Value::Number(((a as i64) ^ (b as i64)) as f64)
                }
                _ => Value::Unknown,
            };
            if self.steps_left == 0 {
                break;
            }
        }
        if let Value::Text(text) = &value
            && is_joined
            && text.len() >= TEXT_BYTES_MIN
            && !self.is_known(text)
        {
            self.found.push(Found::Text(text.clone()));
        }
        (value, at)
    }

    /// Whether this very string was found a moment ago.
    fn is_known(&self, text: &Rc<str>) -> bool {
        let mut last = self.found.iter().rev().take(16);
        last.any(|found| matches!(found, Found::Text(known) if Rc::ptr_eq(known, text)))
    }

    fn operand(&mut self, at: usize, depth: usize) -> (Value, usize) {
        if depth >= DEPTH_MAX || self.steps_left == 0 {
            return (Value::Unknown, at);
        }
        self.steps_left -= 1;
        let (value, end) = match self.tokens.get(at) {
            Some(Token::Text(text)) => {
                let value = self.text(text.clone());
                if let Value::Text(text) = &value
                    && text.len() >= TEXT_BYTES_MIN
                {
                    self.found.push(Found::Text(text.clone()));
                }
                (value, at + 1)
            }
            Some(Token::Number(number)) => (Value::Number(*number), at + 1),
            Some(Token::Sign('-')) => match self.operand(at + 1, depth + 1) {
                (Value::Number(number), end) => (Value::Number(-number), end),
                (_, end) => (Value::Unknown, end),
            },
            Some(Token::Sign('+' | '.')) => return self.operand(at + 1, depth + 1),
            Some(Token::Sign('(')) => {
                let (mut values, end) = self.list(at + 1, ')', depth);
                (values.pop().unwrap_or(Value::Unknown), end)
            }
            Some(Token::Sign('[')) => {
                let (values, end) = self.list(at + 1, ']', depth);
                (Value::List(Rc::new(values)), end)
            }
            Some(Token::Word("new" | "await" | "return" | "void")) => {
                return self.operand(at + 1, depth + 1);
            }
            Some(Token::Word(word)) if self.sign(at + 1) == Some('(') => {
                let (values, end) = self.list(at + 2, ')', depth);
                (self.call(word, &values), end)
            }
            Some(Token::Word(word)) => {
                (self.names.get(word).cloned().unwrap_or(Value::Unknown), at + 1)
            }
            _ => return (Value::Unknown, at),
        };
        self.methods(value, end, depth)
    }

    /// Values up to a closing bracket; what is no expression is passed over.
    fn list(&mut self, from: usize, close: char, depth: usize) -> (Vec<Value>, usize) {
        let mut values = Vec::new();
        let mut at = from;
        let mut is_new = true;
        while at < self.tokens.len() && self.steps_left > 0 {
            match self.sign(at) {
                Some(sign) if sign == close => return (values, at + 1),
                Some(',') => {
                    if is_new {
                        values.push(Value::Unknown);
                    }
                    (at, is_new) = (at + 1, true);
                }
                Some(';') if close == ']' => return (values, at),
                // The body of a function: its statements are looked at like others.
                Some('{' | '}' | ';' | '=' | '>' | '<' | '?' | ':' | '&' | '|' | '!') => at += 1,
                _ => {
                    let is_assignment = self.word(at).is_some()
                        && self.sign(at + 1) == Some('=')
                        && !matches!(self.sign(at + 2), Some('=' | '>'));
                    let end = if is_assignment {
                        self.statement(at, depth + 1)
                    } else {
                        let (value, end) = self.expression(at, depth + 1);
                        if is_new {
                            values.push(value);
                        }
                        end
                    };
                    (at, is_new) = (end.max(at + 1), false);
                }
            }
        }
        (values, at)
    }

    /// Methods and indices behind a value.
    fn methods(&mut self, value: Value, at: usize, depth: usize) -> (Value, usize) {
        let (mut value, mut at) = (value, at);
        while self.steps_left > 0 {
            match (self.sign(at), self.word(at + 1)) {
                (Some('.'), Some(name)) if self.sign(at + 2) == Some('(') => {
                    let (values, end) = self.list(at + 3, ')', depth + 1);
                    let from = at + 3;
                    value = self.method(value, name, &values, &self.tokens[from..end]);
                    at = end;
                }
                (Some('.'), Some(name)) => {
                    // `name.download = ...` and the like are statements of their own.
                    let is_assigned =
                        matches!(self.sign(at + 2), Some('=')) && self.sign(at + 3) != Some('=');
                    if is_assigned {
                        return (Value::Unknown, at + 1);
                    }
                    value = match (&value, name) {
                        (Value::Text(text), "length") => Value::Number(text.len() as f64),
                        (Value::List(list), "length") => Value::Number(list.len() as f64),
                        _ => self.names.get(name).cloned().unwrap_or(Value::Unknown),
                    };
                    at += 2;
                }
                (Some('['), _) => {
                    let (values, end) = self.list(at + 1, ']', depth + 1);
                    value = match (&value, values.first()) {
                        (Value::List(list), Some(Value::Number(index))) => {
                            list.get(*index as usize).cloned().unwrap_or(Value::Unknown)
                        }
                        // `window["atob"](...)`.
                        (_, Some(Value::Text(name))) if self.sign(end) == Some('(') => {
                            let name = name.clone();
                            let (values, after) = self.list(end + 1, ')', depth + 1);
                            at = after;
                            let empty = &self.tokens[..0];
                            value = match value {
                                Value::Unknown => self.call(&name, &values),
                                value => self.method(value, &name, &values, empty),
                            };
                            continue;
                        }
                        _ => Value::Unknown,
                    };
                    at = end;
                }
                _ => break,
            }
        }
        (value, at)
    }

    /// A file made of parts: `new Blob(parts)`, `new File(parts, name)`.
    fn blob(&mut self, name: &str, first: &Value, values: &[Value]) -> Value {
        let parts = if let Value::List(list) = first { list.as_slice() } else { &[] };
        if !self.charge(parts.iter().map(weight).sum()) {
            return Value::Unknown;
        }
        let text = content(first);
        if !text.is_empty() {
            self.found.push(Found::File(text.as_str().into()));
        }
        if let ("File", Some(Value::Text(name))) = (name, values.get(1)) {
            self.found.push(Found::Name(name.clone()));
        }
        self.text(text)
    }

    fn join_list(&mut self, list: &[Value], by: Option<&Value>) -> Value {
        let by = if let Some(Value::Text(by)) = by { by.clone() } else { "".into() };
        let weight = list.iter().map(weight).sum::<usize>();
        if weight + by.len().saturating_mul(list.len()) > self.bytes_left {
            self.steps_left = 0;
            return Value::Unknown;
        }
        let parts: Vec<String> = list.iter().map(plain).collect();
        self.decoded(parts.join(&by))
    }

    /// A function by its name.
    fn call(&mut self, name: &str, values: &[Value]) -> Value {
        let first = values.first().cloned().unwrap_or(Value::Unknown);
        match (name, first) {
            ("atob", Value::Text(text)) => self.decoded(latin(&bytes::base64(text.as_bytes()))),
            ("unescape" | "decodeURIComponent" | "decodeURI", Value::Text(text)) => {
                self.decoded(bytes::unescaped(&text))
            }
            ("fromCharCode", _) => {
                if !self.charge(values.iter().map(weight).sum()) {
                    return Value::Unknown;
                }
                let text = characters(values);
                if text.chars().count() > 1 { self.decoded(text) } else { self.text(text) }
            }
            ("Blob" | "File", first) => self.blob(name, &first, values),
            ("msSaveBlob" | "msSaveOrOpenBlob" | "saveAs", first) => {
                if let Some(Value::Text(name)) = values.get(1) {
                    self.found.push(Found::Name(name.clone()));
                }
                first
            }
            ("setAttribute", Value::Text(attribute)) => {
                if let Some(Value::Text(value)) = values.get(1) {
                    match &*attribute {
                        "download" => self.found.push(Found::Name(value.clone())),
                        "href" => self.found.push(Found::Address(value.clone())),
                        _ => {}
                    }
                }
                Value::Unknown
            }
            ("write" | "writeln", Value::Text(text)) => {
                self.found.push(Found::Written(text));
                Value::Unknown
            }
            ("replace" | "assign" | "open", Value::Text(text)) => {
                self.found.push(Found::Address(text));
                Value::Unknown
            }
            ("eval" | "setTimeout" | "Function", Value::Text(text)) => {
                self.found.push(Found::Decoded(text));
                Value::Unknown
            }
            ("parseInt" | "Number", Value::Text(text)) => {
                let radix =
                    if let Some(Value::Number(radix)) = values.get(1) { *radix } else { 10.0 };
                let radix = if (2.0..=36.0).contains(&radix) { radix as u32 } else { 10 };
                i64::from_str_radix(text.trim(), radix)
                    .map_or(Value::Unknown, |number| Value::Number(number as f64))
            }
            ("Uint8Array" | "Array" | "String" | "from" | "of" | "encode" | "decode", first) => {
                first
            }
            // Most functions that a page has of its own decode what they are given.
            _ => Value::Unknown,
        }
    }

    /// Counts bytes that are looked at or copied; whether there is room for them.
    fn charge(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => (self.bytes_left, self.steps_left) = (0, 0),
        }
        self.steps_left > 0
    }

    fn decoded(&mut self, text: String) -> Value {
        let value = self.text(text);
        if let Value::Text(text) = &value {
            self.found.push(Found::Decoded(text.clone()));
        }
        value
    }

    /// A method of a value; `inside` are the tokens of its arguments.
    fn method(
        &mut self,
        value: Value,
        name: &str,
        values: &[Value],
        inside: &[Token<'_>],
    ) -> Value {
        // Looking through a value costs time even where nothing is made of it.
        if !self.charge(weight(&value) / 4) {
            return Value::Unknown;
        }
        let number = |index: usize| match values.get(index) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        };
        match (value, name, values.first()) {
            (Value::Text(text), "split", Some(Value::Text(by))) => {
                let parts: Vec<Value> = if by.is_empty() {
                    text.chars().map(|c| Value::Text(c.to_string().into())).collect()
                } else {
                    text.split(&**by).map(|part| Value::Text(part.into())).collect()
                };
                // A value of a list is larger than a character.
                self.bytes_left = self.bytes_left.saturating_sub(16 * parts.len());
                if self.bytes_left == 0 { Value::Unknown } else { Value::List(Rc::new(parts)) }
            }
            (Value::List(list), "reverse", _) => {
                Value::List(Rc::new(list.iter().rev().cloned().collect()))
            }
            (Value::List(list), "join", by) => self.join_list(&list, by),
            (Value::List(list), "map", _) => self.map(&list, inside),
            (Value::Text(text), "map", _) => self.text(text.to_string()),
            (Value::Text(text), "replace" | "replaceAll", Some(Value::Text(from))) => {
                let to =
                    if let Some(Value::Text(to)) = values.get(1) { to.clone() } else { "".into() };
                if to.len() > from.len().max(1) || from.is_empty() {
                    return Value::Text(text);
                }
                self.decoded(text.replace(&**from, &to))
            }
            (Value::Text(text), "replace", _) => self.without_pattern(&text, inside),
            (Value::Text(text), "slice" | "substring" | "substr", _) => {
                let start = number(0).unwrap_or(0.0).max(0.0) as usize;
                let end = number(1).map_or(usize::MAX, |end| end.max(0.0) as usize);
                let end = if name == "substr" { end.saturating_add(start) } else { end };
                let part = text.chars().skip(start).take(end.saturating_sub(start));
                self.text(part.collect())
            }
            (Value::Text(text), "concat", Some(Value::Text(more))) => self.join(&text, more),
            (Value::Number(value), "toString", _) => self.text(value.to_string()),
            (
                value @ (Value::Text(_) | Value::List(_)),
                "toString" | "trim" | "concat" | "flat",
                _,
            ) => value,
            // `String.fromCharCode.apply(null, list)`.
            (_, "apply", _) => match values.get(1) {
                Some(list @ Value::List(_)) => {
                    let text = characters(std::slice::from_ref(list));
                    self.decoded(text)
                }
                _ => Value::Unknown,
            },
            (_, name, _) => self.call(name, values),
        }
    }

    /// `replace(/x/g, '')`: which characters the pattern names is not known; those that are no
    /// digits of base64 are left out.
    fn without_pattern(&mut self, text: &str, inside: &[Token<'_>]) -> Value {
        let has_pattern = inside.first() == Some(&Token::Sign('/'));
        let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        if has_pattern && inside.iter().any(|t| *t == Token::Text(String::new())) {
            return self.decoded(text.chars().filter(|&c| is_digit(c)).collect());
        }
        Value::Text(text.into())
    }

    /// `map` with a function that changes each number by a constant, or makes characters.
    fn map(&mut self, list: &[Value], inside: &[Token<'_>]) -> Value {
        let constant = inside.windows(2).find_map(|pair| match pair {
            [Token::Sign(sign @ ('^' | '-' | '+')), Token::Number(number)] => {
                Some((*sign, *number as i64))
            }
            _ => None,
        });
        let changed: Vec<Value> = list
            .iter()
            .map(|value| match (value, constant) {
                (Value::Number(n), Some(('^', by))) => Value::Number(((*n as i64) ^ by) as f64),
                (Value::Number(n), Some(('-', by))) => Value::Number(*n - by as f64),
                (Value::Number(n), Some((_, by))) => Value::Number(*n + by as f64),
                (value, _) => value.clone(),
            })
            .collect();
        if inside.contains(&Token::Word("fromCharCode")) {
            let parts = changed.iter().map(|v| {
                let text = characters(std::slice::from_ref(v));
                Value::Text(text.into())
            });
            return Value::List(Rc::new(parts.collect()));
        }
        Value::List(Rc::new(changed))
    }
}
