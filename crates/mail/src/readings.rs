//! What a message holds in every reading: for messages whose structure mail programs read in
//! different ways.
//!
//! A reading is a choice: which of two fields counts, where a part begins and ends, whether it is
//! encoded, where base64 ends. Following each program would mean to know them all. Instead every
//! place where some program may see a part is looked at: each group of MIME fields, wherever it
//! stands, with the lines behind it, in each encoding that one of the fields may mean, cut at each
//! line that may be a boundary. What the usual reading has shown already is left out.
//!
//! Which program reads what: `docs/mime-readings.md`. Where the ambiguities come from: J. Zhang and
//! others, "Inbox Invasion" (ACM CCS 2024).

use std::collections::{HashMap, HashSet};

use memchr::memmem;

use crate::ambiguity::is_mime_field;
use crate::defect::DefectKind;
use crate::encoding;
use crate::header::{decode_words, unfold};
use crate::message::Message;
use crate::part::Part;

mod base64;
mod text_files;

/// Files of all readings together.
const FILES_MAX: usize = 256;
/// Decoded bytes of all readings, as a multiple of the message's, and at least.
const BYTES_TIMES_MAX: usize = 6;
const BYTES_MIN: usize = 1 << 20;
/// Bytes that are decoded, as a multiple of the message's.
const WORK_TIMES_MAX: usize = 32;
/// Containers that are encoded, inside each other.
const DEPTH_MAX: usize = 4;
/// Groups of MIME fields.
const BLOCKS_MAX: usize = 2_000;
/// Names of one block that are used.
const NAMES_MAX: usize = 16;
/// What is in a message, beside what the usual reading shows.
#[derive(Debug, Default)]
pub struct Readings {
    /// Files of other readings; each content once.
    pub files: Vec<ReadingFile>,
    /// Nothing was left out for a limit.
    pub complete: bool,
}

/// A file that some programs see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingFile {
    /// How a program comes to it, such as `base64 up to its padding, at byte 312`.
    pub reading: String,
    /// A name that stands beside it, empty if none does.
    pub name: String,
    /// The media type that stands beside it.
    pub declared_type: String,
    /// Contents, decoded in its reading.
    pub bytes: Vec<u8>,
}

/// Whether every reading of a message with this defect is made by [`Message::readings`].
pub fn covers(kind: DefectKind) -> bool {
    use DefectKind as K;
    // What is elsewhere cannot be read, and who wrote a message is no file.
    kind.is_ambiguous()
        && !matches!(
            kind,
            K::AmbiguousFrom | K::TooManyParameters | K::PartialMessage | K::ExternalBody
        )
}

impl Message<'_> {
    /// What any reading shows beside the usual one. For messages that are ambiguous: others cost
    /// the same and show nothing more.
    pub fn readings(&self) -> Readings {
        let mut search = Search {
            seen: HashMap::new(),
            walked: HashSet::new(),
            searched: HashSet::new(),
            shown: self.parts(),
            found: Readings { files: Vec::new(), complete: true },
            bytes_left: self.raw().len().saturating_mul(BYTES_TIMES_MAX).max(BYTES_MIN),
            work_left: self.raw().len().saturating_mul(WORK_TIMES_MAX).max(BYTES_MIN),
            blocks_left: BLOCKS_MAX,
        };
        for file in self.all_files() {
            let names = search.seen.entry(blake3::hash(file.bytes)).or_default();
            names.insert(file.name.into_owned());
        }
        search.walk(self.raw(), 0);
        for part in self.parts() {
            search.text_files(part.body(), 0);
        }
        search.text_files(self.raw(), 0);
        search.found
    }
}

struct Search<'m> {
    /// Contents, and the names under which they were seen.
    seen: HashMap<blake3::Hash, HashSet<String>>,
    /// In which parts were looked for.
    walked: HashSet<blake3::Hash>,
    /// In which files of a text were looked for.
    searched: HashSet<blake3::Hash>,
    /// Parts of the usual reading.
    shown: &'m [Part<'m>],
    found: Readings,
    bytes_left: usize,
    /// Bytes that may still be decoded, whatever comes of it.
    work_left: usize,
    blocks_left: usize,
}

