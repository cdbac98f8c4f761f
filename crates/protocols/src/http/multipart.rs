//! Uploads in the form `multipart/form-data` (RFC 7578): parts that are files.

use super::text::span;

/// The longest boundary.
const BOUNDARY_MAX: usize = 255;
/// So many bytes behind a boundary without an end of line are skipped.
const LOOSE_END: usize = 128;
/// The longest line of a part's header.
const LINE_MAX: usize = 4096;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// More bytes are needed.
    More,
    /// A file begins; its name is [`Multipart::name`].
    Open,
    /// The bytes taken belong to the file.
    Data,
    /// The file ends with the bytes taken.
    Close,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub found: Found,
    /// Bytes taken.
    pub consumed: usize,
    /// A part's header could not be read.
    pub invalid_header: bool,
    /// A file without data.
    pub no_data: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Start,
    Header,
    HeaderEnd,
    Data,
    WaitForLine,
}

/// A reader of one body.
#[derive(Debug, Default)]
pub(super) struct Multipart {
    boundary: Vec<u8>,
    /// Name of the file at hand.
    pub name: Vec<u8>,
    at: At,
}

impl Multipart {
    /// Of a `Content-Type` with a boundary.
    pub(super) fn new(content_type: &[u8]) -> Option<Self> {
        let value = parameter(content_type, b"boundary")?;
        if value.len() > BOUNDARY_MAX {
            return None;
        }
        let mut boundary = b"--".to_vec();
        boundary.extend(value.iter().filter(|byte| **byte != b'\\'));
        Some(Self { boundary, ..Self::default() })
    }

    /// Reads on, up to the next thing that matters.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Step {
        let mut step =
            Step { found: Found::More, consumed: 0, invalid_header: false, no_data: false };
        loop {
            let rest = bytes.get(step.consumed..).unwrap_or_default();
            if rest.is_empty() {
                return step;
            }
            let before = (self.at, step.consumed);
            let done = match self.at {
                At::Start => self.boundary_line(rest, &mut step),
                At::WaitForLine => self.wait(rest, &mut step),
                At::Header => self.header(rest, &mut step),
                At::HeaderEnd => self.header_end(rest, &mut step),
                At::Data => self.data(rest, &mut step),
            };
            if done || before == (self.at, step.consumed) {
                return step;
            }
        }
    }

    fn boundary_line(&mut self, rest: &[u8], step: &mut Step) -> bool {
        match (memchr::memchr(b'\n', rest), rest.strip_prefix(self.boundary.as_slice())) {
            (Some(end), Some(_)) if end >= self.boundary.len() => {
                self.at = At::Header;
                step.consumed += end + 1;
            }
            (Some(end), _) => step.consumed += end + 1,
            (None, Some(after)) if after.len() >= LOOSE_END => {
                self.at = At::WaitForLine;
                step.consumed += self.boundary.len() + LOOSE_END;
            }
            _ => return true,
        }
        false
    }

    fn wait(&mut self, rest: &[u8], step: &mut Step) -> bool {
        match memchr::memchr(b'\n', rest) {
            Some(end) => {
                self.at = At::Header;
                step.consumed += end + 1;
            }
            None => step.consumed += rest.len(),
        }
        false
    }

    /// Lines of a part's header.
    fn header(&mut self, rest: &[u8], step: &mut Step) -> bool {
        let (mut place, mut opened) = (0, false);
        loop {
            let left = rest.get(place..).unwrap_or_default();
            if left.is_empty() {
                break;
            }
            let Some(end) = left.windows(2).position(|pair| pair == b"\r\n") else {
                if left.len() > LINE_MAX {
                    self.at = At::WaitForLine;
                } else if place == 0 {
                    return true;
                }
                break;
            };
            let line = left.get(..end).unwrap_or_default();
            opened |= self.header_line(line, step);
            place += end + 2;
            if matches!(line, b"" | b"\r") {
                self.at = At::HeaderEnd;
                break;
            }
        }
        step.consumed += place;
        if opened {
            step.found = Found::Open;
        }
        opened
    }

    /// Whether it names a file.
    fn header_line(&mut self, line: &[u8], step: &mut Step) -> bool {
        let Some(colon) = memchr::memchr(b':', line) else {
            step.invalid_header |= !line.is_empty();
            return false;
        };
        let (name, value) = line.split_at(colon);
        let (_, value) = span(value.get(1..).unwrap_or_default(), is_white);
        step.invalid_header |= value.is_empty();
        if !name.eq_ignore_ascii_case(b"content-disposition") {
            return false;
        }
        match parameter(value, b"filename") {
            Some(file) if !file.is_empty() => {
                self.name = file.into_iter().filter(|byte| *byte != b'\\').collect();
                true
            }
            _ => false,
        }
    }

    fn header_end(&mut self, rest: &[u8], step: &mut Step) -> bool {
        if rest.len() < self.boundary.len() && self.boundary.starts_with(rest) {
            return true;
        }
        if rest.starts_with(&self.boundary) {
            self.at = At::Start;
            step.no_data |= !self.name.is_empty();
            self.name.clear();
            step.found = Found::Close;
            return true;
        }
        self.at = At::Data;
        false
    }

    fn data(&mut self, rest: &[u8], step: &mut Step) -> bool {
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            step.consumed += rest.len();
            step.found = Found::Data;
            return true;
        };
        let next = rest.get(end + 2..).unwrap_or_default();
        if next.starts_with(&self.boundary) {
            step.consumed += end + 2;
            self.at = At::Start;
            self.name.clear();
            step.found = Found::Close;
            return true;
        }
        if next.len() < self.boundary.len() {
            if !self.boundary.starts_with(next) {
                step.consumed += rest.len();
            } else if end > 0 {
                // It may be the boundary: the end of the line waits with it.
                step.consumed += end;
            } else {
                return true;
            }
            step.found = Found::Data;
            return true;
        }
        step.consumed += end + 2;
        if next.len() < self.boundary.len() + 2 {
            step.found = Found::Data;
            return true;
        }
        false
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A parameter of a header field's value, also one in numbered parts (RFC 2231 section 3).
pub(crate) fn parameter(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let semicolon = memchr::memchr(b';', value)?;
    let list = parameters(value.get(semicolon + 1..)?);
    let find = |name: &[u8]| list.iter().rev().find(|(other, _)| *other == name);
    if let Some((_, value)) = find(name) {
        return Some(value.to_vec());
    }
    let mut joined = None;
    for number in 0.. {
        let part = [name, b"*", number.to_string().as_bytes()].concat();
        let Some((_, value)) = find(&part) else { break };
        joined.get_or_insert_with(Vec::new).extend_from_slice(value);
    }
    joined
}

