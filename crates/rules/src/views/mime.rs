//! The MIME tree as SpamAssassin reads it: line by line, with its own notion of headers, boundaries
//! and oddities. `mail` reads the tree for people; what rules answer depends on this one.
//!
//! Notable differences from RFC 2046: a multipart without a boundary uses its parent's; a part whose
//! type starts with `text` is `text/plain` unless it is HTML, a calendar or a card; lines over 2,048
//! bytes inside a multipart are cut; more than 20 blank lines count as 20.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};

use crate::evals::text::{is_space, is_word, lines, re, trim};

/// Longest line inside a multipart; longer ones are cut into lines.
const LINE_BYTES_MAX: usize = 2048;
/// Longest name and value of a field of the message's own header.
const NAME_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 8192;
/// Blank lines kept of a run of them.
const BLANK_LINES_MAX: usize = 20;
/// Bad header lines that do not end the header.
const BAD_HEADER_LINES_MAX: usize = 3;
/// How deep parts may nest.
const DEPTH_MAX: u32 = 20;
/// Parts of one multipart.
const CHILDREN_MAX: usize = 1000;
/// Parts of one message: nested boundaries could otherwise multiply them.
const NODES_MAX: usize = 5000;

/// One part.
#[derive(Debug, Default)]
pub struct Node<'m> {
    /// Type in lower case, e.g. `text/html`, corrected as described above.
    pub kind: String,
    /// The `charset` parameter as given.
    pub charset: Option<Vec<u8>>,
    /// The file's name, if one is given.
    pub name: Option<Vec<u8>>,
    /// Indices of the parts inside.
    pub children: Vec<usize>,
    /// It has no parts inside and no room for them.
    pub is_leaf: bool,
    /// Lines of a leaf's body with their line feeds, still encoded; none for an attached message
    /// that was read as parts.
    pub lines: Vec<Cow<'m, [u8]>>,
    /// Whether there is a body to decode at all.
    pub has_body: bool,
    headers: Vec<(Vec<u8>, Cow<'m, [u8]>)>,
    decoded: OnceCell<Vec<u8>>,
}

impl<'m> Node<'m> {
    /// Header fields: name as given and raw value, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.headers.iter().map(|(name, value)| (name.as_slice(), value.as_ref()))
    }

    /// Raw values of a field, in order.
    pub fn values<'s>(&'s self, name: &'s str) -> impl DoubleEndedIterator<Item = &'s [u8]> {
        let named = self.headers.iter().filter(|h| h.0.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|(_, value)| value.as_ref())
    }

    /// The last value of a field, unfolded and trimmed (not decoded); empty if there is none.
    pub fn value(&self, name: &str) -> Vec<u8> {
        self.values(name).next_back().map(unfold).unwrap_or_default()
    }

    /// The body with its transfer encoding undone; empty if there is none.
    pub fn decoded(&self) -> &[u8] {
        self.decoded.get_or_init(|| {
            let raw = self.lines.concat();
            match self.value("content-transfer-encoding").to_ascii_lowercase().as_slice() {
                b"quoted-printable" => without_cr(quoted_printable(&raw)),
                b"base64" if is_text_or_message(&self.kind) => without_cr(base64(&raw)),
                b"base64" => base64(&raw),
                _ => raw,
            }
        })
    }

    fn content_type(&self) -> ContentType {
        ContentType::read(self.values("content-type").next_back().map(unfold))
    }

    fn add_header(&mut self, name: Vec<u8>, value: Cow<'m, [u8]>) {
        self.headers.push((name, value));
    }
}

/// The whole tree, and what was odd.
#[derive(Debug, Default)]
pub struct MimeTree<'m> {
    /// All parts; `[0]` is the message.
    pub nodes: Vec<Node<'m>>,
    /// Where in the raw message its header begins (after an mbox `From ` line) and its body begins.
    pub header_start: usize,
    /// Where the body begins.
    pub body_start: usize,
    /// Oddities by SpamAssassin's names, which `check_msg_parse_flags` asks for.
    flags: Vec<&'static str>,
    /// Some boundary was opened and not closed, or closed twice.
    pub missing_boundary: bool,
}

