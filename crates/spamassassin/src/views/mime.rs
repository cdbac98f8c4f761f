//! The message as SpamAssassin parses it: header block, then a tree of parts found by lines.
//! `gauntlet_mail` parses the message for everything else; the results of rules depend on this
//! tree.
//!
//! It differs for invalid mail: a part without headers, a boundary that is not closed or that is
//! its parent's, lines over 2,048 bytes (which are cut), runs of blank lines (shortened to 20),
//! attached messages (which are decoded, then parsed as messages of their own), text types (which
//! are all `text/plain` except HTML, calendars and cards).

mod body;
mod head;
mod multipart;
mod node;
mod read;

use std::borrow::Cow;
use std::collections::VecDeque;

use self::head::parse_head;
use self::node::Piece;
use self::read::MessageHead;
use super::perl;

pub use self::node::{Field, Node};

/// Longest line of a part's body; longer ones are cut.
const LINE_MAX: usize = 2048;
/// Most bytes of a field's name and of its value.
const NAME_MAX: usize = 256;
const VALUE_MAX: usize = 8192;
/// Most fields of one part; SpamAssassin has no such limit. Every rule on a header goes through
/// them, and a header of a million fields cost three seconds.
pub(super) const FIELDS_MAX: usize = 2_000;
/// Most nodes of the tree; SpamAssassin has no such limit.
const NODES_MAX: usize = 20_000;
/// Levels of parts below the message, as SpamAssassin has them.
const DEPTH_MAX: u32 = 20;
/// Most adjacent blank lines.
const BLANK_LINES_MAX: usize = 20;

/// Anomalies of the structure, by SpamAssassin's names (`eval:check_msg_parse_flags`).
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

/// A message's parts as SpamAssassin sees them, which differs from RFC 2045 in places.
#[derive(Debug)]
pub struct MimeTree<'m> {
    /// All parts; `[0]` is the message.
    pub nodes: Vec<Node<'m>>,
    /// What was malformed, as `check_msg_parse_flags` reports it.
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

impl<'m> MimeTree<'m> {
    /// Parses a message. Never fails.
    pub fn parse(raw: &'m [u8]) -> Self {
        let text = if raw.is_empty() { b"\n" } else { raw };
        let head = parse_head(text);
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
        // Results of another filter are no part of the message; `full` and `ALL:raw` still show
        // them.
        let fields = head.fields.into_iter();
        let fields = fields.filter(|(name, _)| !perl::starts_no_case(name, b"x-spam-"));
        let head = MessageHead {
            fields: fields.map(|(name, range)| (Cow::Borrowed(name), range)).collect(),
            values: Piece::of(head.values),
            body: Cow::Borrowed(head.body),
            crlf: head.crlf,
        };
        let part = tree.add_message(head, DEPTH_MAX);
        let mut queue = VecDeque::from([part]);
        while let Some(part) = queue.pop_front() {
            tree.parse_part(part, &mut queue);
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

    /// The message itself, the root of the tree.
    pub fn root(&self) -> &Node<'m> {
        &self.nodes[0]
    }

    /// Whether an anomaly was found, by its name in [`ParseFlags`].
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

    /// The raw header block, with the empty line at its end.
    pub fn pristine_header(&self) -> &[u8] {
        &self.header
    }

    /// All bytes behind the header, not decoded.
    pub fn pristine_body(&self) -> &'m [u8] {
        &self.raw[self.body_start..]
    }

    /// The raw message without an mbox line.
    pub fn full(&self) -> &[u8] {
        &self.full
    }
}

#[cfg(test)]
mod tests {
    use super::body::{cut_lines, tidy_body};
    use super::head::mbox_line;
    use super::*;

    fn kinds(raw: &[u8]) -> Vec<String> {
        let tree = MimeTree::parse(raw);
        tree.in_order().into_iter().map(|i| tree.nodes[i].kind.clone()).collect()
    }

    #[test]
    fn a_tree_with_an_attached_message() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\npre\n--x\n\nhello\n--x\n\
            Content-Type: message/rfc822\n\nSubject: inner\n\nbody\n--x--\n";
        assert_eq!(kinds(raw), ["multipart/mixed", "text/plain", "message/rfc822", "text/plain"]);
        let tree = MimeTree::parse(raw);
        let texts: Vec<_> = tree.leaves().map(|l| l.decoded().to_vec()).collect();
        assert_eq!(texts, [&b"hello"[..], b"body"]);
    }

    #[test]
    fn crlf_and_lf_read_alike() {
        let lf = b"A: 1\n 2\nB : x\n\ntext \n\nmore\n".to_vec();
        let crlf: Vec<u8> =
            lf.iter().flat_map(|&b| if b == b'\n' { vec![13, 10] } else { vec![b] }).collect();
        for raw in [&lf, &crlf] {
            let tree = MimeTree::parse(raw);
            assert_eq!(tree.root().value("a"), b"1 2");
            assert_eq!(tree.root().value("b"), b"x");
            assert_eq!(tree.root().decoded(), b"text \n\nmore\n");
            assert_eq!(tree.full(), &**raw);
        }
    }

    #[test]
    fn an_mbox_line_and_a_missing_separator() {
        let tree = MimeTree::parse(b"From a@b Thu\nSubject: x\n--b\nbody");
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
            let tree = MimeTree::parse(raw);
            assert_eq!(tree.in_order().len(), 1);
        }
    }
}
