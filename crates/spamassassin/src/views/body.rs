//! The texts of `body` and `rawbody` rules: all text parts, decoded and (for `body`) rendered, cut
//! into pieces; no match spans two of them.

use std::borrow::Cow;

use super::charset;
use super::html::HtmlState;
use super::mime::{MimeTree, Node};
use super::perl::{self, Text, is_space_char, plain_blocks};

/// Bytes of a line of the `body` view; longer ones are cut, at a space if there is one.
const LINE_BYTES_MAX: usize = 2048;
/// How far beyond a part's limit a line end or space is searched to cut at.
const CUT_SEARCH: usize = 1024;

/// A rendered text part.
#[derive(Debug)]
pub struct Rendered {
    /// For HTML: everything recorded while rendering.
    pub html: Option<HtmlState>,
    plain: Text,
}

impl Rendered {
    /// The text as `body` rules read it, before paragraphs are joined.
    pub fn text(&self) -> &Text {
        self.html.as_ref().map_or(&self.plain, HtmlState::rendered)
    }
}

/// The type that a part is rendered as: HTML if its name says so.
pub(crate) fn effective_kind<'n>(node: &'n Node<'_>) -> &'n str {
    let html = node.name.as_deref().is_some_and(super::content_type::is_html_name);
    if html { "text/html" } else { &node.kind }
}

/// Renders a part; `None` if it is not shown as text.
pub(crate) fn render(node: &Node<'_>) -> Option<Rendered> {
    let kind = effective_kind(node);
    if !node.is_leaf || !node.has_body() || !matches!(kind, "text/plain" | "text/html") {
        return None;
    }
    let bytes = node.decoded();
    let charset = node.charset.as_deref().unwrap_or(b"us-ascii");
    let text = charset::normalize(bytes, charset);
    if kind == "text/html" && !bytes.is_empty() {
        let html = Some(HtmlState::parse(&text, bytes.len()));
        return Some(Rendered { html, plain: Text::default() });
    }
    Some(Rendered { html: None, plain: text })
}

/// The strings of the `body` view: the subject's lines, then all parts' text, white space squeezed.
/// `rendered` are the parts in order; `chars_max` bounds each (0: no bound).
pub(crate) fn body<'r>(
    tree: &MimeTree<'_>,
    rendered: impl Iterator<Item = Option<&'r Rendered>>,
    chars_max: usize,
) -> Vec<Vec<u8>> {
    if tree.leaves().next().is_none() {
        return Vec::new();
    }
    let mut chars = Cow::Borrowed("");
    let mut wide = false;
    for part in rendered {
        if !chars.is_empty() {
            chars.to_mut().push('\n');
        }
        if let Some(part) = part {
            let text = part.text();
            wide |= text.wide;
            chars += cut_chars(&text.chars, chars_max);
        }
    }
    let subject = tree.root().fields.iter().rev().find(|f| f.is("subject"));
    let mut text = subject.map_or_else(Vec::new, |f| f.value().to_vec());
    text.push(b'\n');
    if wide || chars.is_ascii() {
        collapse_space(&chars, wide, &mut text);
    } else {
        let mut squeezed = Vec::new();
        collapse_space(&chars, wide, &mut squeezed);
        let squeezed = String::from_utf8(squeezed).unwrap_or_default();
        text.extend_from_slice(&perl::to_bytes(&squeezed, wide));
    }
    short_lines(&text)
}

/// Cuts a text of more than `max` characters near there: after a line end, else a space.
fn cut_chars(text: &str, max: usize) -> &str {
    if max == 0 || text.len() <= max {
        return text;
    }
    let Some((from, _)) = text.char_indices().nth(max) else { return text };
    let end = text[from..].char_indices().nth(CUT_SEARCH + 1).map_or(text.len(), |(i, _)| from + i);
    let near = &text[from..end];
    let cut = near.find('\n').or_else(|| near.find(' ')).map_or(from, |i| from + i + 1);
    &text[..cut]
}

/// Appends the text as UTF-8: a paragraph break (white space with two line ends or more) becomes
/// one line end, any other white space one space. A NUL is a line end too.
fn collapse_space(text: &str, wide: bool, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        // Plain stretches are copied whole, with the single spaces between their words.
        let start = i;
        i += plain_blocks(&bytes[i..]);
        let is_plain = |i: usize| bytes.get(i).is_some_and(|b| *b > b' ' && *b < 0x80);
        while is_plain(i) || (bytes.get(i) == Some(&b' ') && is_plain(i + 1)) {
            i += 1;
        }
        out.extend_from_slice(&bytes[start..i]);
        // Bytes that are not plain: other characters, and white space.
        while let Some(&byte) = bytes.get(i).filter(|byte| !is_plain_byte(**byte)) {
            let run = space_run(text, i, wide);
            if run.end > i {
                push_space(&bytes[i..run.end], run.line_ends, out);
                i = run.end;
                continue;
            }
            let length = if byte < 0x80 { 1 } else { char_len(text, i) };
            match byte {
                0 => out.push(b'\n'),
                _ => out.extend_from_slice(&bytes[i..i + length]),
            }
            i += length;
        }
    }
}

