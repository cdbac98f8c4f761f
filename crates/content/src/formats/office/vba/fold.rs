//! What VBA makes of its constants, without running it: strings that are joined, built from
//! character codes, reversed, replaced, or written in hexadecimal digits or base64.
//!
//! Statements are read in the order in which they stand, variables by their last assignment; loops
//! and calls of other procedures are not followed. Steps, depth and bytes are bounded.

use std::collections::HashMap;

use super::token::{Token, tokens};
use crate::text;

/// Operands that are evaluated in one module.
const STEPS_MAX: usize = 200_000;
/// Expressions inside each other.
const DEPTH_MAX: usize = 32;
/// Bytes of all strings that are made.
const BYTES_MAX: usize = 4 << 20;
/// Variables of one module.
const NAMES_MAX: usize = 10_000;
/// Strings that are given.
const FOUND_MAX: usize = 2_000;
/// Characters of a string that is worth showing, and of one that may be encoded.
const SHOWN_CHARS_MIN: usize = 4;
const ENCODED_CHARS_MIN: usize = 16;

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(f64),
    List(Vec<Value>),
    Unknown,
}

/// The strings that the source makes, each once, in the order in which they are made.
pub(super) fn strings(source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let mut folder = Folder {
        tokens: &tokens,
        at: 0,
        names: HashMap::new(),
        steps_left: STEPS_MAX,
        bytes_left: BYTES_MAX,
        found: Vec::new(),
    };
    while folder.at < tokens.len() && folder.steps_left > 0 {
        folder.statement();
    }
    folder.found
}

struct Folder<'t> {
    tokens: &'t [Token<'t>],
    at: usize,
    names: HashMap<String, Value>,
    steps_left: usize,
    bytes_left: usize,
    found: Vec<String>,
}

