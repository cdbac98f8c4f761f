//! From the codes of a font to text: a ToUnicode map (section 9.10.3), else its encoding.

use std::collections::HashMap;

use super::document::Document;
use super::glyph;
use super::value::{Dict, Lexer, Token, Value};
use crate::unpack::Unpacker;

/// Codes of one font's map.
const CODES_MAX: usize = 65_536;
/// Characters that one code stands for.
const CHARACTERS_MAX: usize = 16;

/// How a font's codes are read.
#[derive(Debug, Clone, Default)]
pub(super) struct Font {
    /// Codes have two bytes.
    is_wide: bool,
    /// Two bytes are UTF-16 themselves.
    is_unicode: bool,
    map: HashMap<u32, String>,
    is_mac: bool,
}

impl Font {
    /// Reads a font's dictionary; `codes_left` are those that the fonts of the document may have.
    pub(super) fn read(
        document: &Document<'_>,
        dict: &Dict,
        codes_left: &mut usize,
        unpacker: &mut Unpacker<'_>,
    ) -> Font {
        let mut font = Font { is_wide: dict.is("Subtype", "Type0"), ..Font::default() };
        let encoding = document.get(dict, "Encoding");
        match encoding {
            Some(Value::Name(name)) => font.named(name),
            Some(Value::Dict(encoding)) => {
                if let Some(name) = document.get(encoding, "BaseEncoding").and_then(Value::name) {
                    font.named(name);
                }
                if let Some(Value::Array(values)) = document.get(encoding, "Differences") {
                    font.differences(document, values);
                }
            }
            _ => {}
        }
        if let Some(Value::Reference(number)) = dict.get("ToUnicode")
            && *codes_left > 0
            && let Some(entry) = document.object(*number)
        {
            let map = document.stream(entry, unpacker).bytes;
            font.read_map(&map);
        }
        // A font costs something even without a map: dictionaries may repeat it without end.
        *codes_left = codes_left.saturating_sub(font.map.len().max(16));
        font
    }

    fn named(&mut self, name: &[u8]) {
        self.is_mac = name == b"MacRomanEncoding";
        self.is_unicode = name.windows(4).any(|part| part == b"UCS2" || part == b"UTF1");
    }

    fn differences(&mut self, document: &Document<'_>, values: &[Value]) {
        let mut code = 0_u32;
        for value in values.iter().take(CODES_MAX) {
            match document.resolve(value) {
                Value::Number(number) => code = *number as u32,
                Value::Name(name) => {
                    let name = String::from_utf8_lossy(name);
                    if let Some(c) = glyph::character(&name) {
                        self.map.insert(code, c.to_string());
                    }
                    code = code.saturating_add(1);
                }
                _ => {}
            }
        }
    }

    /// A CMap: `beginbfchar` with pairs, `beginbfrange` with triples.
    fn read_map(&mut self, map: &[u8]) {
        let mut lexer = Lexer::new(map, 0);
        let mut operands: Vec<Value> = Vec::new();
        let mut left = 8 * CODES_MAX;
        loop {
            let start = lexer.at;
            match lexer.token() {
                None => return,
                Some(Token::Word(b"beginbfchar" | b"beginbfrange" | b"begincodespacerange")) => {
                    operands.clear();
                }
                Some(Token::Word(b"endbfchar")) => {
                    for pair in operands.as_chunks::<2>().0 {
                        self.map_range(&pair[0], &pair[0], &pair[1]);
                    }
                    operands.clear();
                }
                Some(Token::Word(b"endbfrange")) => {
                    for [first, last, to] in operands.as_chunks::<3>().0 {
                        self.map_range(first, last, to);
                    }
                    operands.clear();
                }
                Some(Token::Word(b"endcodespacerange")) => operands.clear(),
                Some(_) => {
                    lexer.at = start;
                    match lexer.value(&mut left) {
                        Some(value) => operands.push(value),
                        None if left == 0 || lexer.at == start => return,
                        None => {}
                    }
                }
            }
        }
    }

    fn map_range(&mut self, first: &Value, last: &Value, to: &Value) {
        let (Some(first), Some(last)) = (first.text().map(code), last.text().map(code)) else {
            return;
        };
        let count = last.saturating_sub(first).min(0xffff);
        for step in 0..=count {
            if self.map.len() >= CODES_MAX {
                return;
            }
            let text = match to {
                Value::Text(text) => shifted(text, step),
                Value::Array(texts) => match texts.get(step as usize).and_then(Value::text) {
                    Some(text) => shifted(text, 0),
                    None => return,
                },
                _ => return,
            };
            self.map.insert(first.saturating_add(step), text);
        }
    }

    /// Appends the text of a string that is shown.
    pub(super) fn show(&self, shown: &[u8], out: &mut String) {
        if self.is_wide {
            for pair in shown.as_chunks::<2>().0 {
                let value = u32::from(u16::from_be_bytes(*pair));
                match self.map.get(&value) {
                    Some(text) => out.push_str(text),
                    None if self.is_unicode => out.extend(char::from_u32(value)),
                    None => {}
                }
            }
            return;
        }
        for &byte in shown {
            match self.map.get(&u32::from(byte)) {
                Some(text) => out.push_str(text),
                None if byte >= 0x80 && self.is_mac => {
                    let single = [byte];
                    let mac = encoding_rs::MACINTOSH.decode_without_bom_handling(&single).0;
                    out.push_str(&mac);
                }
                None if byte >= 0x80 => {
                    let single = [byte];
                    let ansi = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&single).0;
                    out.push_str(&ansi);
                }
                None if byte >= 0x20 => out.push(char::from(byte)),
                None => {}
            }
        }
    }
}

fn code(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |sum, &b| sum << 8 | u32::from(b))
}

/// UTF-16 text with its last unit raised by a step.
fn shifted(text: &[u8], step: u32) -> String {
    let mut units: Vec<u16> = text
        .as_chunks::<2>()
        .0
        .iter()
        .take(CHARACTERS_MAX)
        .map(|pair| u16::from_be_bytes(*pair))
        .collect();
    if let Some(last) = units.last_mut() {
        *last = last.wrapping_add((step & 0xffff) as u16);
    }
    char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
}
