//! Parameters of MIME fields: `head; name=value; ...` (RFC 2045 section 5.1, RFC 2231).
//!
//! Mail programs read broken fields in different ways. The first reading is the standard's; beside
//! it stand the file names that other interpretations give, and a defect for each kind of field
//! whose readings may give different parts.

mod tolerant;

use std::borrow::Cow;

use crate::charset;
use crate::defect::DefectKind;
use crate::encoding::percent_decode;
use crate::header::{decode_words, find_encoded_word};

/// Other readings of the file names of one field that are kept. A field has few parameters of that
/// name; with more, the field is a defect.
const ALTERNATIVE_NAMES_MAX: usize = 64;

/// A field that was read.
#[derive(Debug, Default)]
pub(crate) struct Params<'v> {
    /// What stands before the first semicolon.
    pub(crate) head: &'v [u8],
    /// Parameters in order, name in lower case, value decoded; where a parameter stands there both
    /// plain and by RFC 2231, the latter comes first (RFC 6266 section 4.3).
    pub(crate) values: Vec<(String, String)>,
    /// Further interpretations of `name` and `filename`.
    pub(crate) alternative_names: Vec<String>,
    /// What makes the readings of mail programs differ.
    pub(crate) defects: Vec<DefectKind>,
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
        params.defects.push(DefectKind::TooManyParameters);
        sections.truncate(max);
    }
    let mut continuations: Vec<Continuation> = Vec::new();
    for section in sections {
        let Some(equals) = memchr::memchr(b'=', section) else { continue };
        let name = String::from_utf8_lossy(section[..equals].trim_ascii()).to_ascii_lowercase();
        let raw = section[equals + 1..].trim_ascii();
        params.parameter(name, raw, &mut continuations);
    }
    params.join(&continuations);
    let is_whole = tolerant::is_plain(value)
        || tolerant::names(value, |name| params.add_alternative_name(name));
    if !is_whole {
        params.defect_once(DefectKind::TooManyParameters);
    }
    params
}

