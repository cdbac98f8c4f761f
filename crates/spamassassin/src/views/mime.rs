//! The message as SpamAssassin takes it apart: header block, then a tree of parts found by lines.
//! `gauntlet_mail` reads the tree for people; what rules answer depends on this one.
//!
//! It differs where mail is broken: a part without headers, a boundary that is not closed or that is
//! its parent's, lines over 2,048 bytes (which are cut), runs of blank lines (shortened to 20),
//! attached messages (which are decoded, then read as messages of their own), text types (which are
//! all `text/plain` but HTML, calendars and cards).

mod body;
mod head;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::Arc;

use self::body::{cut_lines, has_long_line, lacks_boundary, tidy_body};
use self::head::read_head;
use super::content_type::{self, ContentType};
use super::perl::{self, is_space};
use super::{encoding, header_text};

/// Longest line of a part's body; longer ones are cut.
const LINE_MAX: usize = 2048;
/// Bytes of a field's name and of its value.
const NAME_MAX: usize = 256;
const VALUE_MAX: usize = 8192;
/// Fields of one part; SpamAssassin has no such limit. Rules look through them again and again, and a
/// header of a million fields cost three seconds.
pub(super) const FIELDS_MAX: usize = 2_000;
/// Parts of one multipart.
const PARTS_MAX: usize = 1000;
/// Nodes of the whole tree; SpamAssassin has no such limit.
const NODES_MAX: usize = 20_000;
/// Nesting.
const DEPTH_MAX: u32 = 20;
/// Blank lines in a row.
const BLANK_LINES_MAX: usize = 20;

/// Bytes of the message, or of something that was made from it.
#[derive(Debug, Clone)]
enum Piece<'m> {
    Raw(&'m [u8]),
    Made(Arc<[u8]>, Range<usize>),
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Raw(bytes) => bytes,
            Piece::Made(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl<'m> Piece<'m> {
    fn of(bytes: Cow<'m, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => Piece::Raw(bytes),
            Cow::Owned(bytes) => {
                let range = 0..bytes.len();
                Piece::Made(bytes.into(), range)
            }
        }
    }

    /// A part of it, lent if it is of the message.
    fn lend(&self, range: Range<usize>) -> Cow<'m, [u8]> {
        match self {
            Piece::Raw(bytes) => Cow::Borrowed(bytes.get(range).unwrap_or_default()),
            Piece::Made(..) => Cow::Owned(self.get(range).unwrap_or_default().to_vec()),
        }
    }

    /// A part of it.
    fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Piece::Raw(bytes) => Piece::Raw(bytes.get(range).unwrap_or_default()),
            Piece::Made(bytes, outer) => {
                let range = outer.start + range.start..outer.start + range.end;
                Piece::Made(Arc::clone(bytes), range)
            }
        }
    }
}

/// A header field of a part.
#[derive(Debug)]
pub struct Field<'m> {
    /// Name as written.
    pub name: Cow<'m, [u8]>,
    raw: Piece<'m>,
    decoded: OnceCell<Line>,
}

/// The decoded value of a field with a line end.
#[derive(Debug)]
enum Line {
    /// What the raw value is from here on.
    Raw(usize),
    Made(Vec<u8>),
}

impl<'m> Field<'m> {
    fn new(name: Cow<'m, [u8]>, raw: Piece<'m>) -> Self {
        Field { name, raw, decoded: OnceCell::new() }
    }

    /// Whether this is its name.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The value as it came, folded, with the line end.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The value unfolded, trimmed and decoded to UTF-8.
    pub fn value(&self) -> &[u8] {
        let line = self.line();
        line.split_last().map_or(line, |(_, value)| value)
    }

    /// The same with a line end.
    pub(crate) fn line(&self) -> &[u8] {
        let raw: &[u8] = &self.raw;
        let line = self.decoded.get_or_init(|| match header_text::line_start(raw, &self.name) {
            Some(start) => Line::Raw(start),
            None => {
                let mut line = header_text::value(raw, &self.name);
                line.push(b'\n');
                Line::Made(line)
            }
        });
        match line {
            Line::Raw(start) => raw.get(*start..).unwrap_or_default(),
            Line::Made(line) => line,
        }
    }
}

