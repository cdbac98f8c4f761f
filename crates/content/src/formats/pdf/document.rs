//! The objects of a PDF, found by looking for `N G obj` everywhere and not by the
//! cross-reference table: superseded and hidden objects are objects, too.

use std::collections::HashMap;

use memchr::memmem;

use super::crypt::{Handler, Key};
use super::filter;
use super::value::{Dict, Lexer, Token, Value, is_space};
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Objects of one document.
const OBJECTS_MAX: usize = 200_000;
/// Values of one document: numbers, names, strings.
const VALUES_MAX: usize = 1_500_000;
/// Object streams of one document.
const OBJECT_STREAMS_MAX: usize = 20_000;
/// The bytes of objects are read at most this many times: broken ones run into each other.
const READS_MAX: usize = 4;
/// Trailers that are kept.
const TRAILERS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) generation: u32,
    pub(super) value: Value,
    /// Where its stream's data starts in the file.
    pub(super) stream: Option<usize>,
    /// Where it stands in the file, or where the object stream does.
    at: usize,
    /// It lies in another object's stream: a reader finds it only by a table that points there.
    inside: bool,
}

#[derive(Debug)]
pub(super) struct Document<'a> {
    bytes: &'a [u8],
    /// In their order in the file.
    pub(super) entries: Vec<Entry>,
    index: HashMap<u32, Vec<usize>>,
    trailers: Vec<Dict>,
    key: Option<Key>,
    /// Encrypted, and not opened: strings and streams say nothing.
    pub(super) is_closed: bool,
    stream_ends: Vec<usize>,
    values_left: usize,
}

/// A stream's data, decoded as far as the filters are those of bytes.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) bytes: Vec<u8>,
    /// The filter that is none of bytes, e.g. a picture's.
    pub(super) rest: Option<Box<[u8]>>,
}

