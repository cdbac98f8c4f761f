//! The texts of `body` and `rawbody` rules: all text parts, decoded and (for `body`) rendered, cut
//! into pieces that one match cannot leave.

use std::borrow::Cow;

use super::charset;
use super::html::HtmlState;
use super::mime::{MimeTree, Node};
use super::perl::{self, Text, is_space_char};

/// Bytes of a line of the `body` view; longer ones are cut, at a space if there is one.
const LINE_BYTES_MAX: usize = 2048;
/// How far beyond a part's limit a good place to cut is looked for.
const CUT_SEARCH: usize = 1024;

/// A text part as it is rendered.
#[derive(Debug)]
pub struct Rendered {
    /// For HTML: everything noted on the way.
    pub html: Option<HtmlState>,
    plain: Text,
}

impl Rendered {
    /// The rendered text.
    pub fn text(&self) -> &Text {
        self.html.as_ref().map_or(&self.plain, HtmlState::rendered)
    }
}

/// The type that a part is shown as: HTML if its name says so.
pub(crate) fn effective_kind<'n>(node: &'n Node<'_>) -> &'n str {
    let html = node.name.as_deref().is_some_and(super::content_type::is_html_name);
    if html { "text/html" } else { &node.kind }
}

/// Renders a part; none if it is not one that is shown as text.
pub(crate) fn render(node: &Node<'_>) -> Option<Rendered> {
    let kind = effective_kind(node);
    if !node.is_leaf || !node.has_body() || !matches!(kind, "text/plain" | "text/html") {
        return None;
    }
    let bytes = node.decoded();
    let charset = node.charset.as_deref().unwrap_or(b"us-ascii");
    let text = charset::normalize(bytes, charset);
    if kind == "text/html" && !bytes.is_empty() {
        let html = Some(HtmlState::read(&text, bytes.len()));
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
    let mut chars = String::new();
    let mut wide = false;
    for part in rendered {
        if !chars.is_empty() {
            chars.push('\n');
        }
        if let Some(part) = part {
            let text = part.text();
            wide |= text.wide;
            chars.push_str(cut_chars(&text.chars, chars_max));
        }
    }
    let subject = tree.root().fields.iter().rev().find(|f| f.is("subject"));
    let mut text = subject.map_or_else(Vec::new, |f| f.value().to_vec());
    text.push(b'\n');
    text.extend_from_slice(&perl::to_bytes(&squeeze(&chars, wide), wide));
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

/// A paragraph break (white space with two line ends or more) becomes one line end, any other white
/// space one space. A NUL is a line end too.
fn squeeze(text: &str, wide: bool) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < bytes.len() {
        // Plain stretches are copied whole, with the single spaces between their words.
        let start = i;
        i += plain_blocks(&bytes[i..]);
        let is_plain = |i: usize| bytes.get(i).is_some_and(|b| *b > b' ' && *b < 0x80);
        while is_plain(i) || (bytes.get(i) == Some(&b' ') && is_plain(i + 1)) {
            i += 1;
        }
        out.push_str(&text[start..i]);
        if i >= bytes.len() {
            break;
        }
        let Some(c) = text[i..].chars().next() else { break };
        if !is_space_char(c, wide) {
            out.push(if c == '\0' { '\n' } else { c });
            i += c.len_utf8();
            continue;
        }
        let run = &text[i..];
        let run = &run[..run.find(|c| !is_space_char(c, wide)).unwrap_or(run.len())];
        match (run.find('\n'), run.rfind('\n')) {
            (Some(first), Some(last)) if first < last => {
                if first > 0 {
                    out.push(' ');
                }
                out.push('\n');
                if last + 1 < run.len() {
                    out.push(' ');
                }
            }
            _ => out.push(' '),
        }
        i += run.len();
    }
    Cow::Owned(out)
}

/// Bytes that are looked at together whether they are plain.
const BLOCK_BYTES: usize = 32;

/// How many bytes that stand first are plain ones of ASCII, with single spaces between; in whole blocks.
fn plain_blocks(bytes: &[u8]) -> usize {
    let blocks = bytes.as_chunks::<BLOCK_BYTES>().0;
    let nexts = bytes.get(1..).unwrap_or_default().as_chunks::<BLOCK_BYTES>().0;
    let is_plain = |(block, next): &(&[u8; BLOCK_BYTES], &[u8; BLOCK_BYTES])| {
        // Without a way out within, so that vector instructions come of it.
        !block.iter().zip(*next).fold(false, |other, (byte, next)| {
            let is_shown = |byte: u8| byte.wrapping_sub(b'!') < 0x80 - b'!';
            other | !(is_shown(*byte) | (*byte == b' ') & is_shown(*next))
        })
    };
    BLOCK_BYTES * blocks.iter().zip(nexts).take_while(is_plain).count()
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
        assert_eq!(squeeze("a  b\n c \n \n d\0e", false), "a b c \n d\ne");
        assert_eq!(squeeze("a\u{a0}b", true), "a b");
        assert_eq!(squeeze("a\u{a0}b", false), "a\u{a0}b");
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