/// A part.
#[derive(Debug, Default)]
pub struct Node<'m> {
    /// Header fields in order.
    pub fields: Vec<Field<'m>>,
    /// `type/subtype`, lower case; unknown text types are `text/plain`.
    pub kind: String,
    /// Charset as declared.
    pub charset: Option<Vec<u8>>,
    /// File name.
    pub name: Option<Vec<u8>>,
    /// Indexes of the parts in it; a part that has none may still be no leaf.
    pub children: Vec<usize>,
    /// It holds no parts and no message.
    pub is_leaf: bool,
    /// What its Content-Type says.
    content_type: ContentType,
    body: Option<Piece<'m>>,
    decoded: OnceCell<Option<Vec<u8>>>,
}

impl<'m> Node<'m> {
    /// Raw values of a field, in order.
    pub fn values<'s>(&'s self, name: &'s str) -> impl DoubleEndedIterator<Item = &'s [u8]> {
        self.fields.iter().filter(|f| f.is(name)).map(Field::raw)
    }

    /// The decoded value of the last field of a name, which is the one that counts; empty if there
    /// is none.
    pub fn value(&self, name: &str) -> &[u8] {
        self.fields.iter().rev().find(|f| f.is(name)).map_or(&[], Field::value)
    }

    /// What its Content-Type says.
    pub(crate) fn content_type(&self) -> &ContentType {
        &self.content_type
    }

    /// Reads the Content-Type of a part whose fields are known.
    fn read_content_type(&mut self) {
        let field = self.fields.iter().rev().find(|f| f.is("content-type"));
        self.content_type = content_type::parse(field.map(Field::value));
        self.kind.clone_from(&self.content_type.kind);
    }

    /// Whether there is a body to decode at all: not in containers.
    pub fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// A leaf's body as it came, still encoded, line ends made LF.
    pub fn raw_body(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    /// The lines of the body with their line feeds, still encoded.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        perl::lines(self.raw_body())
    }

    /// The body with its transfer encoding undone; empty if there is none.
    pub fn decoded(&self) -> &[u8] {
        let raw = self.raw_body();
        let decode = || {
            let encoding = self.value("content-transfer-encoding");
            if encoding.eq_ignore_ascii_case(b"quoted-printable") {
                return Some(encoding::unix_lines(encoding::quoted_printable(raw)));
            }
            if !encoding.eq_ignore_ascii_case(b"base64") {
                return None;
            }
            let decoded = encoding::base64(raw);
            let text = self.kind.starts_with("text/") || self.kind.starts_with("message/");
            Some(if text { encoding::unix_lines(decoded) } else { decoded })
        };
        self.decoded.get_or_init(decode).as_deref().unwrap_or(raw)
    }
}

/// What was odd about the structure, by SpamAssassin's names (`eval:check_msg_parse_flags`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParseFlags {
    /// The header block does not end with an empty line.
    pub missing_head_body_separator: bool,
    /// A boundary is not followed by a header field.
    pub missing_mime_headers: bool,
    /// A part's header does not end with an empty line.
    pub missing_mime_head_body_separator: bool,
    /// There is text after the last boundary.
    pub mime_epilogue_exists: bool,
    /// A field's name or value, or the header, was too long.
    pub truncated_header: bool,
    /// A multipart has too many parts.
    pub mimepart_limit_exceeded: bool,
}

/// The parsed message.
#[derive(Debug)]
pub struct MimeTree<'m> {
    /// All parts; `[0]` is the message.
    pub nodes: Vec<Node<'m>>,
    /// What was odd.
    pub flags: ParseFlags,
    /// Where the header begins: after the mbox line, if there is one.
    pub header_start: usize,
    /// Where the body begins.
    pub body_start: usize,
    /// Some boundary was opened and not closed, or closed twice.
    pub missing_boundary: bool,
    boundaries: Vec<(Vec<u8>, i32)>,
    raw: &'m [u8],
    header: Cow<'m, [u8]>,
    full: Cow<'m, [u8]>,
}

/// What is kept of a head to make a part of it.
struct Opened<'r> {
    fields: Vec<(Cow<'r, [u8]>, Range<usize>)>,
    values: Piece<'r>,
    body: Cow<'r, [u8]>,
    crlf: bool,
}

/// A part that is still to be taken apart.
struct Job<'m> {
    node: usize,
    boundary: Option<Vec<u8>>,
    body: Piece<'m>,
    depth_left: u32,
}

