//! Links by DDE: `application|topic!item` starts the application with the topic as its arguments
//! when a sheet is opened, and so do fields of text documents.

use super::word;
use crate::unpack::Unpacker;

/// Fields in fields.
const FIELDS_MAX: usize = 64;
/// Characters that are made of the numbers of one field.
const QUOTED_CHARS_MAX: usize = 4_096;

/// A link by DDE in a formula: `cmd|'/c calc'!A0`. Texts in quotation marks are none.
pub(crate) fn reference(formula: &str) -> Option<&str> {
    let bytes = formula.as_bytes();
    let mut is_text = false;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => is_text = !is_text,
            b'|' if !is_text && is_name_byte(at.checked_sub(1).map(|before| bytes[before])) => {
                if let Some(length) = topic_and_item(&bytes[at + 1..]) {
                    let start = bytes[..at].iter().rposition(|&b| !is_name_byte(Some(b)));
                    return formula.get(start.map_or(0, |start| start + 1)..at + 1 + length);
                }
            }
            _ => {}
        }
    }
    None
}

/// A character of the name of an application, or the quotation mark behind it.
fn is_name_byte(byte: Option<u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'\'') || b >= 0x80)
}

/// Length of `'topic'!item` or `topic!item`, up to the item's first character.
fn topic_and_item(bytes: &[u8]) -> Option<usize> {
    let end = if bytes.first() == Some(&b'\'') {
        let mut end = 1;
        loop {
            end += memchr::memchr(b'\'', &bytes[end..])? + 1;
            // Two of them stand for one.
            if bytes.get(end) != Some(&b'\'') {
                break end;
            }
            end += 1;
        }
    } else {
        let is_topic = |b: u8| b > b' ' && !matches!(b, b'!' | b'|' | b'"' | b'\'' | b',' | b';');
        let end = bytes.iter().position(|&b| !is_topic(b))?;
        // The quotation mark around application and topic.
        end + usize::from(bytes[end] == b'\'')
    };
    let is_item = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'\'' | b'*' | b'$');
    let has_item = bytes.get(end) == Some(&b'!') && bytes.get(end + 1).is_some_and(is_item);
    (end > 0 && has_item).then_some(end + 2)
}

/// What stands inside a field so far.
enum Field {
    Instruction(String),
    /// What a reader sees of it.
    Result,
    /// The same, where the instruction itself has given its text to the field around it.
    Replaced,
}

/// Fields of a document in XML, whose instructions stand in pieces between marks.
#[derive(Default)]
pub(super) struct Fields {
    open: Vec<Field>,
    /// Instructions that no mark stands before.
    outside: String,
}

impl Fields {
    /// A field begins.
    pub(super) fn begin(&mut self) {
        if self.open.len() < FIELDS_MAX {
            self.open.push(Field::Instruction(String::new()));
        }
    }

    /// A piece of an instruction.
    pub(super) fn instruction(&mut self, piece: &str) {
        if !self.text(piece) && self.open.is_empty() {
            self.outside.push_str(piece);
        }
    }

    /// Text: inside a field's instruction it is a part of that. Whether it was.
    pub(super) fn text(&mut self, piece: &str) -> bool {
        for field in self.open.iter_mut().rev() {
            match field {
                Field::Instruction(instruction) => {
                    instruction.push_str(piece);
                    return true;
                }
                Field::Result => {}
                Field::Replaced => return false,
            }
        }
        false
    }

    /// The instruction of the innermost field ends, its result begins.
    pub(super) fn separate(&mut self, unpacker: &mut Unpacker<'_>) {
        let Some(field) = self.open.last_mut() else { return };
        let Field::Instruction(instruction) = std::mem::replace(field, Field::Result) else {
            return;
        };
        word::field(&instruction, unpacker);
        if let Some(quoted) = quoted(&instruction) {
            self.text(&quoted);
            if let Some(field) = self.open.last_mut() {
                *field = Field::Replaced;
            }
        }
    }

    /// The innermost field ends.
    pub(super) fn end(&mut self, unpacker: &mut Unpacker<'_>) {
        self.separate(unpacker);
        self.open.pop();
    }

    /// The document ends: fields that are still open count, too.
    pub(super) fn finish(mut self, unpacker: &mut Unpacker<'_>) {
        while !self.open.is_empty() {
            self.end(unpacker);
        }
        word::field(&self.outside, unpacker);
    }
}

/// The text that a field `QUOTE` makes of numbers of characters (ECMA-376 part 1 section
/// 17.16.5.49): instructions are hidden so.
fn quoted(instruction: &str) -> Option<String> {
    let mut words = instruction.split_whitespace();
    words.next().filter(|name| name.eq_ignore_ascii_case("QUOTE"))?;
    let code = |word: &str| match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    let mut out = String::new();
    for word in words.take(QUOTED_CHARS_MAX) {
        match code(word).and_then(char::from_u32) {
            Some(c) => out.push(c),
            None => out.push_str(word.trim_matches('"')),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_formulas() {
        for (formula, expected) in [
            ("=cmd|'/c calc'!A0", Some("cmd|'/c calc'!A")),
            (
                "+1+1+MSEXCEL|'\\..\\..\\cmd.exe /c it''s'!_xlbgnm.A1",
                Some("MSEXCEL|'\\..\\..\\cmd.exe /c it''s'!_"),
            ),
            ("@SUM(1+9)*cmd|x!A0", Some("cmd|x!A")),
            ("='cmd|/c'!A0", Some("'cmd|/c'!A")),
            ("=\"cmd|'/c calc'!A0\"", None),
            ("=cmd|'/c calc'", None),
            ("=a || b!", None),
            ("=x|y z!A0", None),
            ("=|'a'!b", None),
        ] {
            assert_eq!(reference(formula), expected, "{formula}");
        }
    }
}