impl<'m> MimeTree<'m> {
    /// Reads a message. Never fails.
    pub fn read(raw: &'m [u8]) -> Self {
        let mut reader = Reader::default();
        let (header_start, body_start) = reader.message(raw, DEPTH_MAX, true);
        reader.run();
        MimeTree {
            nodes: reader.nodes,
            header_start,
            body_start,
            missing_boundary: reader.boundaries.values().any(|&open| open != 0),
            flags: reader.flags,
        }
    }

    /// Whether an oddity was seen: `missing_head_body_separator`, `truncated_header`,
    /// `missing_mime_head_body_separator`, `missing_mime_headers`, `mimepart_limit_exceeded`,
    /// `mime_epilogue_exists`.
    pub fn has_flag(&self, name: &str) -> bool {
        self.flags.contains(&name)
    }

    /// The message.
    pub fn root(&self) -> &Node<'m> {
        &self.nodes[0]
    }

    /// Indices of all parts in the order of the message, the whole first.
    pub fn in_order(&self) -> Vec<usize> {
        self.below(0)
    }

    /// Indices of a part and all parts inside it, in the order of the message.
    pub fn below(&self, top: usize) -> Vec<usize> {
        let (mut order, mut stack) = (Vec::new(), vec![top]);
        while let Some(index) = stack.pop() {
            order.push(index);
            stack.extend(self.nodes[index].children.iter().rev());
        }
        order
    }
}

/// What a Content-Type says, read as leniently as mail programs do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentType {
    pub(crate) kind: String,
    pub(crate) boundary: Option<Vec<u8>>,
    pub(crate) charset: Option<Vec<u8>>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) is_missing: bool,
}

impl ContentType {
    /// Reads a field's unfolded value.
    pub(crate) fn read(value: Option<Vec<u8>>) -> Self {
        let given = value.filter(|v| !v.is_empty() && v != b"0");
        let mut is_missing = given.is_none();
        let value = given.unwrap_or_else(|| b"text/plain; charset=us-ascii".to_vec());
        let start = value.iter().position(|&b| !is_space(b)).unwrap_or(value.len());
        let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
        let mut kind = kind_only(&value[start.min(end)..end]).to_ascii_lowercase();
        if kind.is_empty() || kind == b"0" {
            is_missing = true;
        }
        let is_text = kind.strip_prefix(b"text").is_some_and(|rest| {
            !rest.first().is_some_and(|&b| is_word(b))
                && !matches!(rest, b"/x-vcard" | b"/calendar" | b"/html")
        });
        if is_text || kind.is_empty() || kind == b"0" {
            kind = b"text/plain".to_vec();
        }
        kind.retain(|&b| matches!(b, 0x21..=0x7e) && !b"\"(),:;<=>?@[\\]".contains(&b));
        ContentType {
            kind: String::from_utf8_lossy(&kind).into_owned(),
            boundary: boundary(&value),
            charset: parameter(&value, &[b"charset"]),
            name: parameter(&value, &[b"filename", b"name"]).filter(|n| !n.is_empty()),
            is_missing,
        }
    }
}

/// `something/something` and no more; a slash may be missing, white space ends the subtype only.
fn kind_only(text: &[u8]) -> &[u8] {
    match memchr::memchr(b'/', text) {
        Some(slash) if slash > 0 => {
            let subtype = text[slash + 1..].iter();
            let length = subtype.take_while(|&&b| b != b'/' && !is_space(b)).count();
            &text[..slash + 1 + length]
        }
        _ => text,
    }
}

/// Places after `name` (on a word boundary) and `=` with white space around it.
fn after_name<'t>(text: &'t [u8], name: &'t [u8]) -> impl Iterator<Item = usize> + 't {
    (0..text.len()).filter_map(move |i| {
        let rest = text[i..].get(..name.len())?;
        let on_boundary = i == 0 || !is_word(text[i - 1]);
        if !on_boundary || !rest.eq_ignore_ascii_case(name) {
            return None;
        }
        let mut at = skip_space(text, i + name.len());
        if text.get(at) != Some(&b'=') {
            return None;
        }
        at = skip_space(text, at + 1);
        Some(at)
    })
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|&b| is_space(b)) {
        at += 1;
    }
    at
}