impl<'m> MimeTree<'m> {
    /// Takes a message apart. Never fails.
    pub fn read(raw: &'m [u8]) -> Self {
        let text = if raw.is_empty() { b"\n" } else { raw };
        let head = read_head(text);
        let start = head.mbox;
        let full = match &head.pristine {
            Cow::Borrowed(_) => Cow::Borrowed(&text[start..]),
            Cow::Owned(header) => Cow::Owned([header.as_slice(), head.body].concat()),
        };
        let mut tree = MimeTree {
            nodes: Vec::new(),
            flags: ParseFlags {
                missing_head_body_separator: head.missing_separator,
                truncated_header: head.truncated,
                ..ParseFlags::default()
            },
            header_start: start.min(raw.len()),
            body_start: (text.len() - head.body.len()).min(raw.len()),
            missing_boundary: false,
            boundaries: Vec::new(),
            raw,
            header: head.pristine,
            full,
        };
        // What another filter said is no part of the message; `full` and `ALL:raw` still show it.
        let fields = head.fields.into_iter();
        let fields = fields.filter(|(name, _)| !perl::starts_no_case(name, b"x-spam-"));
        let head = Opened {
            fields: fields.map(|(name, range)| (Cow::Borrowed(name), range)).collect(),
            values: Piece::of(head.values),
            body: Cow::Borrowed(head.body),
            crlf: head.crlf,
        };
        let job = tree.add_message(head, DEPTH_MAX);
        let mut queue = VecDeque::from([job]);
        while let Some(job) = queue.pop_front() {
            tree.take_apart(job, &mut queue);
        }
        tree.missing_boundary = tree.boundaries.iter().any(|b| b.1 != 0);
        tree
    }

    /// Indices of all parts in the order of the message, the whole first.
    pub fn in_order(&self) -> Vec<usize> {
        self.below(0)
    }

    /// Indices of a part and all parts inside it, in the order of the message.
    pub fn below(&self, top: usize) -> Vec<usize> {
        if self.nodes[top].children.is_empty() {
            return vec![top];
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack = vec![top];
        while let Some(index) = stack.pop() {
            order.push(index);
            stack.extend(self.nodes[index].children.iter().rev());
        }
        order
    }

    /// Parts that hold no parts and have a type, in order: what the views are made of.
    pub fn leaves(&self) -> impl Iterator<Item = &Node<'m>> {
        let parts = self.in_order().into_iter().filter_map(|i| self.nodes.get(i));
        parts.filter(|p| p.is_leaf && !p.kind.is_empty())
    }