impl<'t> Folder<'t> {
    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.tokens.get(self.at + ahead) == Some(&Token::Sign(sign))
    }

    /// An assignment, or an expression that stands somewhere.
    fn statement(&mut self) {
        let before = self.at;
        if let Some(Token::Word(name)) = self.tokens.get(self.at)
            && self.is_sign(1, '=')
        {
            self.at += 2;
            let value = self.expression(0);
            if self.names.len() < NAMES_MAX {
                self.names.insert(name.to_ascii_lowercase(), value);
            }
        } else {
            self.expression(0);
        }
        self.at = self.at.max(before + 1);
    }

    /// Operands and what joins them; what is made of several is shown.
    fn expression(&mut self, depth: usize) -> Value {
        let before = self.at;
        let (value, is_joined) = self.joined(0, depth);
        if is_joined && self.at > before {
            self.keep(&value);
        }
        value
    }

    /// Operands joined by operators that bind at least this tightly, and whether there are any.
    fn joined(&mut self, tightness: u8, depth: usize) -> (Value, bool) {
        let mut value = self.operand(depth);
        let mut is_joined = false;
        while let Some(Token::Sign(sign)) = self.tokens.get(self.at)
            && let Some(own) = tightness_of(*sign).filter(|own| *own >= tightness)
        {
            if self.steps_left == 0 {
                return (Value::Unknown, false);
            }
            self.at += 1;
            let (right, _) = self.joined(own + 1, depth);
            is_joined = true;
            value = self.combined(*sign, value, right);
        }
        (value, is_joined)
    }

    fn combined(&mut self, sign: char, left: Value, right: Value) -> Value {
        use Value::{Number, Text, Unknown};
        match (sign, left, right) {
            ('+', Number(a), Number(b)) => Number(a + b),
            ('-', Number(a), Number(b)) => Number(a - b),
            ('*', Number(a), Number(b)) => Number(a * b),
            ('^', Number(a), Number(b)) => Number(((a as i64) ^ (b as i64)) as f64),
            ('&' | '+', Text(a), Text(b)) => self.text(a + &b),
            ('&', Text(a), Number(b)) => self.text(format!("{a}{b}")),
            ('&', Number(a), Text(b)) => self.text(format!("{a}{b}")),
            ('&', Number(a), Number(b)) => self.text(format!("{a}{b}")),
            // What is unknown is mostly a part of a path or address: the rest is kept.
            ('&' | '+', Text(a), Unknown) | ('&' | '+', Unknown, Text(a)) => Text(a),
            _ => Unknown,
        }
    }

    fn text(&mut self, text: String) -> Value {
        match self.bytes_left.checked_sub(text.len()) {
            Some(left) => {
                self.bytes_left = left;
                Value::Text(text)
            }
            None => {
                self.steps_left = 0;
                Value::Unknown
            }
        }
    }

    /// Shows a string that was made.
    fn keep(&mut self, value: &Value) {
        let Value::Text(text) = value else { return };
        let is_shown = text.chars().count() >= SHOWN_CHARS_MIN
            && text.chars().all(|c| !c.is_control() || c.is_whitespace());
        if !is_shown || self.found.len() >= FOUND_MAX || self.found.last() == Some(text) {
            return;
        }
        // A longer string of the same beginning takes the place of the shorter one.
        match self.found.last_mut() {
            Some(last) if text.starts_with(last.as_str()) => last.clone_from(text),
            _ => self.found.push(text.clone()),
        }
    }

    fn operand(&mut self, depth: usize) -> Value {
        if depth >= DEPTH_MAX || self.steps_left == 0 {
            return Value::Unknown;
        }
        self.steps_left -= 1;
        match self.tokens.get(self.at) {
            Some(Token::Text(text)) => {
                self.at += 1;
                if let Some(plain) = decoded(text) {
                    self.keep(&Value::Text(plain));
                }
                self.text(text.clone())
            }
            Some(Token::Number(number)) => {
                self.at += 1;
                Value::Number(*number)
            }
            Some(Token::Sign('-')) => {
                self.at += 1;
                match self.operand(depth + 1) {
                    Value::Number(number) => Value::Number(-number),
                    _ => Value::Unknown,
                }
            }
            Some(Token::Sign('(')) => {
                self.at += 1;
                self.list(depth).into_iter().next_back().unwrap_or(Value::Unknown)
            }
            Some(Token::Word(word)) => {
                self.at += 1;
                self.word(word, depth)
            }
            _ => Value::Unknown,
        }
    }

    /// A variable, or a function with its arguments; members of objects are passed over.
    fn word(&mut self, word: &str, depth: usize) -> Value {
        let mut name = word.to_ascii_lowercase();
        while self.is_sign(0, '.')
            && let Some(Token::Word(member)) = self.tokens.get(self.at + 1)
        {
            name = member.to_ascii_lowercase();
            self.at += 2;
        }
        if !self.is_sign(0, '(') {
            return match name.as_str() {
                "vbcrlf" | "vbnewline" | "vblf" | "vbcr" => Value::Text("\n".to_owned()),
                "vbtab" => Value::Text("\t".to_owned()),
                "vbnullstring" => Value::Text(String::new()),
                _ => self.names.get(&name).cloned().unwrap_or(Value::Unknown),
            };
        }
        self.at += 1;
        let values = self.list(depth);
        let made = self.call(&name, &values);
        self.keep(&made);
        made
    }

    /// Values up to the closing bracket.
    fn list(&mut self, depth: usize) -> Vec<Value> {
        let mut values = Vec::new();
        while self.at < self.tokens.len() && self.steps_left > 0 {
            match self.tokens[self.at] {
                Token::Sign(')') => {
                    self.at += 1;
                    break;
                }
                Token::End => break,
                Token::Sign(',') => self.at += 1,
                _ => {
                    let before = self.at;
                    values.push(self.expression(depth + 1));
                    // What is no operand here is passed over.
                    self.at = self.at.max(before + 1);
                }
            }
        }
        values
    }

    /// Functions of VBA that make strings; others give what they get, if that is one string.
    fn call(&mut self, name: &str, values: &[Value]) -> Value {
        use Value::{List, Number, Text, Unknown};
        match (name.trim_end_matches('$'), values) {
            ("chr" | "chrw" | "chrb", [Number(code), ..]) => {
                let c = char::from_u32(*code as u32).unwrap_or('\u{fffd}');
                self.text(c.to_string())
            }
            ("asc" | "ascw" | "ascb", [Text(text), ..]) => {
                text.chars().next().map_or(Unknown, |c| Number(f64::from(u32::from(c))))
            }
            ("strreverse", [Text(text), ..]) => self.text(text.chars().rev().collect()),
            ("replace", [Text(text), Text(from), Text(to), ..]) if !from.is_empty() => {
                let most = text.len() + text.matches(from.as_str()).count() * to.len();
                if most > self.bytes_left {
                    return Unknown;
                }
                self.text(text.replace(from.as_str(), to))
            }
            ("lcase" | "ltrim" | "rtrim" | "trim" | "cstr" | "cvar", [Text(text), ..]) => {
                self.text(text.trim().to_owned())
            }
            ("cstr" | "clng" | "cint" | "cbyte" | "int", [number @ Number(_), ..]) => {
                number.clone()
            }
            ("left", [Text(text), Number(n), ..]) => {
                self.text(text.chars().take(*n as usize).collect())
            }
            ("right", [Text(text), Number(n), ..]) => {
                let skipped = text.chars().count().saturating_sub(*n as usize);
                self.text(text.chars().skip(skipped).collect())
            }
            ("mid", [Text(text), Number(from), rest @ ..]) => {
                let count = if let [Number(n), ..] = rest { *n as usize } else { usize::MAX };
                let from = (*from as usize).saturating_sub(1);
                self.text(text.chars().skip(from).take(count).collect())
            }
            ("array", values) => List(values.to_vec()),
            ("split", [Text(text), Text(by), ..]) if !by.is_empty() => {
                let part = |part: &str| Text(part.to_owned());
                List(text.split(by.as_str()).take(NAMES_MAX).map(part).collect())
            }
            ("join", [List(list), rest @ ..]) => {
                let by = if let [Text(by), ..] = rest { by.as_str() } else { " " };
                let each =
                    |value: &Value| if let Text(t) = value { t.clone() } else { String::new() };
                self.text(list.iter().map(each).collect::<Vec<_>>().join(by))
            }
            // A function of the module that decodes: what it gets was shown, if it could be.
            _ => Unknown,
        }
    }
}