/// The boundary: quoted (an end quote may be missing), or up to white space or `;`.
fn boundary(text: &[u8]) -> Option<Vec<u8>> {
    after_name(text, b"boundary").find_map(|at| {
        let rest = &text[at..];
        if rest.first() == Some(&b'"') {
            let length = rest[1..].iter().take_while(|&&b| b != b'"').count();
            if length > 0 {
                return Some(rest[1..=length].to_vec());
            }
        }
        let stop = |b: &u8| is_space(*b) || *b == b';' || *b == b'"';
        let length = rest.iter().take_while(|b| !stop(b)).count();
        let ends_well = rest.get(length) != Some(&b'"');
        (length > 0 && ends_well).then(|| rest[..length].to_vec())
    })
}

/// A parameter's value, without one quotation mark at each end; up to `;`.
fn parameter(text: &[u8], names: &[&[u8]]) -> Option<Vec<u8>> {
    let at = names.iter().filter_map(|name| after_name(text, name).next()).min()?;
    let rest = &text[at..];
    let is_quote = |b: Option<&u8>| matches!(b, Some(b'"' | b'\''));
    let rest = if is_quote(rest.first()) { &rest[1..] } else { rest };
    let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
    let value = &rest[..end];
    // A quotation mark before the `;` ends it; so does a line feed at the very end.
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let value = if is_quote(value.last()) { &value[..value.len() - 1] } else { value };
    Some(value.to_vec())
}

/// Folds undone and trimmed: what SpamAssassin stores of a value before it decodes it.
pub(crate) fn unfold(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        if value[at] == b'\n' && matches!(value.get(at + 1), Some(b' ' | b'\t')) {
            out.push(b' ');
            at += 1;
            while matches!(value.get(at), Some(b' ' | b'\t')) {
                at += 1;
            }
        } else {
            out.push(value[at]);
            at += 1;
        }
    }
    trim(&out).to_vec()
}

fn is_text_or_message(kind: &str) -> bool {
    ["text", "message"].iter().any(|prefix| {
        let rest = kind.get(prefix.len()..).filter(|_| kind.starts_with(prefix));
        rest.is_some_and(|r| !r.bytes().next().is_some_and(is_word))
    })
}

fn without_cr(mut text: Vec<u8>) -> Vec<u8> {
    if memchr::memchr(b'\r', &text).is_none() {
        return text;
    }
    let mut kept = 0;
    for i in 0..text.len() {
        if text[i] == b'\r' && text.get(i + 1) == Some(&b'\n') {
            continue;
        }
        text[kept] = text[i];
        kept += 1;
    }
    text.truncate(kept);
    text
}

/// Quoted-printable: white space at line ends goes, small hexadecimal digits count.
pub(crate) fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let hex = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).map(|d| d as u8);
    for line in lines(text) {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let has_feed = body.len() < line.len();
        let has_return = has_feed && body.ends_with(b"\r");
        let mut body = if has_return { &body[..body.len() - 1] } else { body };
        if has_feed {
            while let [rest @ .., b' ' | b'\t'] = body {
                body = rest;
            }
        }
        let is_soft = has_feed && body.ends_with(b"=");
        let body = if is_soft { &body[..body.len() - 1] } else { body };
        let mut at = 0;
        while let Some(equals) = memchr::memchr(b'=', &body[at..]).map(|i| at + i) {
            out.extend_from_slice(&body[at..equals]);
            match (hex(body.get(equals + 1)), hex(body.get(equals + 2))) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at = equals + 3;
                }
                _ => {
                    out.push(b'=');
                    at = equals + 1;
                }
            }
        }
        out.extend_from_slice(&body[at..]);
        if has_feed && !is_soft {
            if has_return {
                out.push(b'\r');
            }
            out.push(b'\n');
        }
    }
    out
}

