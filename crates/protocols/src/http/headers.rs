//! The block of header fields of a message, as lenient as servers (requests) and browsers
//! (responses) are: folded lines, missing colons, odd ends of lines.
//!
//! Bytes come in pieces: a field is only read once what follows its line shows that it is not
//! folded.

use super::text::{is_blank, is_token, span, trimmed};

/// Whose fields: of responses a CR alone ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Request,
    Response,
}

/// What was odd about a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Oddities {
    pub name_empty: bool,
    pub name_not_token: bool,
    pub space_before_name: bool,
    pub space_after_name: bool,
    pub no_colon: bool,
    pub odd_end: bool,
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    pub odd: Oddities,
}

/// Fields that were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub fields: Vec<Field>,
    /// So many bytes were read.
    pub consumed: usize,
    /// The block ends there.
    pub end: bool,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// More bytes are needed to say.
    More,
    /// It is not there.
    No,
}

/// The most lines of one folded field.
const FOLDS_MAX: u32 = 128;

/// A reader of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub of: Of,
    /// No more bytes will come.
    pub complete: bool,
}

/// What ends a line of a value.
struct LineEnd {
    /// Bytes of the end of the line.
    len: usize,
    odd: bool,
    /// The next line belongs to this one; the byte that says so.
    fold: Option<u8>,
}

impl Reader {
    /// Reads fields. `None`: not one could be read.
    pub(super) fn read(self, bytes: &[u8]) -> Option<Block> {
        let mut block = Block::default();
        loop {
            let rest = bytes.get(block.consumed..).unwrap_or_default();
            match self.field(rest) {
                Ok((field, len)) => {
                    block.consumed += len;
                    block.fields.push(field);
                    let rest = rest.get(len..).unwrap_or_default();
                    if let Some(len) = self.plain_end(rest) {
                        block.consumed += len;
                        block.end = true;
                        return Some(block);
                    }
                }
                Err(Stop::More) if block.fields.is_empty() => return None,
                Err(Stop::More) => return Some(block),
                Err(Stop::No) => {
                    if !block.fields.is_empty() {
                        return None;
                    }
                    let (len, _) = self.any_end(rest).ok()?;
                    block.consumed += len;
                    block.end = true;
                    return Some(block);
                }
            }
        }
    }

    fn field(self, bytes: &[u8]) -> Result<(Field, usize), Stop> {
        self.with_colon(bytes).or_else(|_| self.without_colon(bytes))
    }

    fn with_colon(self, bytes: &[u8]) -> Result<(Field, usize), Stop> {
        let (raw, rest) = bytes.split_at(self.name_len(bytes));
        let after = rest.strip_prefix(b":").ok_or(Stop::No)?;
        let (blanks, after) = span(after, is_blank);
        if after.is_empty() {
            return Err(Stop::More);
        }
        let value = self.value(after)?;
        let mut odd = name_oddities(raw);
        odd.odd_end = value.odd;
        let len = raw.len() + 1 + blanks.len() + value.len;
        Ok((Field { name: trimmed(raw).to_vec(), value: value.bytes, odd }, len))
    }

    fn without_colon(self, bytes: &[u8]) -> Result<(Field, usize), Stop> {
        if bytes.starts_with(b"\r\n") {
            return Err(Stop::No);
        }
        let value = self.value(bytes)?;
        let odd = Oddities {
            name_empty: true,
            no_colon: true,
            odd_end: value.odd,
            ..Oddities::default()
        };
        Ok((Field { name: Vec::new(), value: value.bytes, odd }, value.len))
    }

    /// Where a name ends: at a colon, which may stand on a folded line, or with the line.
    fn name_len(self, bytes: &[u8]) -> usize {
        let mut ended = 0;
        for (place, &byte) in bytes.iter().enumerate() {
            if ended == 0 {
                if byte == b':' {
                    return place;
                }
                if byte == b'\n' || (self.of == Of::Response && byte == b'\r') {
                    ended = byte;
                }
            } else if byte == b' ' {
                ended = 0;
            } else if byte == b'\n' && ended == b'\r' {
                ended = byte;
            } else {
                return place - 1;
            }
        }
        0
    }

    fn value(self, bytes: &[u8]) -> Result<Value, Stop> {
        let (text, end) = self.value_line(bytes)?;
        let mut value = Value { bytes: text.to_vec(), len: text.len() + end.used(), odd: end.odd };
        let Some(mut fold) = end.fold else { return Ok(value.trim()) };
        let mut place = value.len;
        for _ in 0..FOLDS_MAX {
            let rest = bytes.get(place..).unwrap_or_default();
            if self.of == Of::Response && is_named(rest)? {
                // What looks folded is the next field.
                value.len = place;
                return Ok(value.trim());
            }
            let (text, end) = self.value_line(rest)?;
            place += text.len() + end.used();
            value.odd |= end.odd;
            if !value.bytes.is_empty() {
                value.bytes.push(fold);
            }
            let next = bytes.get(place);
            if !text.is_empty() || end.len > 1 {
                value.len = place;
                value.bytes.extend_from_slice(text);
            } else if end.len == 1 && next == Some(&b'\n') {
                // A line of white space before an empty one: the block ends.
                value.len = place;
            }
            match end.fold {
                Some(next) => fold = next,
                None => break,
            }
        }
        Ok(value.trim())
    }