fn parameters(mut rest: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut list = Vec::new();
    while !rest.is_empty() {
        let (_, start) = span(rest, is_white);
        let Some(equals) = memchr::memchr(b'=', start) else { break };
        let (name, value) = start.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        let (value, after) = quoted(value).unwrap_or_else(|| until_semicolon(value));
        list.push((name, value));
        let (_, after) = span(after, is_white);
        rest = after.strip_prefix(b";").unwrap_or(after);
    }
    list
}

fn quoted(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = value.strip_prefix(b"\"")?;
    let mut escaped = false;
    for (place, &byte) in inner.iter().enumerate() {
        if byte == b'\\' {
            escaped = true;
        } else if byte == b'"' && !escaped {
            return Some((inner.get(..place)?, inner.get(place + 1..)?));
        } else {
            escaped = false;
        }
    }
    let end = memchr::memchr(b'"', inner)?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}

fn until_semicolon(value: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    let (value, rest) = value.split_at(end);
    let len = value.iter().rposition(|byte| !is_white(*byte)).map_or(value.len(), |last| last + 1);
    (value.get(..len).unwrap_or_default(), rest)
}

/// The name of a file in `Content-Disposition` of a response, as lenient as clients are.
pub(super) fn parameter_of_disposition(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"filename=";
    let (_, line) = span(value, |byte| byte.is_ascii_whitespace() || byte == 0x0b);
    let (mut start, mut quotes) = (0, 0);
    for place in 1..line.len() {
        let escaped = line.get(place - 1) == Some(&b'\\');
        let byte = line.get(place).copied()?;
        if !escaped && byte == b'"' {
            quotes += 1;
        }
        let last = place + 1 == line.len();
        if (last || (!escaped && byte == b';')) && quotes % 2 == 0 {
            let token = line.get(start..if last { place + 1 } else { place })?;
            start = place + 1;
            let (space, _) = span(line.get(start..)?, |byte| byte.is_ascii_whitespace());
            start += space.len();
            let Some((name, value)) = token.split_at_checked(NAME.len()) else { continue };
            if !value.is_empty() && name.eq_ignore_ascii_case(NAME) {
                let value = value.strip_prefix(b"\"").unwrap_or(value);
                return Some(value.strip_suffix(b"\"").unwrap_or(value));
            }
        }
    }
    None
}