/// A group of fields, and the body behind it.
struct Block<'b> {
    /// Its offset in the message.
    at: usize,
    fields: &'b [u8],
    /// Up to what may be the next boundary, to be a boundary to any program.
    short: &'b [u8],
    /// Up to a line that is one to every program, or to the end.
    long: &'b [u8],
}

impl Search<'_> {
    fn walk(&mut self, bytes: &[u8], depth: usize) {
        let lines = Lines::of(bytes);
        self.bare_parts(&lines, depth);
        let mut next = 0;
        while next < lines.spans.len() {
            if !is_mime_field(field_line(lines.line(next))) {
                next += 1;
                continue;
            }
            if self.blocks_left == 0 {
                self.found.complete = false;
                return;
            }
            self.blocks_left -= 1;
            next = self.group(&lines, next, depth);
        }
    }

    /// Parts without fields: text behind a line that may be a boundary.
    fn bare_parts(&mut self, lines: &Lines<'_>, depth: usize) {
        let all = lines.spans.len();
        let mut boundary = lines.next_dashes[0];
        while boundary < all {
            let end = lines.next_dashes[boundary + 1];
            let first = boundary + 1;
            if first < all && !is_header_like(field_line(lines.line(first))) {
                let at = lines.start(first);
                let body = &lines.bytes[at..lines.start(end)];
                let reading = format!("part without fields at byte {at}");
                self.file(&reading, &[String::new()], "text/plain", body, depth);
            }
            boundary = end;
        }
    }

    /// Looks at the group of fields that line `first` belongs to; the line to go on with.
    fn group(&mut self, lines: &Lines<'_>, first: usize, depth: usize) -> usize {
        let all = lines.spans.len();
        let belongs = |n: usize| {
            let line = lines.line(n);
            let continues = line.first().is_some_and(u8::is_ascii_whitespace);
            !line.trim_ascii().is_empty() && (is_header_like(line) || continues)
        };
        // Other fields, and lines that may continue one, belong to it as well.
        let begin = (0..first).rev().take_while(|&n| belongs(n)).last().unwrap_or(first);
        let end = (first + 1..all).find(|&n| !belongs(n)).unwrap_or(all);
        // Some take any line that is no field for the end of the fields, others wait for an empty
        // one; of those that end there, some read the line as part of the body.
        let is_empty = end < all && lines.line(end).trim_ascii().is_empty();
        let mut starts = vec![(end, end + usize::from(is_empty))];
        let empty = lines.next_empty[end.min(all)];
        if empty > end && empty < all {
            starts.push((empty, empty + 1));
        }
        for (fields_end, body) in starts {
            let body = body.min(all);
            let (at, from) = (lines.start(begin), lines.start(body));
            let block = Block {
                at,
                fields: &lines.bytes[at..lines.start(fields_end)],
                short: &lines.bytes[from..lines.start(lines.next_dashes[body])],
                long: &lines.bytes[from..lines.start(lines.next_part[body])],
            };
            let work = block.short.len() + block.long.len();
            match self.work_left.checked_sub(work) {
                Some(left) => self.work_left = left,
                None => {
                    self.found.complete = false;
                    return all;
                }
            }
            self.block(&block, depth);
        }
        end.max(first + 1)
    }

    /// Decodes what may be a part in each way that its fields allow.
    fn block(&mut self, block: &Block<'_>, depth: usize) {
        let header = [block.fields.trim_ascii_end(), b"\r\n\r\n"].concat();
        let message = Message::parse(&header);
        let part = &message.parts()[0];
        let kind = part.content_type.essence();
        let others = part.alternative_names.iter().chain(&part.fallback_names).map(String::as_str);
        let names = part.file_name().into_iter().chain(others);
        let mut names: Vec<String> = names.map(str::to_owned).take(NAMES_MAX + 1).collect();
        if names.len() > NAMES_MAX {
            self.found.complete = false;
        }
        if names.is_empty() {
            names.push(String::new());
        }
        let says = |words: &[&[u8]]| {
            let fields = encoding_fields(block.fields);
            fields.iter().any(|value| words.iter().any(|word| memmem::find(value, word).is_some()))
        };
        let at = block.at;
        let mut decoded: Vec<(String, Vec<u8>)> = Vec::new();
        if says(&[b"64"]) || base64::looks_encoded(block.short) {
            for body in [block.short, block.long] {
                decoded.extend(base64::readings(body, at));
            }
        }
        if says(&[b"quot", b"printable"]) {
            for body in [block.short, block.long] {
                let bytes = encoding::quoted_printable(body).bytes.into_owned();
                decoded.push((format!("quoted-printable at byte {at}"), bytes));
            }
        }
        let is_container = kind.starts_with("multipart/") || kind.starts_with("message/");
        if !is_container || !decoded.is_empty() {
            for body in [block.short, block.long] {
                decoded.push((format!("not encoded at byte {at}"), body.to_vec()));
            }
        } else {
            decoded.push((format!("text before a boundary at byte {at}"), block.short.to_vec()));
        }
        for (reading, bytes) in decoded {
            self.file(&reading, &names, &kind, &bytes, depth);
        }
    }

    fn file(&mut self, reading: &str, names: &[String], kind: &str, bytes: &[u8], depth: usize) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        let hash = blake3::hash(bytes);
        self.container(bytes, hash, depth);
        self.text_files(bytes, depth);
        // What opens a content goes by its name, so that it counts once for each.
        let seen = self.seen.entry(hash).or_default();
        let is_new =
            |name: &&String| !seen.contains(*name) && (!name.is_empty() || seen.is_empty());
        let names: Vec<String> = names.iter().filter(is_new).cloned().collect();
        seen.extend(names.iter().cloned());
        if names.is_empty() || self.is_shown(bytes, kind) {
            return;
        }
        let fits = bytes.len() <= self.bytes_left && self.found.files.len() < FILES_MAX;
        if !fits {
            self.found.complete = false;
            return;
        }
        self.bytes_left -= bytes.len();
        let room = FILES_MAX.saturating_sub(self.found.files.len());
        self.found.complete &= names.len() <= room;
        for name in names.iter().take(room) {
            self.found.files.push(ReadingFile {
                reading: reading.to_owned(),
                name: name.clone(),
                declared_type: kind.to_owned(),
                bytes: bytes.to_vec(),
            });
        }
    }

    /// Looks for parts in what was decoded, once for each content.
    fn container(&mut self, bytes: &[u8], hash: blake3::Hash, depth: usize) {
        if !bytes.split(|b| *b == b'\n').any(is_mime_field) || !self.walked.insert(hash) {
            return;
        }
        if depth < DEPTH_MAX {
            self.walk(bytes, depth + 1);
        } else {
            self.found.complete = false;
        }
    }

    /// Looks for files by uuencode and yEnc in a text, once for each content.
    fn text_files(&mut self, text: &[u8], depth: usize) {
        if memmem::find(text, b"begin").is_none() || !self.searched.insert(blake3::hash(text)) {
            return;
        }
        if depth >= DEPTH_MAX {
            self.found.complete = false;
            return;
        }
        let mut found = text_files::find(text, &mut self.work_left);
        // A CR alone ends a line to some.
        if memchr::memchr_iter(b'\r', text).any(|at| text.get(at + 1) != Some(&b'\n')) {
            let lines: Vec<u8> =
                text.iter().map(|b| if *b == b'\r' { b'\n' } else { *b }).collect();
            let more = text_files::find(&lines, &mut self.work_left);
            found.is_cut |= more.is_cut;
            found.files.extend(more.files);
        }
        self.found.complete &= !found.is_cut;
        for file in found.files {
            self.file(&file.how, &[file.name], "", &file.bytes, depth + 1);
        }
    }

    /// Text of which the usual reading shows all.
    fn is_shown(&self, bytes: &[u8], kind: &str) -> bool {
        let text = bytes.trim_ascii();
        let is_text = kind.is_empty() || kind.starts_with("text/");
        let mut leaves = self.shown.iter().filter(|part| !part.is_container);
        is_text && leaves.any(|part| memmem::find(part.body(), text).is_some())
    }
}