/// How tightly an operator binds (MS-VBAL section 5.6.9); none for other signs.
fn tightness_of(sign: char) -> Option<u8> {
    Some(match sign {
        '^' => 0,
        '&' => 1,
        '+' | '-' => 2,
        '*' => 3,
        _ => return None,
    })
}

/// What a string of hexadecimal digits or base64 says, if that is text.
fn decoded(text: &str) -> Option<String> {
    if text.len() < ENCODED_CHARS_MIN {
        return None;
    }
    let bytes = hexadecimal(text).or_else(|| {
        let is_aligned = text.len().is_multiple_of(4);
        is_aligned.then(|| base64_simd::STANDARD.decode_to_vec(text.as_bytes()).ok()).flatten()
    })?;
    let is_text = |text: &str| {
        let plain = |c: char| matches!(c, ' '..='~' | '\t' | '\r' | '\n');
        text.len() >= SHOWN_CHARS_MIN && text.chars().all(plain)
    };
    let narrow = String::from_utf8(bytes.clone()).ok().filter(|text| is_text(text));
    narrow.or_else(|| Some(text::utf16_le(&bytes)).filter(|text| is_text(text)))
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::strings;

    #[test]
    fn common_forms() {
        for (source, expected) in [
            (
                "a = Chr(104) & Chr$(&H74) + ChrW(116) & \"p://\" & \"evil.example/a\"",
                "http://evil.example/a",
            ),
            ("x = StrReverse(\"1/elpmaxe.live//:ptth\")", "http://evil.example/1"),
            ("u = \"htZZtp:/ZZ/e.exaZZmple\"\nShell Replace(u, \"ZZ\", \"\")", "http://e.example"),
            ("a = \"http:\"\na = a & \"//b\"\na = a & \".example\"", "http://b.example"),
            ("Call D(\"687474703a2f2f652e6578616d706c65\")", "http://e.example"),
            ("Call D(\"aHR0cDovL2UuZXhhbXBsZS9h\")", "http://e.example/a"),
            ("s = Join(Array(\"ht\", \"tp:\", \"//e.example\"), \"\")", "http://e.example"),
            ("p = Mid(\"xxhttp://e.example\", 3) ' a comment", "http://e.example"),
            ("q = \"ht\" & _\r\n \"tp://e.example\"", "http://e.example"),
            ("k = Chr(99 - 1 * 0 + 5) & Chr(116) & Chr(116 Xor 0) & \"p:\"", "http:"),
        ] {
            let found = strings(source);
            assert!(found.iter().any(|s| s == expected), "{source}: {found:?}");
        }
    }

    #[test]
    fn bounds() {
        let deep = "(".repeat(10_000);
        assert!(strings(&format!("a = {deep}")).is_empty());
        let grows = format!("a = \"x\"\n{}", "a = a & a\n".repeat(60));
        assert!(strings(&grows).iter().all(|s| s.len() <= 4 << 20));
        strings("a = Chr(-1) & Chr(99999999) & Mid(\"x\", -4, 99999) & Left(\"\", 5)");
        strings("a = \"unclosed");
    }
}
