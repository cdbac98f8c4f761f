//! Values of a PDF (ISO 32000-2 section 7.3), and their tokens, read as leniently as readers do.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Name(Box<[u8]>),
    /// A string, decoded from its written form, still encrypted or not.
    Text(Box<[u8]>),
    Array(Vec<Value>),
    Dict(Dict),
    /// An indirect object's number.
    Reference(u32),
}

/// A dictionary, in its written order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Dict(pub(super) Vec<(Box<[u8]>, Value)>);

impl Dict {
    /// The value of a key, the last if it stands there twice.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(k, _)| **k == *key.as_bytes()).map(|(_, value)| value)
    }

    /// Whether a key has this name as its value.
    pub(super) fn is(&self, key: &str, name: &str) -> bool {
        matches!(self.get(key), Some(Value::Name(n)) if **n == *name.as_bytes())
    }
}

impl Value {
    pub(super) fn dict(&self) -> Option<&Dict> {
        if let Value::Dict(dict) = self { Some(dict) } else { None }
    }

    pub(super) fn text(&self) -> Option<&[u8]> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        if let Value::Name(name) = self { Some(name) } else { None }
    }

    /// A number as an integer of at least 0.
    pub(super) fn integer(&self) -> Option<usize> {
        match self {
            Value::Number(n) if *n >= 0.0 && *n < 4e9 => Some(*n as usize),
            _ => None,
        }
    }
}