/// Base64: bytes outside the alphabet go; what is incomplete at the end is kept as far as it goes.
pub(crate) fn base64(text: &[u8]) -> Vec<u8> {
    let tight: Vec<u8> = text.iter().copied().filter(|&b| !is_space(b)).collect();
    let is_clean = tight.len() % 4 == 0 && tight.iter().all(|&b| is_base64(b) || b == b'=');
    let mut digits: Vec<u8> = tight;
    digits.retain(|&b| is_base64(b) || b == b'=');
    let end = digits.iter().rposition(|&b| b != b'=').map_or(0, |last| last + 1);
    digits.truncate(end);
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    // A padding sign inside reads as the first or the last digit, depending on the decoder used.
    let inner = if is_clean { 0 } else { 63 };
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let value = |i: usize| group.get(i).map_or(0, |&b| u32::from(sextet(b, inner)));
        let bits = value(0) << 18 | value(1) << 12 | value(2) << 6 | value(3);
        let bytes = bits.to_be_bytes();
        out.extend_from_slice(&bytes[1..group.len().max(1)]);
    }
    out
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

fn sextet(byte: u8, padding: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => padding,
    }
}

/// A part that waits to be read.
#[derive(Debug)]
struct Waiting<'m> {
    node: usize,
    boundary: Option<Vec<u8>>,
    lines: Vec<Cow<'m, [u8]>>,
    depth_left: u32,
}

#[derive(Debug, Default)]
struct Reader<'m> {
    nodes: Vec<Node<'m>>,
    queue: VecDeque<Waiting<'m>>,
    flags: Vec<&'static str>,
    boundaries: BTreeMap<Vec<u8>, i32>,
}

impl<'m> Reader<'m> {
    fn flag(&mut self, name: &'static str) {
        if !self.flags.contains(&name) {
            self.flags.push(name);
        }
    }

    /// Reads a message's own header and queues its body. Gives where header and body begin.
    fn message(&mut self, raw: &'m [u8], depth_left: u32, is_root: bool) -> (usize, usize) {
        let mut first_lines = lines(raw);
        let mut header_start = 0;
        let mut rest = raw;
        if is_mbox_separator(raw) {
            header_start = first_lines.next().map_or(0, <[u8]>::len);
            rest = &raw[header_start..];
        }
        let first = lines(rest).next().unwrap_or_default();
        let last_start = memchr::memrchr(b'\n', rest.strip_suffix(b"\n").unwrap_or(rest));
        let last = &rest[last_start.map_or(0, |i| i + 1)..];
        let has_cr = first.ends_with(b"\r\n") || last.ends_with(b"\r\n");
        let head = read_head(rest, has_cr);
        if is_root {
            head.flags.iter().for_each(|name| self.flag(name));
        }
        let body_start = header_start + head.length;
        let mut body = body_lines(&raw[body_start..], has_cr);
        let mut node = Node { is_leaf: true, ..Node::default() };
        for (name, value) in head.fields {
            node.add_header(name, value);
        }
        let content = node.content_type();
        node.kind.clone_from(&content.kind);
        let starts_with_boundary = |line: &[u8]| {
            let bare = line.strip_prefix(b"--");
            content.boundary.as_ref().is_some_and(|b| bare.is_some_and(|l| l.starts_with(b)))
        };
        if node.kind.starts_with("multipart/")
            && body.len() > 1
            && !is_blank(&body[0])
            && !starts_with_boundary(&body[0])
        {
            body.insert(0, Cow::Borrowed(b"\n"));
        }
        let index = self.nodes.len();
        self.nodes.push(node);
        self.queue.push_back(Waiting {
            node: index,
            boundary: content.boundary,
            lines: body,
            depth_left,
        });
        (header_start, body_start)
    }

    fn run(&mut self) {
        while let Some(part) = self.queue.pop_front() {
            let is_multipart = self.nodes[part.node].kind.starts_with("multipart/");
            match &part.boundary {
                Some(boundary) if is_multipart && part.depth_left > 0 => {
                    let boundary = boundary.clone();
                    self.multipart(part, &boundary);
                }
                _ => self.leaf(part),
            }
        }
    }