/// The lines of some bytes; CR alone ends a line, too.
struct Lines<'b> {
    bytes: &'b [u8],
    /// Begin and end of each, without its end.
    spans: Vec<(usize, usize)>,
    /// For each line, and for the end: the next line, itself perhaps, that is empty.
    next_empty: Vec<usize>,
    /// The next one that may be a boundary.
    next_dashes: Vec<usize>,
    /// The next one that may be a boundary and has a field behind it.
    next_part: Vec<usize>,
}

impl<'b> Lines<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        let mut spans = Vec::new();
        let mut at = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let of_cr_lf = bytes[end] == b'\n' && end == at && end > 0 && bytes[end - 1] == b'\r';
            if !of_cr_lf {
                spans.push((at, end));
            }
            at = end + 1;
        }
        if at < bytes.len() {
            spans.push((at, bytes.len()));
        }
        let all = spans.len();
        let [mut next_empty, mut next_dashes, mut next_part] = [0; 3].map(|_| vec![all; all + 1]);
        for n in (0..all).rev() {
            let line = &bytes[spans[n].0..spans[n].1];
            let is_dashed = line.starts_with(b"--") && line.len() > 2;
            let before_field = || {
                let next = spans.get(n + 1).map(|l| field_line(&bytes[l.0..l.1]));
                next.is_none_or(|line| is_mime_field(line) || is_header_like(line))
            };
            next_empty[n] = if line.is_empty() { n } else { next_empty[n + 1] };
            next_dashes[n] = if is_dashed { n } else { next_dashes[n + 1] };
            next_part[n] = if is_dashed && before_field() { n } else { next_part[n + 1] };
        }
        Lines { bytes, spans, next_empty, next_dashes, next_part }
    }

    fn line(&self, n: usize) -> &'b [u8] {
        self.spans.get(n).map_or(&[], |(at, end)| &self.bytes[*at..*end])
    }

    /// Where a line begins; for the one behind the last, the end.
    fn start(&self, n: usize) -> usize {
        self.spans.get(n).map_or(self.bytes.len(), |span| span.0)
    }
}