/// Containers inside each other.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Number(f64),
    Name(Box<[u8]>),
    Text(Box<[u8]>),
    ArrayOpen,
    ArrayClose,
    DictOpen,
    DictClose,
    Word(&'a [u8]),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lexer<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

pub(super) fn is_space(b: u8) -> bool {
    matches!(b, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn is_regular(b: u8) -> bool {
    !is_space(b)
        && !matches!(b, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Lexer { bytes, at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Passes over white space and comments.
    pub(super) fn skip_space(&mut self) {
        while let Some(b) = self.peek() {
            if b == b'%' {
                let rest = &self.bytes[self.at..];
                let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                self.at += end;
            } else if is_space(b) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn regular(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(is_regular) {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// The next token; none at the end.
    pub(super) fn token(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        let first = self.peek()?;
        let second = self.bytes.get(self.at + 1).copied();
        self.at += 1;
        Some(match first {
            b'/' => Token::Name(name(self.regular())),
            b'(' => Token::Text(self.literal()),
            b'<' if second == Some(b'<') => {
                self.at += 1;
                Token::DictOpen
            }
            b'>' if second == Some(b'>') => {
                self.at += 1;
                Token::DictClose
            }
            b'<' => Token::Text(self.hexadecimal()),
            b'[' => Token::ArrayOpen,
            b']' => Token::ArrayClose,
            b')' | b'>' | b'{' | b'}' => Token::Word(&self.bytes[self.at - 1..self.at]),
            _ => {
                self.at -= 1;
                let word = self.regular();
                match first {
                    b'0'..=b'9' | b'+' | b'-' | b'.' => {
                        number(word).map_or(Token::Word(word), Token::Number)
                    }
                    _ => Token::Word(word),
                }
            }
        })
    }

    /// A string in parentheses, behind the first.
    fn literal(&mut self) -> Box<[u8]> {
        let mut out = Vec::new();
        let mut depth = 1;
        while let Some(b) = self.peek() {
            self.at += 1;
            match b {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'\\' => {
                    self.escape(&mut out);
                    continue;
                }
                _ => {}
            }
            out.push(b);
        }
        out.into_boxed_slice()
    }

    fn escape(&mut self, out: &mut Vec<u8>) {
        let Some(b) = self.peek() else { return };
        self.at += 1;
        match b {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'\r' => self.at += usize::from(self.peek() == Some(b'\n')),
            b'\n' => {}
            b'0'..=b'7' => {
                let mut value = u32::from(b - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                out.push((value & 0xff) as u8);
            }
            other => out.push(other),
        }
    }

    /// A string of hexadecimal digits, behind `<`; what is no digit is passed over.
    fn hexadecimal(&mut self) -> Box<[u8]> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
        self.at = (self.at + end + 1).min(self.bytes.len());
        hex(&rest[..end])
    }

    /// The next value. `left` is what may still be made of values in all. Stops before a word
    /// that ends an object.
    pub(super) fn value(&mut self, left: &mut usize) -> Option<Value> {
        self.value_at(left, 0)
    }

    fn value_at(&mut self, left: &mut usize, depth: usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        let before = self.at;
        Some(match self.token()? {
            Token::Number(n) => self.reference(n).unwrap_or(Value::Number(n)),
            Token::Name(name) => Value::Name(name),
            Token::Text(text) => Value::Text(text),
            Token::ArrayOpen if depth < DEPTH_MAX => {
                let mut values = Vec::new();
                loop {
                    let start = self.at;
                    match self.token() {
                        None | Some(Token::ArrayClose) => break,
                        Some(Token::DictClose) => continue,
                        Some(_) => self.at = start,
                    }
                    match self.value_at(left, depth + 1) {
                        Some(value) => values.push(value),
                        None => break,
                    }
                }
                Value::Array(values)
            }
            Token::DictOpen if depth < DEPTH_MAX => Value::Dict(self.dict(left, depth)),
            Token::Word(b"true") => Value::Bool(true),
            Token::Word(b"false") => Value::Bool(false),
            Token::Word(b"endobj" | b"obj" | b"stream" | b"endstream" | b"xref" | b"trailer") => {
                self.at = before;
                return None;
            }
            _ => Value::Null,
        })
    }

    fn dict(&mut self, left: &mut usize, depth: usize) -> Dict {
        let mut entries = Vec::new();
        loop {
            let start = self.at;
            match self.token() {
                None | Some(Token::DictClose) => break,
                Some(Token::Name(key)) => {
                    let start = self.at;
                    if self.token() == Some(Token::DictClose) {
                        break;
                    }
                    self.at = start;
                    match self.value_at(left, depth + 1) {
                        Some(value) => entries.push((key, value)),
                        None => break,
                    }
                }
                Some(Token::Word(b"endobj" | b"stream" | b"obj")) => {
                    self.at = start;
                    break;
                }
                Some(_) => {}
            }
        }
        Dict(entries)
    }

    /// `N G R` behind the N.
    fn reference(&mut self, number: f64) -> Option<Value> {
        let number = Value::Number(number).integer()?;
        let mut ahead = *self;
        let Some(Token::Number(_)) = ahead.token() else { return None };
        let Some(Token::Word(b"R")) = ahead.token() else { return None };
        self.at = ahead.at;
        u32::try_from(number).ok().map(Value::Reference)
    }
}

/// A name with its `#xx` escapes decoded.
fn name(written: &[u8]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(written.len());
    let mut rest = written;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'#', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                out.push(digit(*a) << 4 | digit(*b));
                rest = after;
            }
            _ => out.push(*first),
        }
    }
    out.into_boxed_slice()
}

fn digit(b: u8) -> u8 {
    char::from(b).to_digit(16).map_or(0, |d| d as u8)
}

/// Pairs of hexadecimal digits; a single last one is followed by 0.
pub(super) fn hex(written: &[u8]) -> Box<[u8]> {
    let digits: Vec<u8> = written.iter().copied().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|p| digit(p[0]) << 4 | p.get(1).map_or(0, |&b| digit(b))).collect()
}

/// A number, by its longest beginning that is one: `1.2.3` is 1.2, `--5` is -5.
fn number(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(number) = text.parse() {
        // Not `inf`, `nan` or `1e5`, which the first byte lets pass.
        return text.bytes().all(|b| !b.is_ascii_alphabetic()).then_some(number);
    }
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.char_indices().scan(0, |dots, (at, c)| {
        *dots += u32::from(c == '.');
        (c.is_ascii_digit() || (c == '.' && *dots == 1)).then_some(at + 1)
    });
    let end = end.last()?;
    let value: f64 = digits[..end].parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}