    fn leaf(&mut self, part: Waiting<'m>) {
        let content = self.nodes[part.node].content_type();
        let node = &mut self.nodes[part.node];
        if !content.is_missing {
            let whole = !content.kind.starts_with("multipart/") || part.boundary.is_some();
            node.kind = if whole { content.kind } else { "text/plain".to_owned() };
        }
        node.charset = content.charset;
        node.name = disposition_name(&node.value("content-disposition")).or(content.name);
        node.is_leaf = true;
        node.has_body = true;
        node.lines = part.lines;
        let is_message = matches!(node.kind.as_str(), "message/rfc822" | "message/global");
        if is_message && part.depth_left > 0 && self.nodes.len() < NODES_MAX {
            self.attached(part.node, part.depth_left);
        }
    }

    /// Reads an attached message as a part inside this one.
    fn attached(&mut self, index: usize, depth_left: u32) {
        let text = self.nodes[index].decoded().to_vec();
        if text.is_empty() {
            return;
        }
        let child = self.nodes.len();
        let mut inner = Reader::default();
        inner.message(&text, depth_left - 1, false);
        let (Some(node), Some(waiting)) = (inner.nodes.pop(), inner.queue.pop_back()) else {
            return;
        };
        self.nodes.push(Node {
            kind: node.kind,
            is_leaf: true,
            headers: node.headers.into_iter().map(|(n, v)| (n, owned(v))).collect(),
            ..Node::default()
        });
        self.queue.push_back(Waiting {
            node: child,
            boundary: waiting.boundary,
            lines: waiting.lines.into_iter().map(owned).collect(),
            depth_left: waiting.depth_left,
        });
        let node = &mut self.nodes[index];
        node.children.push(child);
        node.is_leaf = false;
        node.has_body = false;
        node.lines = Vec::new();
        node.decoded = OnceCell::new();
    }

    fn multipart(&mut self, part: Waiting<'m>, boundary: &[u8]) {
        let Waiting { node: parent, mut lines, depth_left, .. } = part;
        self.nodes[parent].is_leaf = false;
        if let Some(open) = lines.iter().position(|l| boundary_end(l, boundary) == Some(false)) {
            self.boundaries.insert(boundary.to_vec(), 1);
            if lines.get(open + 1).is_some_and(|l| !starts_field(l, false)) {
                self.flag("missing_mime_headers");
            }
            lines.drain(..=open);
        }
        let mut child = Child::default();
        let count = lines.len();
        let mut after = count;
        for i in 0..count {
            let line = std::mem::take(&mut lines[i]);
            let mut end = boundary_end(&line, boundary);
            if end.is_some() && child.has_nested_boundary {
                child.has_nested_boundary = end == Some(false);
                end = None;
            }
            if end.is_none() && i + 1 < count {
                if child.take(line, boundary) {
                    self.flag("missing_mime_head_body_separator");
                }
                continue;
            }
            if end.is_none() {
                child.push_line(line);
            } else {
                child.drop_last_feed();
            }
            let done = std::mem::take(&mut child);
            self.add_child(parent, done, boundary, depth_left - 1);
            match end {
                Some(true) => {
                    *self.boundaries.entry(boundary.to_vec()).or_default() -= 1;
                    after = i + 1;
                    break;
                }
                _ if lines.get(i + 1).is_some_and(|l| !starts_field(l, false)) => {
                    self.flag("missing_mime_headers");
                }
                _ => {}
            }
            if self.nodes[parent].children.len() >= CHILDREN_MAX || self.nodes.len() >= NODES_MAX {
                self.flag("mimepart_limit_exceeded");
                return;
            }
        }
        let is_text = |b: &u8| !is_space(*b) && *b != b'.';
        if lines[after.min(count)..].iter().any(|l| l.iter().any(is_text)) {
            self.flag("mime_epilogue_exists");
        }
    }

