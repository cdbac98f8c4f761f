//! Parameters of MIME fields: `head; name=value; ...` (RFC 2045 section 5.1, RFC 2231).
//!
//! Mail programs read broken fields in different ways. The first reading is the standard's; beside it
//! stand the file names that other readings give, and a defect for each kind of field whose
//! readings may give different parts.

mod tolerant;

use std::borrow::Cow;

use crate::charset;
use crate::defect::DefectKind;
use crate::encoding::percent_decode;
use crate::header::{decode_words, find_word};

/// Other readings of the file names of one field that are kept. A field has few parameters of that
/// name; with more, the field is a defect.
const OTHER_NAMES_MAX: usize = 64;

/// A field that was read.
#[derive(Debug, Default)]
pub(crate) struct Params<'v> {
    /// What stands before the first semicolon.
    pub(crate) head: &'v [u8],
    /// Parameters in order, name in lower case, value decoded; where a parameter stands there both
    /// plain and by RFC 2231, the latter comes first (RFC 6266 section 4.3).
    pub(crate) values: Vec<(String, String)>,
    /// Further readings of `name` and `filename`.
    pub(crate) other_names: Vec<String>,
    /// What makes the readings of mail programs differ.
    pub(crate) flaws: Vec<DefectKind>,
}

/// Reads an unfolded field value, at most `max` parameters of it.
pub(crate) fn read(value: &[u8], max: usize) -> Params<'_> {
    let mut sections = split_outside_quotes(value, b';');
    let head = sections.remove(0);
    let mut params = Params { head, ..Params::default() };
    // `application/x-y name=a` and `attachment, filename=a` lack a semicolon: many read on.
    if let Some(rest) = after_first_word(head).filter(|rest| rest.contains(&b'=')) {
        sections.insert(0, rest);
    }
    if sections.len() > max {
        params.flaws.push(DefectKind::TooManyParameters);
        sections.truncate(max);
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for section in sections {
        let Some(equals) = memchr::memchr(b'=', section) else { continue };
        let name = String::from_utf8_lossy(section[..equals].trim_ascii()).to_ascii_lowercase();
        let raw = section[equals + 1..].trim_ascii();
        params.parameter(name, raw, &mut pieces);
    }
    params.join(&pieces);
    let is_whole =
        tolerant::is_plain(value) || tolerant::names(value, |name| params.other_name(name));
    if !is_whole {
        params.flaw(DefectKind::TooManyParameters);
    }
    params
}

/// The file names that a field gives in all readings, where white space that only a fold explains is no
/// part of a value.
pub(crate) fn names_without_folds(raw_value: &[u8], max: usize) -> Vec<String> {
    let lines = raw_value.split(|b| *b == b'\n');
    let glued: Vec<u8> = lines.flat_map(|line| line.trim_ascii()).copied().collect();
    let read = read(&glued, max);
    let named = read.values.into_iter().filter(|(name, _)| is_file_name(name));
    named.map(|(_, value)| value).chain(read.other_names).collect()
}

/// Whether a line of the field ends elsewhere than behind a semicolon: some programs drop the white
/// space that the next one begins with.
pub(crate) fn is_folded_inside(raw_value: &[u8]) -> bool {
    let mut last = b';';
    raw_value.iter().any(|&byte| {
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
        byte == b'\n' && last != b';'
    })
}

/// What follows the first word of a head, where words end at white space and commas.
fn after_first_word(head: &[u8]) -> Option<&[u8]> {
    let head = head.trim_ascii();
    let end = head.iter().position(|b| matches!(b, b' ' | b'\t' | b','))?;
    Some(head[end + 1..].trim_ascii_start())
}