/// Whether this byte is copied unchanged.
fn is_plain_byte(byte: u8) -> bool {
    byte > b' ' && byte < 0x80
}

/// Bytes of the character at `i`.
fn char_len(text: &str, i: usize) -> usize {
    text[i..].chars().next().map_or(1, char::len_utf8)
}

/// A run of white space, and how many line ends it has.
struct Run {
    end: usize,
    line_ends: usize,
}

/// The white space at `start`, if there is any.
fn space_run(text: &str, start: usize, wide: bool) -> Run {
    let bytes = text.as_bytes();
    let mut run = Run { end: start, line_ends: 0 };
    while let Some(&byte) = bytes.get(run.end) {
        if byte < 0x80 {
            if !perl::is_space(byte) {
                break;
            }
            run.line_ends += usize::from(byte == b'\n');
            run.end += 1;
            continue;
        }
        let next = text[run.end..].chars().next().filter(|c| is_space_char(*c, wide));
        let Some(space) = next else { break };
        run.end += space.len_utf8();
    }
    run
}

/// The replacement of white space.
fn push_space(run: &[u8], line_ends: usize, out: &mut Vec<u8>) {
    if line_ends < 2 {
        out.push(b' ');
        return;
    }
    if run.first() != Some(&b'\n') {
        out.push(b' ');
    }
    out.push(b'\n');
    if run.last() != Some(&b'\n') {
        out.push(b' ');
    }
}

/// Lines of at most [`LINE_BYTES_MAX`] bytes, each with its line end.
fn short_lines(text: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for line in perl::lines(text) {
        let mut rest = line;
        while rest.len() > LINE_BYTES_MAX {
            let space = memchr::memrchr(b' ', &rest[..=LINE_BYTES_MAX]);
            let (head, tail) = rest.split_at(space.map_or(LINE_BYTES_MAX, |i| i + 1));
            out.push(head.to_vec());
            rest = tail;
        }
        out.push(rest.to_vec());
    }
    out
}

/// The strings of the `rawbody` view: text and message parts with their transfer encoding undone;
/// `bytes_max` bounds each part (0: no bound).
pub(crate) fn rawbody(tree: &MimeTree<'_>, bytes_max: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for part in tree.leaves() {
        let kind = effective_kind(part);
        let family = |name: &str| {
            let rest = kind.strip_prefix(name);
            rest.is_some_and(|r| !r.bytes().next().is_some_and(perl::is_word))
        };
        if !(family("text") || family("message")) || part.kind == "text/calendar" {
            continue;
        }
        short_paragraphs(cut_bytes(part.decoded(), bytes_max), &mut out);
    }
    out
}

/// Cuts near the limit: after a line end, else a `>`, else a space.
fn cut_bytes(text: &[u8], max: usize) -> &[u8] {
    if max == 0 || text.len() <= max {
        return text;
    }
    let near = &text[max..text.len().min(max + CUT_SEARCH + 1)];
    let cut = [b'\n', b'>', b' '].iter().find_map(|&stop| memchr::memchr(stop, near));
    &text[..cut.map_or(max, |i| max + i + 1)]
}

/// Pieces of 2 to 4 KiB, cut after a line end, else a `>`, else a space.
fn short_paragraphs(text: &[u8], out: &mut Vec<Vec<u8>>) {
    let mut rest = text;
    if rest.len() > LINE_BYTES_MAX {
        while rest.len() > 2 * LINE_BYTES_MAX {
            let near = &rest[LINE_BYTES_MAX..2 * LINE_BYTES_MAX];
            let cut = [b'\n', b'>', b' '].iter().find_map(|&stop| memchr::memchr(stop, near));
            let (head, tail) = rest.split_at(LINE_BYTES_MAX + cut.unwrap_or(0) + 1);
            out.push(head.to_vec());
            rest = tail;
        }
        if rest.is_empty() {
            return;
        }
    }
    out.push(rest.to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space() {
        let squeezed = |text: &str, wide: bool| {
            let mut out = Vec::new();
            collapse_space(text, wide, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(squeezed("a  b\n c \n \n d\0e", false), "a b c \n d\ne");
        assert_eq!(squeezed("a\u{a0}b", true), "a b");
        assert_eq!(squeezed("a\u{a0}b", false), "a\u{a0}b");
        assert_eq!(squeezed("\n\n é\u{2003}\né\n\n", true), "\n é é\n");
        assert_eq!(squeezed(" \u{a0}\n\u{a0}\n\u{a0}\0 ", true), " \n \n ");
        assert_eq!(squeezed("\u{a0}\n\n\u{7f} \t", false), "\u{a0}\n\u{7f} ");
    }

    #[test]
    fn pieces() {
        let lines = short_lines(&[&[b'x'; 2000][..], b" ", &[b'y'; 2000], b"\nz"].concat());
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [2001, 2001, 1]);
        let mut pieces = Vec::new();
        short_paragraphs(&[b'x'; 5000], &mut pieces);
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [2049, 2951]);
        short_paragraphs(b"", &mut pieces);
        assert_eq!(pieces.len(), 3, "an empty part is an empty string");
        assert_eq!(cut_chars("abc def", 4), "abc ");
    }
}