impl<'a> Document<'a> {
    /// Reads all objects; `unpacker` has the limits and the passwords.
    pub(super) fn read(bytes: &'a [u8], unpacker: &mut Unpacker<'_>) -> Document<'a> {
        let mut document = Document {
            bytes,
            entries: Vec::new(),
            index: HashMap::new(),
            trailers: Vec::new(),
            key: None,
            is_closed: false,
            stream_ends: memmem::find_iter(bytes, b"endstream").collect(),
            values_left: VALUES_MAX,
        };
        document.scan(unpacker);
        document.scan_trailers();
        document.reindex();
        document.open(unpacker);
        document.unpack_objects(unpacker);
        document.reindex();
        if document.values_left == 0 {
            unpacker.defect(DefectKind::TooMuchMemory, "values of a PDF");
        }
        document
    }

    fn scan(&mut self, unpacker: &mut Unpacker<'_>) {
        let bytes = self.bytes;
        let mut covered = 0;
        let mut reads_left = bytes.len().saturating_mul(READS_MAX).saturating_add(1 << 16);
        for at in memmem::find_iter(bytes, b"obj") {
            let Some((start, number, generation)) = header(bytes, at) else { continue };
            if self.entries.len() >= OBJECTS_MAX {
                unpacker.defect(DefectKind::TooManyObjects, "objects of a PDF");
                return;
            }
            if self.values_left == 0 || reads_left == 0 || unpacker.is_over() {
                return;
            }
            let mut lexer = Lexer::new(bytes, at + 3);
            let value = lexer.value(&mut self.values_left).unwrap_or(Value::Null);
            reads_left = reads_left.saturating_sub(lexer.at.saturating_sub(at));
            let stream = stream_start(&mut lexer);
            let inside = start < covered;
            if let Some(stream) = stream
                && !inside
            {
                covered = self.end_of(stream);
            }
            self.entries.push(Entry { number, generation, value, stream, at, inside });
        }
    }

    /// The trailers: behind their word, and the dictionaries of cross-reference streams.
    fn scan_trailers(&mut self) {
        for at in memmem::find_iter(self.bytes, b"trailer").take(TRAILERS_MAX) {
            let mut lexer = Lexer::new(self.bytes, at + 7);
            if let Some(Value::Dict(dict)) = lexer.value(&mut self.values_left) {
                self.trailers.push(dict);
            }
        }
        let tables = self.entries.iter().filter_map(|entry| entry.value.dict());
        let tables = tables.filter(|dict| dict.is("Type", "XRef") || dict.get("Encrypt").is_some());
        self.trailers.extend(tables.take(TRAILERS_MAX).cloned());
    }

    fn reindex(&mut self) {
        self.entries.sort_by_key(|entry| entry.at);
        self.index.clear();
        for (index, entry) in self.entries.iter().enumerate() {
            self.index.entry(entry.number).or_default().push(index);
        }
    }

    /// Finds the key, if the document is encrypted, and decrypts the strings.
    fn open(&mut self, unpacker: &mut Unpacker<'_>) {
        let mut encrypted = false;
        let mut numbers = Vec::new();
        for trailer in &self.trailers {
            let Some(value) = trailer.get("Encrypt") else { continue };
            if let Value::Reference(number) = value {
                numbers.push(*number);
            }
            let Some(dict) = self.resolve(value).dict() else { continue };
            encrypted = true;
            let id = match trailer.get("ID").map(|id| self.resolve(id)) {
                Some(Value::Array(parts)) => parts.first().and_then(Value::text),
                _ => None,
            };
            let Some(handler) = Handler::new(dict, id.unwrap_or_default()) else { continue };
            // A document that the empty password opens asks its reader for none.
            self.key = handler
                .open("")
                .or_else(|| unpacker.with_password(|password| handler.open(password)));
            if self.key.is_some() {
                break;
            }
        }
        if !encrypted {
            return;
        }
        let Some(key) = &self.key else {
            unpacker.property(crate::PropertyKind::Encrypted, "");
            unpacker.defect(DefectKind::Encrypted, "");
            self.is_closed = true;
            return;
        };
        for entry in &mut self.entries {
            let table = entry.value.dict().is_some_and(|dict| dict.is("Type", "XRef"));
            if !table && !numbers.contains(&entry.number) {
                decrypt(&mut entry.value, key, entry.number, entry.generation);
            }
        }
    }

    /// Reads the objects in object streams (section 7.5.7).
    fn unpack_objects(&mut self, unpacker: &mut Unpacker<'_>) {
        let is_objects =
            |entry: &Entry| entry.value.dict().is_some_and(|dict| dict.is("Type", "ObjStm"));
        let streams: Vec<usize> =
            (0..self.entries.len()).filter(|&i| is_objects(&self.entries[i])).collect();
        for &index in streams.iter().take(OBJECT_STREAMS_MAX) {
            if self.is_closed || self.values_left == 0 || unpacker.is_over() {
                return;
            }
            let decoded = self.stream(&self.entries[index], unpacker).bytes;
            let (at, inside) = (self.entries[index].at, self.entries[index].inside);
            let first = self.entries[index].value.dict().and_then(|dict| dict.get("First"));
            let first = first.and_then(|v| self.resolve(v).integer()).unwrap_or(0);
            let mut table = Lexer::new(&decoded[..first.min(decoded.len())], 0);
            while let (Some(Token::Number(number)), Some(Token::Number(offset))) =
                (table.token(), table.token())
            {
                if self.entries.len() >= OBJECTS_MAX {
                    unpacker.defect(DefectKind::TooManyObjects, "objects of a PDF");
                    return;
                }
                let number = Value::Number(number).integer();
                let offset = Value::Number(offset).integer();
                let (Some(number), Some(offset)) = (number, offset) else { break };
                let start = first.saturating_add(offset).min(decoded.len());
                let mut lexer = Lexer::new(&decoded, start);
                let Some(value) = lexer.value(&mut self.values_left) else { continue };
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let entry = Entry { number, generation: 0, value, stream: None, at, inside };
                self.entries.push(entry);
            }
        }
    }

    /// The object of this number that a reader sees: the last that does not lie in a stream.
    pub(super) fn object(&self, number: u32) -> Option<&Entry> {
        let indices = self.index.get(&number)?;
        let entries = || indices.iter().rev().filter_map(|&index| self.entries.get(index));
        entries().find(|entry| !entry.inside).or_else(|| entries().next())
    }

    /// All objects of this number.
    pub(super) fn objects(&self, number: u32) -> impl Iterator<Item = &Entry> {
        let indices = self.index.get(&number).map(Vec::as_slice).unwrap_or_default();
        indices.iter().filter_map(|&index| self.entries.get(index))
    }

    /// What a reference leads to, over a few more references; other values as they are.
    pub(super) fn resolve<'s>(&'s self, value: &'s Value) -> &'s Value {
        let mut value = value;
        for _ in 0..8 {
            let Value::Reference(number) = value else { return value };
            match self.object(*number) {
                Some(entry) => value = &entry.value,
                None => return &Value::Null,
            }
        }
        &Value::Null
    }

    /// The value of a key, references followed.
    pub(super) fn get<'s>(&'s self, dict: &'s Dict, key: &str) -> Option<&'s Value> {
        dict.get(key).map(|value| self.resolve(value))
    }

    /// The dictionary that a key has.
    pub(super) fn dict<'s>(&'s self, dict: &'s Dict, key: &str) -> Option<&'s Dict> {
        self.get(dict, key).and_then(Value::dict)
    }

    /// Where stream data from `start` ends by its word, or the file does.
    fn end_of(&self, start: usize) -> usize {
        let next = self.stream_ends.partition_point(|&end| end < start);
        self.stream_ends.get(next).copied().unwrap_or(self.bytes.len())
    }

    /// The data of a stream as it stands in the file: by its length if `endstream` follows, else
    /// up to that word.
    fn raw(&self, entry: &Entry) -> &'a [u8] {
        let Some(start) = entry.stream else { return &[] };
        let length = entry.value.dict().and_then(|dict| self.get(dict, "Length"));
        if let Some(length) = length.and_then(Value::integer)
            && let Some(data) = self.bytes.get(start..start.saturating_add(length))
        {
            let behind = &self.bytes[start + length..];
            let spaces = behind.iter().take(8).take_while(|&&b| is_space(b)).count();
            if behind[spaces..].starts_with(b"endstream") || behind[spaces..].starts_with(b"endobj")
            {
                return data;
            }
        }
        let data = &self.bytes[start..self.end_of(start).max(start)];
        let data = data.strip_suffix(b"\n").unwrap_or(data);
        data.strip_suffix(b"\r").unwrap_or(data)
    }

    /// The data of a stream, decrypted and decoded up to a filter that is none of bytes.
    pub(super) fn stream(&self, entry: &Entry, unpacker: &mut Unpacker<'_>) -> Stream {
        let (Some(dict), false) = (entry.value.dict(), self.is_closed) else {
            return Stream::default();
        };
        let raw = self.raw(entry);
        let names = list(self.get(dict, "Filter").or_else(|| self.get(dict, "F")));
        let identity = names.iter().any(|name| name.name() == Some(b"Crypt"));
        let data = match &self.key {
            Some(key)
                if !identity
                    && !dict.is("Type", "XRef")
                    && (key.metadata || !dict.is("Type", "Metadata")) =>
            {
                key.stream(entry.number, entry.generation, raw)
            }
            _ => raw.to_vec(),
        };
        self.filtered(dict, data, unpacker)
    }

    /// Applies the filters that a stream's dictionary names.
    pub(super) fn filtered(
        &self,
        dict: &Dict,
        mut data: Vec<u8>,
        unpacker: &mut Unpacker<'_>,
    ) -> Stream {
        let names = list(self.get(dict, "Filter").or_else(|| self.get(dict, "F")));
        let params = list(self.get(dict, "DecodeParms").or_else(|| self.get(dict, "DP")));
        if names.len() > filter::FILTERS_MAX {
            unpacker.defect(DefectKind::Unsupported, "filters of a stream");
        }
        for (index, name) in names.iter().enumerate().take(filter::FILTERS_MAX) {
            let Some(name) = self.resolve(name).name() else { continue };
            if name == b"Crypt" {
                continue;
            }
            let params = params.get(index).and_then(|params| self.resolve(params).dict());
            match filter::apply(name, params, &data, unpacker) {
                Some(decoded) => data = decoded,
                None => return Stream { bytes: data, rest: Some(name.into()) },
            }
        }
        Stream { bytes: data, rest: None }
    }

    /// Text of a string, or of a stream that a value refers to, in all versions of the object.
    pub(super) fn texts(&self, value: &Value, unpacker: &mut Unpacker<'_>) -> Vec<String> {
        let entries: Vec<&Entry> = match value {
            Value::Text(text) => return vec![string(text)],
            Value::Reference(number) => self.objects(*number).collect(),
            _ => return Vec::new(),
        };
        let mut texts = Vec::new();
        for entry in entries {
            match &entry.value {
                Value::Text(text) => texts.push(string(text)),
                Value::Dict(_) if entry.stream.is_some() => {
                    texts.push(string(&self.stream(entry, unpacker).bytes));
                }
                _ => {}
            }
        }
        texts
    }
}