    fn add_child(&mut self, parent: usize, child: Child<'m>, boundary: &[u8], depth_left: u32) {
        let mut node = child.node;
        let content = node.content_type();
        node.is_leaf = true;
        node.kind = content.kind;
        if content.is_missing && self.nodes[parent].kind == "multipart/digest" {
            node.kind = "message/rfc822".to_owned();
        }
        let own = content.boundary.filter(|b| !b.is_empty() && b != b"0");
        let index = self.nodes.len();
        self.nodes.push(node);
        self.nodes[parent].children.push(index);
        self.queue.push_back(Waiting {
            node: index,
            boundary: Some(own.unwrap_or_else(|| boundary.to_vec())),
            lines: child.lines,
            depth_left,
        });
    }
}

/// A part of a multipart while its lines come in.
#[derive(Debug, Default)]
struct Child<'m> {
    node: Node<'m>,
    lines: Vec<Cow<'m, [u8]>>,
    /// The field being read, with its continuations.
    field: Vec<u8>,
    in_body: bool,
    /// The part is a multipart that uses its parent's boundary again.
    has_nested_boundary: bool,
}

impl<'m> Child<'m> {
    /// Takes a line; whether the body began without a blank line before it.
    fn take(&mut self, line: Cow<'m, [u8]>, boundary: &[u8]) -> bool {
        let mut is_odd = false;
        if !self.in_body {
            if starts_field(&line, true) {
                self.finish_field(None);
                self.field = line.into_owned();
                return false;
            }
            if matches!(line.first(), Some(b' ' | b'\t')) && !self.field.is_empty() {
                self.field.extend_from_slice(&line);
                return false;
            }
            self.finish_field(Some(boundary));
            self.in_body = true;
            if matches!(&*line, b"\n" | b"\r\n" | b"\r" | b"") {
                return false;
            }
            is_odd = true;
        }
        self.push_line(line);
        is_odd
    }

    /// Stores the field that was read; `boundary` is given for the header's last one.
    fn finish_field(&mut self, boundary: Option<&[u8]>) {
        let field = std::mem::take(&mut self.field);
        let Some(colon) = memchr::memchr(b':', &field) else { return };
        let start = skip_space(&field, colon + 1);
        let name = field[..colon].to_vec();
        let is_type = name.eq_ignore_ascii_case(b"content-type");
        self.node.add_header(name, Cow::Owned(field[start..].to_vec()));
        if let (Some(boundary), true) = (boundary, is_type) {
            let nested = self.node.content_type().boundary;
            self.has_nested_boundary |= nested.as_deref() == Some(boundary);
        }
    }

    /// Adds a line of the body, cut if it is too long.
    fn push_line(&mut self, line: Cow<'m, [u8]>) {
        if line.len() <= LINE_BYTES_MAX {
            self.lines.push(line);
            return;
        }
        let mut rest = &line[..];
        while rest.len() > LINE_BYTES_MAX {
            let (head, tail) = rest.split_at(LINE_BYTES_MAX);
            self.lines.push(Cow::Owned([head, b"\n"].concat()));
            rest = tail;
        }
        self.lines.push(Cow::Owned(rest.to_vec()));
    }

    /// The line feed before a boundary belongs to the boundary.
    fn drop_last_feed(&mut self) {
        let Some(last) = self.lines.last_mut() else { return };
        if last.ends_with(b"\n") {
            match last {
                Cow::Borrowed(line) => *line = &line[..line.len() - 1],
                Cow::Owned(line) => line.truncate(line.len() - 1),
            }
        }
        if last.is_empty() {
            self.lines.pop();
        }
    }
}

fn owned<'a>(line: Cow<'_, [u8]>) -> Cow<'a, [u8]> {
    Cow::Owned(line.into_owned())
}

/// The file's name in a Content-Disposition.
fn disposition_name(value: &[u8]) -> Option<Vec<u8>> {
    let found = re!(r#"(?i)name=\s*"?([^";]+)"?"#).captures(value)?;
    Some(found[1].to_vec())
}

/// Whether a line is a boundary: some(true) for the closing one.
fn boundary_end(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    let (rest, closes) = match rest.strip_prefix(b"--") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    rest.iter().all(|&b| is_space(b)).then_some(closes)
}

/// Whether a line starts a header field; obsolete syntax has white space before the colon.
fn starts_field(line: &[u8], may_have_space: bool) -> bool {
    let name = line.iter().take_while(|&&b| matches!(b, 0x21..=0x39 | 0x3b..=0x7e)).count();
    let rest = &line[name..];
    let space = rest.iter().take_while(|&&b| may_have_space && matches!(b, b' ' | b'\t')).count();
    name > 0 && rest.get(space) == Some(&b':')
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|&b| is_space(b))
}

