//! Finding the parts of a multipart by its boundary lines.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::body::{cut_lines, has_long_line};
use super::head::begins_with_field;
use super::node::{Field, Node, Piece};
use super::{MimeTree, NODES_MAX, ParseFlags};
use crate::views::perl::is_space;
use crate::views::{content_type, header_text, perl};

/// Parts of one multipart.
const PARTS_MAX: usize = 1000;

/// A part that is still to be parsed.
pub(super) struct PendingPart<'m> {
    pub(super) node: usize,
    pub(super) boundary: Option<Vec<u8>>,
    pub(super) body: Piece<'m>,
    pub(super) depth_left: u32,
}

impl<'m> MimeTree<'m> {
    /// Finds the parts of a multipart by its boundary lines.
    pub(super) fn parse_multipart(
        &mut self,
        job: &PendingPart<'m>,
        boundary: &[u8],
        queue: &mut VecDeque<PendingPart<'m>>,
    ) {
        self.nodes[job.node].is_leaf = false;
        let source: &[u8] = &job.body;
        let lacks_field = |at: usize| at < source.len() && !begins_with_field(&source[at..], false);
        let mut at = 0;
        if let Some(opening) = find_opening(source, boundary) {
            *self.boundary_state(boundary) = 1;
            at = opening;
            self.flags.missing_mime_headers |= lacks_field(at);
        }
        let mut part = PartBuilder::default();
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
        part: PartBuilder,
        at_boundary: bool,
        job: &PendingPart<'m>,
        boundary: &[u8],
        queue: &mut VecDeque<PendingPart<'m>>,
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
            node.fields.push(Field::new(job.body.range(name), job.body.slice(range)));
        }
        node.parse_content_type();
        let found = &node.content_type;
        let own = found.boundary.clone().filter(|b| !b.is_empty() && b != b"0");
        if found.missing && self.nodes[job.node].kind == "multipart/digest" {
            node.kind = "message/rfc822".to_owned();
        }
        let index = self.nodes.len();
        self.nodes.push(node);
        self.nodes[job.node].children.push(index);
        queue.push_back(PendingPart {
            node: index,
            boundary: Some(own.unwrap_or_else(|| boundary.to_vec())),
            body,
            depth_left: job.depth_left - 1,
        });
    }
}

/// Skips the lines of a multipart that cannot be boundaries.
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

    /// Where the first line begins, from the line at `at` on, that may be a boundary or is the last
    /// one.
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

/// The position after the first opening boundary.
fn find_opening(text: &[u8], boundary: &[u8]) -> Option<usize> {
    let mut at = 0;
    perl::lines(text).find_map(|line| {
        at += line.len();
        (boundary_line(line, boundary) == Some(false)).then_some(at)
    })
}

/// A part while its lines are parsed.
#[derive(Default)]
struct PartBuilder {
    /// Ranges of the name and the value of each field.
    fields: Vec<(Range<usize>, Range<usize>)>,
    /// The field that may have continuation lines.
    open: Option<(Range<usize>, Range<usize>)>,
    in_body: bool,
    body: Option<Range<usize>>,
    long_lines: bool,
}

impl PartBuilder {
    /// One or more whole lines of the body.
    fn body_lines(&mut self, at: usize, lines: &[u8]) {
        self.long_lines |= has_long_line(lines);
        self.body = Some(self.body.as_ref().map_or(at, |b| b.start)..at + lines.len());
    }

    /// Adds one line of `source`. Returns true if it ends the part's header and the last field is a
    /// Content-Type.
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

/// Whether the last Content-Type names the boundary of the enclosing multipart.
fn names_boundary(source: &[u8], part: &PartBuilder, boundary: &[u8]) -> bool {
    let Some((name, range)) = part.fields.last() else { return false };
    let value = header_text::value(&source[range.clone()], &source[name.clone()]);
    content_type::parse(Some(&value)).boundary.as_deref() == Some(boundary)
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