/// A text string: UTF-16 or UTF-8 by its mark, else close to Latin-1 (section 7.9.2.2).
pub(super) fn string(bytes: &[u8]) -> String {
    crate::text::decode(bytes)
}

/// A value or the values of an array.
fn list(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(values)) => values,
        Some(value) => std::slice::from_ref(value),
        None => &[],
    }
}

fn decrypt(value: &mut Value, key: &Key, number: u32, generation: u32) {
    match value {
        Value::Text(text) => *text = key.string(number, generation, text).into_boxed_slice(),
        Value::Array(values) => {
            values.iter_mut().for_each(|value| decrypt(value, key, number, generation));
        }
        Value::Dict(dict) => {
            dict.0.iter_mut().for_each(|(_, value)| decrypt(value, key, number, generation));
        }
        _ => {}
    }
}

/// The numbers before `obj` at `at`, and where they start.
fn header(bytes: &[u8], at: usize) -> Option<(usize, u32, u32)> {
    let (generation, at) = number_before(bytes, at)?;
    is_space(*bytes.get(at.checked_sub(1)?)?).then_some(())?;
    let (number, at) = number_before(bytes, at)?;
    Some((at, number, generation))
}

/// The number that ends, white space apart, before `end`.
fn number_before(bytes: &[u8], end: usize) -> Option<(u32, usize)> {
    let before = bytes.get(end.saturating_sub(32)..end)?;
    let before = before.trim_ascii_end();
    let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let text = std::str::from_utf8(&before[before.len() - digits..]).ok()?;
    let start = end.saturating_sub(32) + before.len() - digits;
    Some((text.parse().ok()?, start))
}

/// Where the data of a stream starts, if the word follows.
fn stream_start(lexer: &mut Lexer<'_>) -> Option<usize> {
    lexer.skip_space();
    let rest = lexer.bytes.get(lexer.at..)?.strip_prefix(b"stream")?;
    let at = lexer.at + 6;
    Some(match rest {
        [b'\r', b'\n', ..] => at + 2,
        [b'\r' | b'\n', ..] => at + 1,
        [b' ', b'\r', b'\n', ..] => at + 3,
        [b' ', b'\n', ..] => at + 2,
        _ => at,
    })
}