/// An mbox `From ` line, and not a From field in obsolete syntax.
fn is_mbox_separator(raw: &[u8]) -> bool {
    let Some(rest) = raw.strip_prefix(b"From") else { return false };
    let space = rest.iter().take_while(|&&b| is_space(b)).count();
    // With more than one space, the last may stand before the colon and the rest still match.
    space > 1 || (space == 1 && rest.get(1) != Some(&b':'))
}

/// A message's own header.
#[derive(Debug, Default)]
struct Head<'m> {
    fields: Vec<(Vec<u8>, Cow<'m, [u8]>)>,
    /// Bytes up to the body.
    length: usize,
    flags: Vec<&'static str>,
}

fn read_head(raw: &[u8], has_cr: bool) -> Head<'_> {
    let mut head = Head::default();
    let mut bad_lines = 0;
    // The field being read: where it starts.
    let mut field: Option<usize> = None;
    let mut at = 0;
    loop {
        let next = lines(&raw[at..]).next();
        let Some(line) = next else {
            head.finish_field(raw, field, at, has_cr);
            head.flags.push("missing_head_body_separator");
            break;
        };
        if matches!(line.first(), Some(b' ' | b'\t')) {
            field = field.or(Some(at));
            at += line.len();
            continue;
        }
        head.finish_field(raw, field, at, has_cr);
        field = Some(at);
        if line == b"\n" || (has_cr && line == b"\r\n") {
            at += line.len();
            break;
        }
        let is_bad = !starts_field(line, true);
        bad_lines += usize::from(is_bad);
        if line.starts_with(b"--") || (is_bad && bad_lines > BAD_HEADER_LINES_MAX) {
            head.flags.push("missing_head_body_separator");
            break;
        }
        at += line.len();
    }
    head.length = at;
    head
}

impl<'m> Head<'m> {
    /// Stores the field that stands in `start..end`, unless it is none.
    fn finish_field(&mut self, raw: &'m [u8], start: Option<usize>, end: usize, has_cr: bool) {
        let Some(field) = start.map(|start| &raw[start..end]) else { return };
        let Some(colon) = memchr::memchr(b':', field) else { return };
        let name = &field[..colon];
        let space = name.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut name = &name[..name.len() - space];
        let mut value: Cow<'m, [u8]> = Cow::Borrowed(&field[colon + 1..]);
        if has_cr {
            value = Cow::Owned(without_cr(value.into_owned()));
        }
        if name.len() > NAME_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            self.flags.push("truncated_header");
            name = &name[..name.len().min(NAME_BYTES_MAX)];
            match &mut value {
                Cow::Borrowed(v) => *v = &v[..v.len().min(VALUE_BYTES_MAX)],
                Cow::Owned(v) => v.truncate(VALUE_BYTES_MAX),
            }
        }
        self.fields.push((name.to_vec(), value));
    }
}