    /// The message itself.
    pub fn root(&self) -> &Node<'m> {
        &self.nodes[0]
    }

    /// Whether an oddity was seen, by its name in [`ParseFlags`].
    pub fn has_flag(&self, name: &str) -> bool {
        let flags = &self.flags;
        match name {
            "missing_head_body_separator" => flags.missing_head_body_separator,
            "missing_mime_headers" => flags.missing_mime_headers,
            "missing_mime_head_body_separator" => flags.missing_mime_head_body_separator,
            "mime_epilogue_exists" => flags.mime_epilogue_exists,
            "truncated_header" => flags.truncated_header,
            "mimepart_limit_exceeded" => flags.mimepart_limit_exceeded,
            _ => false,
        }
    }

    /// The mbox line before the message; empty if there is none.
    pub fn mbox_line(&self) -> &'m [u8] {
        &self.raw[..self.header_start]
    }

    /// The header block as it came, with the empty line at its end.
    pub fn pristine_header(&self) -> &[u8] {
        &self.header
    }

    /// The body as it came.
    pub fn pristine_body(&self) -> &'m [u8] {
        &self.raw[self.body_start..]
    }

    /// The message as it came, without an mbox line.
    pub fn full(&self) -> &[u8] {
        &self.full
    }

    /// Adds a message (the root, or an attached one) and says what is to be read of it.
    fn add_message(&mut self, head: Opened<'m>, depth_left: u32) -> Job<'m> {
        let fields = head.fields.into_iter();
        let fields = fields.map(|(name, range)| Field::new(name, head.values.slice(range)));
        let mut node = Node { fields: fields.collect(), is_leaf: true, ..Node::default() };
        node.read_content_type();
        let boundary = node.content_type.boundary.clone();
        let mut body = tidy_body(head.body, head.crlf);
        if node.kind.starts_with("multipart/") && lacks_boundary(&body, boundary.as_deref()) {
            body.to_mut().insert(0, b'\n');
        }
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        Job { node: index, boundary, body: Piece::of(body), depth_left }
    }

    fn take_apart(&mut self, job: Job<'m>, queue: &mut VecDeque<Job<'m>>) {
        let multipart = self.nodes[job.node].kind.starts_with("multipart/");
        match job.boundary.clone() {
            Some(boundary) if multipart && job.depth_left > 0 => {
                self.read_multipart(&job, &boundary, queue);
            }
            _ => self.read_leaf(job, queue),
        }
    }

    fn read_leaf(&mut self, job: Job<'m>, queue: &mut VecDeque<Job<'m>>) {
        let node = &mut self.nodes[job.node];
        let found = &node.content_type;
        let disposition = node.value("content-disposition");
        let name = content_type::disposition_name(disposition).or_else(|| found.name.clone());
        let charset = found.charset.clone();
        if !found.missing {
            let orphan = found.kind.starts_with("multipart/") && job.boundary.is_none();
            node.kind = if orphan { "text/plain".to_owned() } else { found.kind.clone() };
        }
        (node.name, node.charset) = (name, charset);
        node.body = Some(job.body);
        let message = matches!(node.kind.as_str(), "message/rfc822" | "message/global");
        if message && job.depth_left > 0 && self.nodes.len() < NODES_MAX {
            self.read_attached(job.node, job.depth_left, queue);
        }
    }

    /// An attached message becomes the only child of its part.
    fn read_attached(&mut self, node: usize, depth_left: u32, queue: &mut VecDeque<Job<'m>>) {
        let decoded = self.nodes[node].decoded().to_vec();
        if decoded.is_empty() {
            return;
        }
        let head = read_head(&decoded);
        let fields = head.fields.into_iter();
        let head = Opened {
            fields: fields.map(|(name, range)| (Cow::Owned(name.to_vec()), range)).collect(),
            values: Piece::of(Cow::Owned(head.values.into_owned())),
            body: Cow::Owned(head.body.to_vec()),
            crlf: head.crlf,
        };
        let child = self.add_message(head, depth_left - 1);
        let parent = &mut self.nodes[node];
        parent.children.push(child.node);
        parent.is_leaf = false;
        parent.body = None;
        parent.decoded = OnceCell::new();
        queue.push_back(child);
    }

    /// Finds the parts of a multipart by its boundary lines.
    fn read_multipart(&mut self, job: &Job<'m>, boundary: &[u8], queue: &mut VecDeque<Job<'m>>) {
        self.nodes[job.node].is_leaf = false;
        let source: &[u8] = &job.body;
        let lacks_field = |at: usize| at < source.len() && !begins_with_field(&source[at..], false);
        let mut at = 0;
        if let Some(opening) = find_opening(source, boundary) {
            *self.boundary_state(boundary) = 1;
            at = opening;
            self.flags.missing_mime_headers |= lacks_field(at);
        }
        let mut part = Draft::default();
        let (mut nested, mut count) = (false, 0);
        let lines = BodyLines::new(source, boundary);
        while at < source.len() {
            if part.in_body {
                let next = lines.end(at);
                part.body_lines(at, &source[at..next]);
                at = next;
            }
            let length = memchr::memchr(b'\n', &source[at..]).map_or(source.len() - at, |i| i + 1);
            let line = &source[at..at + length];
            let last = at + length == source.len();
            let mut end = boundary_line(line, boundary);
            if nested && end.is_some() {
                nested = end != Some(true);
                end = None;
            }
            if end.is_none() && !last {
                if part.line(source, at..at + length, &mut self.flags) {
                    nested |= names_boundary(source, &part, boundary);
                }
                at += length;
                continue;
            }
            if end.is_none() {
                part.body_lines(at, line);
            }
            at += length;
            self.close_part(std::mem::take(&mut part), end.is_some(), job, boundary, queue);
            if end == Some(true) {
                *self.boundary_state(boundary) -= 1;
                break;
            }
            self.flags.missing_mime_headers |= lacks_field(at);
            count += 1;
            if count == PARTS_MAX || self.nodes.len() >= NODES_MAX {
                self.flags.mimepart_limit_exceeded = true;
                return;
            }
        }
        let epilogue = source[at..].iter().any(|&b| !is_space(b) && b != b'.');
        self.flags.mime_epilogue_exists |= epilogue;
    }

    /// How often a boundary is open.
    fn boundary_state(&mut self, boundary: &[u8]) -> &mut i32 {
        let index = self.boundaries.iter().position(|b| b.0 == boundary);
        let index = index.unwrap_or_else(|| {
            self.boundaries.push((boundary.to_vec(), 0));
            self.boundaries.len() - 1
        });
        &mut self.boundaries[index].1
    }

    /// Adds a part that has ended. `at_boundary`: the line end before a boundary belongs to it.
    fn close_part(
        &mut self,
        part: Draft,
        at_boundary: bool,
        job: &Job<'m>,
        boundary: &[u8],
        queue: &mut VecDeque<Job<'m>>,
    ) {
        let mut range = part.body.unwrap_or(0..0);
        let body = if part.long_lines {
            let mut cut = cut_lines(&job.body[range]);
            if at_boundary && cut.last() == Some(&b'\n') {
                cut.pop();
            }
            Piece::of(Cow::Owned(cut))
        } else {
            if at_boundary && job.body[range.clone()].last() == Some(&b'\n') {
                range.end -= 1;
            }
            job.body.slice(range)
        };
        let mut node = Node { is_leaf: true, ..Node::default() };
        for (name, mut range) in part.fields {
            let blank = job.body[range.clone()].iter().take_while(|&&b| is_space(b)).count();
            range.start += blank;
            node.fields.push(Field::new(job.body.lend(name), job.body.slice(range)));
        }
        node.read_content_type();
        let found = &node.content_type;
        let own = found.boundary.clone().filter(|b| !b.is_empty() && b != b"0");
        if found.missing && self.nodes[job.node].kind == "multipart/digest" {
            node.kind = "message/rfc822".to_owned();
        }
        let index = self.nodes.len();
        self.nodes.push(node);
        self.nodes[job.node].children.push(index);
        queue.push_back(Job {
            node: index,
            boundary: Some(own.unwrap_or_else(|| boundary.to_vec())),
            body,
            depth_left: job.depth_left - 1,
        });
    }
}