/// The file names that a field gives in all interpretations, where white space that only a fold
/// explains is no part of a value.
pub(crate) fn names_without_folds(raw_value: &[u8], max: usize) -> Vec<String> {
    let lines = raw_value.split(|b| *b == b'\n');
    let glued: Vec<u8> = lines.flat_map(|line| line.trim_ascii()).copied().collect();
    let read = read(&glued, max);
    let named = read.values.into_iter().filter(|(name, _)| is_file_name(name));
    named.map(|(_, value)| value).chain(read.alternative_names).collect()
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
    fn parameter(&mut self, name: String, raw: &[u8], continuations: &mut Vec<Continuation>) {
        let (bytes, rest) = unquote(raw);
        let base = name.split('*').next().unwrap_or_default().trim_end();
        let is_name = is_file_name(base);
        if bytes.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
            self.defect_once(DefectKind::ControlInParameter);
        }
        if base == "boundary" {
            self.boundary(&name, &bytes, rest);
        }
        if is_name && !rest.is_empty() {
            // Unquoted names with spaces or brackets, and text behind the closing quote.
            let whole: Vec<u8> = raw.iter().copied().filter(|b| *b != b'"').collect();
            self.add_alternative_name(decode_words(&whole).0.into_owned());
        }
        if name.len() > base.len() {
            let rest = name[base.len()..].trim_start();
            let number = rest.trim_matches('*');
            let is_numbered = number.is_empty() || number.parse::<u32>().is_ok();
            if !is_numbered && !is_name {
                self.defect_once(DefectKind::BadContinuation);
            }
            continuations.push(Continuation {
                base: base.to_owned(),
                number: number.parse().unwrap_or(0),
                is_percent_encoded: rest.len() > 1 && rest.ends_with('*') || rest == "*",
                bytes: bytes.into_owned(),
            });
            return;
        }
        let decoded = match base {
            // No mail program decodes words here, so a decoded boundary would be another one.
            "boundary" => charset::guess(&bytes).into_owned(),
            _ => decode_words(&bytes).0.into_owned(),
        };
        if is_name && find_encoded_word(&bytes).is_some() {
            self.add_alternative_name(charset::guess(&bytes).into_owned());
        }
        self.values.push((name, decoded));
    }

    /// Boundaries that mail programs are known to read in different ways.
    fn boundary(&mut self, name: &str, bytes: &[u8], rest: &[u8]) {
        if name != "boundary" || find_encoded_word(bytes).is_some() {
            self.defect_once(DefectKind::EncodedBoundary);
        }
        let is_unusual = |b: &u8| !(b' '..=b'~').contains(b) || matches!(b, b'"' | b'\\');
        let is_blank_at_end = bytes.ends_with(b" ") || bytes.ends_with(b"\t");
        if bytes.iter().any(is_unusual) || is_blank_at_end || !rest.is_empty() {
            self.defect_once(DefectKind::OddBoundary);
        }
    }

    fn defect_once(&mut self, kind: DefectKind) {
        if !self.defects.contains(&kind) {
            self.defects.push(kind);
        }
    }

    /// Keeps a name, if there is room for more.
    fn add_alternative_name(&mut self, name: String) -> bool {
        if self.alternative_names.contains(&name) {
            return true;
        }
        if self.alternative_names.len() >= ALTERNATIVE_NAMES_MAX {
            self.defect_once(DefectKind::TooManyParameters);
            return false;
        }
        self.alternative_names.push(name);
        true
    }

    /// Joins continuations, sorted as RFC 2231 wants it; other orders are other names.
    fn join(&mut self, continuations: &[Continuation]) {
        if continuations.is_empty() {
            return;
        }
        let mut sorted: Vec<&Continuation> = continuations.iter().collect();
        sorted.sort_by(|a, b| (&a.base, a.number).cmp(&(&b.base, b.number)));
        for group in sorted.chunk_by(|a, b| a.base == b.base) {
            let base = &group[0].base;
            let in_order = continuations.iter().filter(|p| p.base == *base).map(|p| p.number);
            if !in_order.eq(0..group.len() as u32) {
                self.out_of_order(base, continuations, group);
            }
            let value = joined(group.iter().copied());
            if is_file_name(base) && find_encoded_word(value.as_bytes()).is_some() {
                self.add_alternative_name(decode_words(value.as_bytes()).0.into_owned());
            }
            // RFC 2231 wins over a plain parameter of the same name (RFC 6266 section 4.3).
            let position = self.values.iter().position(|(n, _)| n == base);
            let position = position.unwrap_or(self.values.len());
            self.values.insert(position, (base.clone(), value));
        }
    }

    /// Pieces that are missing, given twice or out of order: some programs take them as they stand,
    /// some stop at the gap.
    fn out_of_order(
        &mut self,
        base: &str,
        continuations: &[Continuation],
        group: &[&Continuation],
    ) {
        if !is_file_name(base) {
            self.defect_once(DefectKind::BadContinuation);
            return;
        }
        self.add_alternative_name(joined(continuations.iter().filter(|p| p.base == base)));
        let gap = (0u32..).zip(group).take_while(|(i, p)| *i == p.number).count();
        self.add_alternative_name(joined(group[..gap].iter().copied()));
        // The first, or the last, of each number.
        for last in [false, true] {
            let mut one: Vec<&Continuation> = group.to_vec();
            if last {
                one.reverse();
            }
            one.sort_by_key(|p| p.number);
            one.dedup_by_key(|p| p.number);
            self.add_alternative_name(joined(one.into_iter()));
        }
        // One plain and one encoded form of the whole, or a continuation that is given twice.
        for continuation in group.iter().take(ALTERNATIVE_NAMES_MAX) {
            self.add_alternative_name(joined(std::iter::once(*continuation)));
        }
    }
}

/// Whether a parameter of this name gives the part one: `filename`, `name`, in whichever field, and
/// what programs made up beside them (`x-mac-name`).
pub(crate) fn is_file_name(base: &str) -> bool {
    base.ends_with("name")
}

/// One `name*3*=value` of RFC 2231.
struct Continuation {
    base: String,
    number: u32,
    is_percent_encoded: bool,
    bytes: Vec<u8>,
}

fn joined<'p>(continuations: impl Iterator<Item = &'p Continuation>) -> String {
    let (mut value, mut label) = (Vec::new(), None);
    for continuation in continuations {
        let mut bytes = &continuation.bytes[..];
        if !continuation.is_percent_encoded {
            value.extend_from_slice(bytes);
            continue;
        }
        if label.is_none() && continuation.number == 0 {
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