/// The body's lines, with plain line feeds and long runs of blank lines cut.
fn body_lines(body: &[u8], has_cr: bool) -> Vec<Cow<'_, [u8]>> {
    let mut out: Vec<Cow<'_, [u8]>> = Vec::with_capacity(body.len() / 48);
    let mut blank = 0;
    for line in lines(body) {
        blank = if is_blank(line) { blank + 1 } else { 0 };
        // The first line of a message is never cut from a run.
        if blank > BLANK_LINES_MAX + usize::from(out.len() + 1 == blank) {
            continue;
        }
        match line.strip_suffix(b"\r\n") {
            Some(text) if has_cr => out.push(Cow::Owned([text, b"\n"].concat())),
            _ => out.push(Cow::Borrowed(line)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(raw: &[u8]) -> Vec<String> {
        let tree = MimeTree::read(raw);
        tree.in_order().into_iter().map(|i| tree.nodes[i].kind.clone()).collect()
    }

    #[test]
    fn a_tree_in_order() {
        let raw = b"Content-Type: multipart/mixed; boundary=a\n\npre\n--a\n\
            Content-Type: multipart/alternative; boundary=\"b\"\n\n--b\n\nplain\n--b\n\
            Content-type: TEXT/HTML\n\n<p>\n--b--\n--a\nContent-Type: message/rfc822\n\n\
            Subject: in\n\nx\n--a--\n";
        assert_eq!(
            kinds(raw),
            [
                "multipart/mixed",
                "multipart/alternative",
                "text/plain",
                "text/html",
                "message/rfc822",
                "text/plain"
            ]
        );
        let tree = MimeTree::read(raw);
        assert!(!tree.missing_boundary && !tree.has_flag("mime_epilogue_exists"));
        let html = tree.nodes.iter().find(|n| n.kind == "text/html").unwrap();
        assert_eq!(html.decoded(), b"<p>");
        assert!(tree.nodes.iter().any(|n| n.value("subject") == b"in"));
    }

    #[test]
    fn oddities_are_flagged() {
        let tree = MimeTree::read(b"A: b\nno colon here");
        assert!(tree.has_flag("missing_head_body_separator"));
        let tree = MimeTree::read(
            b"Content-Type: multipart/mixed; boundary=a\n\n--a\nhello\n--a--\nepilogue\n",
        );
        assert!(tree.has_flag("missing_mime_headers"));
        assert!(tree.has_flag("missing_mime_head_body_separator"));
        assert!(tree.has_flag("mime_epilogue_exists"));
        let open = MimeTree::read(b"Content-Type: multipart/mixed; boundary=a\n\n--a\n\nhello\n");
        assert!(open.missing_boundary);
        let long = [b"A: ".as_slice(), &[b'x'; 9000], b"\n\n"].concat();
        assert!(MimeTree::read(&long).has_flag("truncated_header"));
    }

    #[test]
    fn content_types() {
        let read = |text: &str| ContentType::read(Some(text.as_bytes().to_vec()));
        assert_eq!(read("text/plain charset=us-ascii").kind, "text/plain");
        assert_eq!(read("TEXT/Enriched; charset='x'").charset.as_deref(), Some(&b"x"[..]));
        assert_eq!(read("text/enriched").kind, "text/plain");
        assert_eq!(read("text/calendar").kind, "text/calendar");
        assert_eq!(read("multipart/mixed; boundary = \"a b").boundary.unwrap(), b"a b");
        assert_eq!(read("image/png; filename=\"x.png\"; a=b").name.unwrap(), b"x.png");
        assert!(ContentType::read(None).is_missing && read("").is_missing);
    }

    #[test]
    fn transfer_encodings() {
        assert_eq!(quoted_printable(b"a=3d=\nb \t\nc=zz =4"), b"a=b\nc=zz =4");
        assert_eq!(base64(b"Zm9v\nYmFy"), b"foobar");
        assert_eq!(base64(b"Zm9vYg=="), b"foob");
        assert_eq!(base64(b"Zm9vYg"), b"foob");
        assert_eq!(base64(b"Zm9vY"), b"foo");
        assert_eq!(base64(b"Zm!9v"), b"foo");
        assert_eq!(base64(b""), b"");
    }

    #[test]
    fn line_ends_become_line_feeds() {
        let tree = MimeTree::read(b"From x\r\nA: b\r\n c\r\n\r\nhello\r\n");
        assert_eq!(tree.root().value("a"), b"b c");
        assert_eq!(tree.root().decoded(), b"hello\n");
        assert_eq!(MimeTree::read(b"").root().kind, "text/plain");
    }

    #[test]
    fn long_runs_of_blank_lines_are_cut() {
        let raw = [b"A: b\n\nx\n".as_slice(), &[b'\n'; 50], b"y\n"].concat();
        assert_eq!(MimeTree::read(&raw).root().lines.len(), 22);
    }
}