/// Finds the lines of a multipart that are no boundary for sure.
struct BodyLines<'s> {
    source: &'s [u8],
    /// Where the last line begins.
    last: usize,
    opening: memchr::memmem::Finder<'static>,
}

impl<'s> BodyLines<'s> {
    fn new(source: &'s [u8], boundary: &[u8]) -> Self {
        let inner = source.strip_suffix(b"\n").unwrap_or(source);
        let last = memchr::memrchr(b'\n', inner).map_or(0, |i| i + 1);
        let opening = [b"--", boundary].concat();
        BodyLines { source, last, opening: memchr::memmem::Finder::new(&opening).into_owned() }
    }

    /// Where the first line from the line at `at` on begins that may be a boundary, or is the last one.
    fn end(&self, at: usize) -> usize {
        let mut from = at;
        while let Some(i) = self.opening.find(&self.source[from..]) {
            let hit = from + i;
            if hit >= self.last {
                break;
            }
            if hit == at || self.source[hit - 1] == b'\n' {
                return hit;
            }
            from = hit + 1;
        }
        self.last.max(at)
    }
}

/// The place after the first opening boundary.
fn find_opening(text: &[u8], boundary: &[u8]) -> Option<usize> {
    let mut at = 0;
    perl::lines(text).find_map(|line| {
        at += line.len();
        (boundary_line(line, boundary) == Some(false)).then_some(at)
    })
}

/// A part while its lines are read.
#[derive(Default)]
struct Draft {
    /// Where the name of each field stands, and its value.
    fields: Vec<(Range<usize>, Range<usize>)>,
    /// The field that may still go on.
    open: Option<(Range<usize>, Range<usize>)>,
    in_body: bool,
    body: Option<Range<usize>>,
    long_lines: bool,
}

impl Draft {
    /// One or more whole lines of the body.
    fn body_lines(&mut self, at: usize, lines: &[u8]) {
        self.long_lines |= has_long_line(lines);
        self.body = Some(self.body.as_ref().map_or(at, |b| b.start)..at + lines.len());
    }

    /// One more line of `source`. True if it ends the part's header, and the last field is a Content-Type.
    fn line(&mut self, source: &[u8], place: Range<usize>, flags: &mut ParseFlags) -> bool {
        let at = place.start;
        let line = &source[place];
        if self.in_body {
            self.body_lines(at, line);
            return false;
        }
        if begins_with_field(line, true) {
            self.fields.extend(self.open.take());
            let colon = memchr::memchr(b':', line).unwrap_or(0);
            let blank = line[colon + 1..].iter().take_while(|&&b| is_space(b)).count();
            self.open = Some((at..at + colon, at + colon + 1 + blank..at + line.len()));
            return false;
        }
        if matches!(line.first(), Some(b' ' | b'\t'))
            && let Some(open) = &mut self.open
        {
            open.1.end = at + line.len();
            return false;
        }
        let name = self.open.as_ref().map(|open| &source[open.0.clone()]);
        let typed = name.is_some_and(|name| name.eq_ignore_ascii_case(b"content-type"));
        self.fields.extend(self.open.take());
        self.in_body = true;
        if !matches!(line, b"\n" | b"\r\n" | b"\r" | b"") {
            flags.missing_mime_head_body_separator = true;
            self.body_lines(at, line);
        }
        typed
    }
}

