//! Messages of SIP (RFC 3261 section 7).

use super::sdp::Description;

/// Fields that are kept of one message.
const FIELDS_MAX: usize = 4096;

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What its first line says.
    pub start: Start,
    /// The first line as rules see it: up to the first byte that has no place in one.
    pub line: Vec<u8>,
    /// Names, short forms written out, and values.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The description in its body.
    pub description: Option<Description>,
    /// Bytes of the first line with its end, of the fields, and of all that follows them.
    pub lengths: [usize; 3],
}

/// A first line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Start {
    Request { method: String, uri: String, version: String },
    Response { version: String, code: String, reason: String },
}

/// Why a message cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// It is cut.
    Incomplete,
    /// It is none.
    Invalid,
}

impl Message {
    /// Reads a request; says how many bytes it took. A body that is no session description is
    /// not taken.
    pub fn read_request(input: &[u8]) -> Result<(Self, usize), Defect> {
        let mut cursor = Cursor { input, place: 0 };
        let method = cursor.run(is_letter, 0)?;
        cursor.expect(b" ")?;
        let uri = cursor.run(is_uri, 1)?;
        cursor.expect(b" ")?;
        let version = cursor.version()?;
        let start = Start::Request { method, uri, version };
        Self::read_rest(cursor, start)
    }

    /// Reads a response.
    pub fn read_response(input: &[u8]) -> Result<(Self, usize), Defect> {
        let mut cursor = Cursor { input, place: 0 };
        let version = cursor.version()?;
        cursor.expect(b" ")?;
        let code = cursor.input.get(cursor.place..cursor.place + 3).ok_or(Defect::Incomplete)?;
        let code = std::str::from_utf8(code).map_err(|_| Defect::Invalid)?.to_owned();
        cursor.place += 3;
        cursor.expect(b" ")?;
        let reason = cursor.run(is_reason, 0)?;
        let start = Start::Response { version, code, reason };
        Self::read_rest(cursor, start)
    }

    fn read_rest(mut cursor: Cursor<'_>, start: Start) -> Result<(Self, usize), Defect> {
        let input = cursor.input;
        cursor.line_end()?;
        let line_bytes = cursor.place;
        let mut fields = Vec::new();
        while !cursor.is_line_end()? {
            let field = cursor.field()?;
            if fields.len() < FIELDS_MAX {
                fields.push(field);
            }
        }
        let fields_bytes = cursor.place - line_bytes;
        cursor.line_end()?;
        let body = input.get(cursor.place..).unwrap_or_default();
        let (description, taken) =
            Description::read(body).map_or((None, 0), |(read, taken)| (Some(read), taken));
        let line = input.iter().take_while(|byte| is_reason(**byte)).copied().collect();
        let lengths = [line_bytes, fields_bytes, body.len()];
        Ok((Self { start, line, fields, description, lengths }, cursor.place + taken))
    }

    /// Values of all fields of this name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let of_name = self.fields.iter().filter(move |(other, _)| other == name);
        of_name.map(|(_, value)| value.as_slice())
    }
}

struct Cursor<'a> {
    input: &'a [u8],
    place: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.input.get(self.place..).unwrap_or_default()
    }

    /// Bytes that fit, at least so many; what follows them must be there.
    fn run(&mut self, fits: fn(u8) -> bool, least: usize) -> Result<String, Defect> {
        let rest = self.rest();
        let count = rest.iter().position(|byte| !fits(*byte)).ok_or(Defect::Incomplete)?;
        if count < least {
            return Err(Defect::Invalid);
        }
        self.place += count;
        Ok(String::from_utf8_lossy(rest.get(..count).unwrap_or_default()).into_owned())
    }

    fn expect(&mut self, wanted: &[u8]) -> Result<(), Defect> {
        let rest = self.rest();
        let have = rest.get(..wanted.len()).unwrap_or(rest);
        if !wanted.starts_with(have) {
            return Err(Defect::Invalid);
        }
        if have.len() < wanted.len() {
            return Err(Defect::Incomplete);
        }
        self.place += wanted.len();
        Ok(())
    }

    fn version(&mut self) -> Result<String, Defect> {
        self.expect(b"SIP/")?;
        let number = self.run(|byte| byte.is_ascii_digit() || byte == b'.', 1)?;
        Ok(format!("SIP/{number}"))
    }

    fn line_end(&mut self) -> Result<(), Defect> {
        self.expect(b"\r\n")
    }

    fn is_line_end(&mut self) -> Result<bool, Defect> {
        match self.line_end() {
            Ok(()) => {
                self.place -= 2;
                Ok(true)
            }
            Err(Defect::Invalid) => Ok(false),
            Err(Defect::Incomplete) => Err(Defect::Incomplete),
        }
    }

    fn field(&mut self) -> Result<(String, Vec<u8>), Defect> {
        let name = self.run(|byte| byte.is_ascii_alphanumeric() || is_token(byte), 0)?;
        let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
        self.run(is_blank, 0)?;
        self.expect(b":")?;
        self.run(is_blank, 0)?;
        let (value, taken) = value(self.rest())?;
        self.place += taken;
        self.line_end()?;
        Ok((full_name(&name).to_owned(), value.to_vec()))
    }
}

/// A field's value up to the end of its last line, and what it takes without that end. Lines go
/// on where the next one begins with a blank.
fn value(input: &[u8]) -> Result<(&[u8], usize), Defect> {
    let (mut end, mut blanks, mut place) = (0, 0, 0);
    while let Some(&byte) = input.get(place) {
        match byte {
            b'\n' => {
                place += 1;
                match input.get(place) {
                    None => return Err(Defect::Incomplete),
                    Some(b' ' | b'\t') => {}
                    Some(_) => return Ok((input.get(..end).unwrap_or_default(), end + blanks)),
                }
            }
            b' ' | b'\t' => blanks += 1,
            b'\r' => {}
            byte if is_value(byte) => {
                blanks = 0;
                end = place + 1;
            }
            // As Suricata has it: more bytes would not help.
            _ => return Err(Defect::Incomplete),
        }
        place += 1;
    }
    Err(Defect::Incomplete)
}

/// Short forms of names (RFC 3261 section 7.3.3).
fn full_name(name: &str) -> &str {
    match name {
        "i" => "Call-ID",
        "m" => "Contact",
        "e" => "Content-Encoding",
        "l" => "Content-Length",
        "c" => "Content-Type",
        "f" => "From",
        "s" => "Subject",
        "k" => "Supported",
        "t" => "To",
        "v" => "Via",
        name => name,
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!%'*+-._`~".contains(&byte)
}

fn is_uri(byte: u8) -> bool {
    is_token(byte) || b"~#@:;=?+&$,/".contains(&byte)
}

fn is_reason(byte: u8) -> bool {
    is_token(byte) || b"$&(),/:;=?@[\\]^ ".contains(&byte)
}

fn is_value(byte: u8) -> bool {
    is_token(byte) || b"\"#$&(),/;:<=>?@[]{}()^|~\\\t\n\r ".contains(&byte)
}