impl Params<'_> {
    fn parameter(&mut self, name: String, raw: &[u8], pieces: &mut Vec<Piece>) {
        let (bytes, rest) = unquote(raw);
        let base = name.split('*').next().unwrap_or_default().trim_end();
        let is_name = is_file_name(base);
        if bytes.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
            self.flaw(DefectKind::ControlInParameter);
        }
        if base == "boundary" {
            self.boundary(&name, &bytes, rest);
        }
        if is_name && !rest.is_empty() {
            // Unquoted names with spaces or brackets, and text behind the closing quote.
            let whole: Vec<u8> = raw.iter().copied().filter(|b| *b != b'"').collect();
            self.other_name(decode_words(&whole).0.into_owned());
        }
        if name.len() > base.len() {
            let rest = name[base.len()..].trim_start();
            let number = rest.trim_matches('*');
            let is_numbered = number.is_empty() || number.parse::<u32>().is_ok();
            if !is_numbered && !is_name {
                self.flaw(DefectKind::BadContinuation);
            }
            pieces.push(Piece {
                base: base.to_owned(),
                number: number.parse().unwrap_or(0),
                percent: rest.len() > 1 && rest.ends_with('*') || rest == "*",
                bytes: bytes.into_owned(),
            });
            return;
        }
        let decoded = match base {
            // No mail program decodes words here, so a decoded boundary would be another one.
            "boundary" => charset::guess(&bytes).into_owned(),
            _ => decode_words(&bytes).0.into_owned(),
        };
        if is_name && find_word(&bytes).is_some() {
            self.other_name(charset::guess(&bytes).into_owned());
        }
        self.values.push((name, decoded));
    }

    /// Boundaries that mail programs are known to read in different ways.
    fn boundary(&mut self, name: &str, bytes: &[u8], rest: &[u8]) {
        if name != "boundary" || find_word(bytes).is_some() {
            self.flaw(DefectKind::EncodedBoundary);
        }
        let is_odd = |b: &u8| !(b' '..=b'~').contains(b) || matches!(b, b'"' | b'\\');
        let is_blank_at_end = bytes.ends_with(b" ") || bytes.ends_with(b"\t");
        if bytes.iter().any(is_odd) || is_blank_at_end || !rest.is_empty() {
            self.flaw(DefectKind::OddBoundary);
        }
    }

    fn flaw(&mut self, kind: DefectKind) {
        if !self.flaws.contains(&kind) {
            self.flaws.push(kind);
        }
    }

    /// Keeps a name, if there is room for more.
    fn other_name(&mut self, name: String) -> bool {
        if self.other_names.contains(&name) {
            return true;
        }
        if self.other_names.len() >= OTHER_NAMES_MAX {
            self.flaw(DefectKind::TooManyParameters);
            return false;
        }
        self.other_names.push(name);
        true
    }

    /// Joins continuations, sorted as RFC 2231 wants it; other orders are other names.
    fn join(&mut self, pieces: &[Piece]) {
        if pieces.is_empty() {
            return;
        }
        let mut sorted: Vec<&Piece> = pieces.iter().collect();
        sorted.sort_by(|a, b| (&a.base, a.number).cmp(&(&b.base, b.number)));
        for group in sorted.chunk_by(|a, b| a.base == b.base) {
            let base = &group[0].base;
            let in_order = pieces.iter().filter(|p| p.base == *base).map(|p| p.number);
            if !in_order.eq(0..group.len() as u32) {
                self.in_disorder(base, pieces, group);
            }
            let value = joined(group.iter().copied());
            if is_file_name(base) && find_word(value.as_bytes()).is_some() {
                self.other_name(decode_words(value.as_bytes()).0.into_owned());
            }
            // RFC 2231 wins over a plain parameter of the same name (RFC 6266 section 4.3).
            let place = self.values.iter().position(|(n, _)| n == base);
            let place = place.unwrap_or(self.values.len());
            self.values.insert(place, (base.clone(), value));
        }
    }

    /// Pieces that are missing, given twice or out of order: some programs take them as they stand,
    /// some stop at the gap.
    fn in_disorder(&mut self, base: &str, pieces: &[Piece], group: &[&Piece]) {
        if !is_file_name(base) {
            self.flaw(DefectKind::BadContinuation);
            return;
        }
        self.other_name(joined(pieces.iter().filter(|p| p.base == base)));
        let gap = (0u32..).zip(group).take_while(|(i, p)| *i == p.number).count();
        self.other_name(joined(group[..gap].iter().copied()));
        // The first, or the last, of each number.
        for last in [false, true] {
            let mut one: Vec<&Piece> = group.to_vec();
            if last {
                one.reverse();
            }
            one.sort_by_key(|p| p.number);
            one.dedup_by_key(|p| p.number);
            self.other_name(joined(one.into_iter()));
        }
        // One plain and one encoded form of the whole, or a piece that is given twice.
        for piece in group.iter().take(OTHER_NAMES_MAX) {
            self.other_name(joined(std::iter::once(*piece)));
        }
    }
}

/// Whether a parameter of this name gives the part one: `filename`, `name`, in whichever field, and what
/// programs made up beside them (`x-mac-name`).
pub(crate) fn is_file_name(base: &str) -> bool {
    base.ends_with("name")
}

/// One `name*3*=value` of RFC 2231.
struct Piece {
    base: String,
    number: u32,
    percent: bool,
    bytes: Vec<u8>,
}

fn joined<'p>(pieces: impl Iterator<Item = &'p Piece>) -> String {
    let (mut value, mut label) = (Vec::new(), None);
    for piece in pieces {
        let mut bytes = &piece.bytes[..];
        if !piece.percent {
            value.extend_from_slice(bytes);
            continue;
        }
        if label.is_none() && piece.number == 0 {
            let mut fields = bytes.splitn(3, |&b| b == b'\'');
            if let (Some(l), Some(_), Some(rest)) = (fields.next(), fields.next(), fields.next()) {
                (label, bytes) = (Some(l), rest);
            }
        }
        value.extend_from_slice(&percent_decode(bytes));
    }
    charset::decode(&value, label).text.into_owned()
}

/// Splits at `separator` outside quoted strings. There is always a first piece.
fn split_outside_quotes(value: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut sections, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (i, &byte) in value.iter().enumerate() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b if b == separator && !quoted => {
                sections.push(&value[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    sections.push(&value[start..]);
    sections
}

/// The value without its quotes, and what follows it in the same section.
fn unquote(value: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let Some(inner) = value.strip_prefix(b"\"") else {
        // A bare token ends at white space or a comment.
        let end = value.iter().position(|b| matches!(b, b' ' | b'\t' | b'('));
        let (token, rest) = value.split_at(end.unwrap_or(value.len()));
        return (Cow::Borrowed(token), rest.trim_ascii());
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(&byte) = inner.get(at) {
        at += 1;
        match byte {
            b'"' => return (Cow::Owned(out), inner[at..].trim_ascii()),
            b'\\' => {
                out.extend(inner.get(at));
                at += 1;
            }
            other => out.push(other),
        }
    }
    (Cow::Owned(out), b"")
}