/// Without what some programs drop in front of a name: white space and control characters.
fn field_line(line: &[u8]) -> &[u8] {
    let start = line.iter().take_while(|b| **b <= b' ').count();
    &line[start..]
}

/// A name, perhaps white space, and a colon.
fn is_header_like(line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', line) else { return false };
    let name = line[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic())
}

/// What all fields that may be a Content-Transfer-Encoding say, in lower case: each value as it
/// stands, with its encoded words (RFC 2047) decoded, and without its comments (RFC 5322 section
/// 3.2.2), which some programs read past.
fn encoding_fields(fields: &[u8]) -> Vec<Vec<u8>> {
    let lower = fields.to_ascii_lowercase();
    let name = b"content-transfer-encoding";
    let mut said = Vec::new();
    for at in memmem::find_iter(&lower, name) {
        let value = &fields[at + name.len()..];
        let mut end = value.len();
        // To the next line that does not continue it.
        for line_end in memchr::memchr_iter(b'\n', value) {
            if value.get(line_end + 1).is_none_or(|b| !b.is_ascii_whitespace()) {
                end = line_end;
                break;
            }
        }
        let value = unfold(&value[..end]).into_owned();
        let decoded = decode_words(&value).0.into_owned().into_bytes();
        for text in [&value, &decoded] {
            said.push(text.to_ascii_lowercase());
            said.push(without_comments(text).to_ascii_lowercase());
        }
    }
    said
}

/// What is left of a value without its comments, which may stand in each other and have no end, and
/// without quotes, blanks and backslashes between what is left.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut depth = 0usize;
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'"' | b'\'' | b'\\' | b' ' | b'\t' => {}
            byte if depth == 0 => out.push(*byte),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