/// Whether the Content-Type that was read last names the boundary of the multipart around it.
fn names_boundary(source: &[u8], part: &Draft, boundary: &[u8]) -> bool {
    let Some((name, range)) = part.fields.last() else { return false };
    let value = header_text::value(&source[range.clone()], &source[name.clone()]);
    content_type::parse(Some(&value)).boundary.as_deref() == Some(boundary)
}

/// Whether the text begins with a field name and a colon; with white space between them if `spaced`.
fn begins_with_field(text: &[u8], spaced: bool) -> bool {
    let name = text.iter().take_while(|b| matches!(b, 0x21..=0x39 | 0x3b..=0x7e)).count();
    let blank = text[name..].iter().take_while(|b| spaced && matches!(b, b' ' | b'\t')).count();
    name > 0 && text.get(name + blank) == Some(&b':')
}

/// For a boundary line: whether it is the last one.
fn boundary_line(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    let blank = |s: &[u8]| s.iter().all(|&b| is_space(b));
    match rest.strip_prefix(b"--") {
        Some(tail) if blank(tail) => Some(true),
        _ => blank(rest).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::head::mbox_line;
    use super::*;

    fn kinds(raw: &[u8]) -> Vec<String> {
        let tree = MimeTree::read(raw);
        tree.in_order().into_iter().map(|i| tree.nodes[i].kind.clone()).collect()
    }

    #[test]
    fn a_tree_with_an_attached_message() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\npre\n--x\n\nhello\n--x\n\
            Content-Type: message/rfc822\n\nSubject: inner\n\nbody\n--x--\n";
        assert_eq!(kinds(raw), ["multipart/mixed", "text/plain", "message/rfc822", "text/plain"]);
        let tree = MimeTree::read(raw);
        let texts: Vec<_> = tree.leaves().map(|l| l.decoded().to_vec()).collect();
        assert_eq!(texts, [&b"hello"[..], b"body"]);
    }

    #[test]
    fn crlf_and_lf_read_alike() {
        let lf = b"A: 1\n 2\nB : x\n\ntext \n\nmore\n".to_vec();
        let crlf: Vec<u8> =
            lf.iter().flat_map(|&b| if b == b'\n' { vec![13, 10] } else { vec![b] }).collect();
        for raw in [&lf, &crlf] {
            let tree = MimeTree::read(raw);
            assert_eq!(tree.root().value("a"), b"1 2");
            assert_eq!(tree.root().value("b"), b"x");
            assert_eq!(tree.root().decoded(), b"text \n\nmore\n");
            assert_eq!(tree.full(), &**raw);
        }
    }

    #[test]
    fn an_mbox_line_and_a_missing_separator() {
        let tree = MimeTree::read(b"From a@b Thu\nSubject: x\n--b\nbody");
        assert_eq!(tree.mbox_line(), b"From a@b Thu\n");
        assert!(tree.flags.missing_head_body_separator);
        assert_eq!(tree.pristine_body(), b"--b\nbody");
        assert_eq!(mbox_line(b"From : x\n"), 0);
    }

    #[test]
    fn blank_lines_are_shortened_and_long_lines_cut() {
        let body = [&b"a\n"[..], &[b'\n'; 30], b"b\n"].concat();
        assert_eq!(tidy_body(Cow::Borrowed(&body), false).len(), 24);
        assert_eq!(cut_lines(&[b'x'; 5000]).len(), 5002);
    }

    #[test]
    fn a_part_that_reuses_the_boundary() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\
            Content-Type: multipart/alternative; boundary=x\n\n--x\n\nin\n--x--\n--x\n\nout\n--x--\n";
        let found = ["multipart/mixed", "multipart/alternative", "text/plain", "text/plain"];
        assert_eq!(kinds(raw), found);
    }

    #[test]
    fn nothing_panics() {
        for raw in [&b""[..], b"\n", b":", b" ", b"--", b"From ", b"\r\n", b"A:", b"A:\r\n\r\n"] {
            let tree = MimeTree::read(raw);
            assert_eq!(tree.in_order().len(), 1);
        }
    }
}