    /// One line of a value and its end.
    fn value_line(self, bytes: &[u8]) -> Result<(&[u8], LineEnd), Stop> {
        let end = match self.of {
            Of::Request => memchr::memchr(b'\n', bytes),
            Of::Response => memchr::memchr2(b'\n', b'\r', bytes),
        };
        let text = bytes.get(..end.ok_or(Stop::More)?).unwrap_or_default();
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let rest = bytes.get(text.len()..).unwrap_or_default();
        Ok((text, self.line_end(rest)?))
    }

    fn line_end(self, bytes: &[u8]) -> Result<LineEnd, Stop> {
        match self.folded(bytes) {
            Ok(end) => return Ok(end),
            Err(Stop::More) if !self.complete => return Err(Stop::More),
            Err(_) => {}
        }
        let (len, odd) = self.any_end(bytes)?;
        if !self.complete && is_fold(bytes.get(len..).unwrap_or_default())? {
            return Err(Stop::No);
        }
        Ok(LineEnd { len, odd, fold: None })
    }

    fn folded(self, bytes: &[u8]) -> Result<LineEnd, Stop> {
        let (len, odd) = match self.of {
            Of::Request => self.any_end(bytes)?,
            Of::Response => (self.plain_end(bytes).ok_or(Stop::No)?, false),
        };
        let rest = bytes.get(len..).unwrap_or_default();
        if !is_fold(rest)? {
            return Err(Stop::No);
        }
        Ok(LineEnd { len, odd, fold: rest.first().copied() })
    }

    /// An ordinary end of a line.
    fn plain_end(self, bytes: &[u8]) -> Option<usize> {
        match (bytes, self.of) {
            ([b'\r', b'\n', ..], _) => Some(2),
            ([b'\n', b'\r', ..], Of::Response) => Some(2),
            ([b'\n', ..], _) | ([b'\r', ..], Of::Response) => Some(1),
            _ => None,
        }
    }

    /// An end of a line, also an odd one, and whether it is odd.
    fn any_end(self, bytes: &[u8]) -> Result<(usize, bool), Stop> {
        let empty_follows = |rest: &[u8]| rest.starts_with(b"\n") || rest.starts_with(b"\r\n");
        if let Some(rest) = bytes.strip_prefix(b"\n\r\r\n")
            && empty_follows(rest)
        {
            return Ok((4, true));
        }
        match self.of {
            Of::Request => {
                if bytes.starts_with(b"\n\r\r\n") {
                    return Ok((2, true));
                }
            }
            Of::Response => {
                if let Some(rest) = bytes.strip_prefix(b"\r\n\r") {
                    let (white, rest) = span(rest, |byte| byte == b'\r' || is_blank(byte));
                    if rest.is_empty() {
                        return Err(Stop::More);
                    }
                    let feed = usize::from(rest.starts_with(b"\n"));
                    let after = rest.get(feed..).unwrap_or_default();
                    if !white.is_empty() && !empty_follows(after) {
                        return Ok((3 + white.len() + feed, true));
                    }
                }
            }
        }
        self.plain_end(bytes).map(|len| (len, false)).ok_or(Stop::No)
    }
}

struct Value {
    bytes: Vec<u8>,
    len: usize,
    odd: bool,
}

impl Value {
    fn trim(mut self) -> Self {
        self.bytes = trimmed(&self.bytes).to_vec();
        self
    }
}

impl LineEnd {
    fn used(&self) -> usize {
        self.len + usize::from(self.fold.is_some())
    }
}

/// Whether the next line is folded.
fn is_fold(bytes: &[u8]) -> Result<bool, Stop> {
    bytes.first().map(|byte| matches!(byte, b' ' | b'\t' | 0)).ok_or(Stop::More)
}

/// Whether a line begins with a name and a colon.
fn is_named(bytes: &[u8]) -> Result<bool, Stop> {
    let more = |rest: &[u8]| if rest.is_empty() { Err(Stop::More) } else { Ok(()) };
    let (_, rest) = span(bytes, is_blank);
    more(rest)?;
    let (name, rest) = span(rest, is_token);
    more(rest)?;
    let (_, rest) = span(rest, is_blank);
    more(rest)?;
    let Some(rest) = rest.strip_prefix(b":") else { return Ok(false) };
    more(span(rest, is_blank).1)?;
    Ok(!name.is_empty())
}

fn name_oddities(raw: &[u8]) -> Oddities {
    if raw.is_empty() {
        return Oddities { name_empty: true, ..Oddities::default() };
    }
    let (_, rest) = span(raw, is_blank);
    let (_, rest) = span(rest, is_token);
    let (_, rest) = span(rest, is_blank);
    Oddities {
        space_before_name: raw.first().is_some_and(|byte| is_blank(*byte)),
        space_after_name: raw.last().is_some_and(|byte| is_blank(*byte)),
        name_not_token: !rest.is_empty(),
        ..Oddities::default()
    }
}
