//! MIME structure: kinds of parts, their encodings, and violations of the standards.

use std::borrow::Cow;

use super::args::Args;
use super::context::EvalContext;
use super::locale;
use super::memo::MimeFacts;
use super::text::{count, is_space, re, trim, trim_end};
use crate::views::{MimeTree, Node, find, find_no_case};

/// Longest line that quoted-printable text should have, with its line feed (RFC 5322).
const QP_LINE_BYTES_MAX: usize = 79;

fn facts<'a>(cx: &'a EvalContext<'_>) -> &'a MimeFacts {
    cx.memo.mime.get_or_init(|| Gather::default().run(cx.tree(), cx.tables.locales()))
}

/// `check_for_mime(fact)`.
pub(super) fn has_fact(cx: &EvalContext<'_>, args: &Args) -> bool {
    let facts = facts(cx);
    match args.word(0).unwrap_or_default() {
        "mime_base64_count" => facts.base64_count > 0,
        "mime_base64_encoded_text" => facts.base64_text,
        "mime_body_html_count" => facts.html_count > 0,
        "mime_body_text_count" => facts.text_count > 0,
        "mime_attachment" => facts.attachments > 0,
        "mime_bad_iso_charset" => facts.bad_iso_charset,
        "mime_faraway_charset" => facts.faraway_charset,
        "mime_missing_boundary" => facts.missing_boundary,
        "mime_multipart_alternative" => facts.has_alternative,
        "mime_multipart_ratio" => facts.multipart_ratio != 0.0,
        "mime_qp_count" => facts.qp_count > 0,
        "mime_qp_long_line" => facts.qp_long_line,
        "mime_qp_ratio" => facts.qp_bytes > 0 && facts.qp_count > 0,
        "mime_ascii_text_illegal" => facts.ascii_illegal > 0,
        "mime_text_unicode_ratio" => facts.unicode_ratio > 0.0,
        _ => false,
    }
}

/// `check_for_mime_html()`: the message is HTML, or has an HTML part.
pub(super) fn has_html(cx: &EvalContext<'_>, _: &Args) -> bool {
    is_html_message(cx) || facts(cx).html_count > 0
}

/// `check_for_mime_html_only()`: HTML without plain text.
pub(super) fn html_only(cx: &EvalContext<'_>, _: &Args) -> bool {
    is_html_message(cx) || (facts(cx).html_count > 0 && facts(cx).text_count == 0)
}

fn is_html_message(cx: &EvalContext<'_>) -> bool {
    cx.text("Content-Type").get(..9).is_some_and(|t| t.eq_ignore_ascii_case(b"text/html"))
}

/// `check_mime_multipart_ratio(min, max)`: plain text per HTML in bytes.
pub(super) fn multipart_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let ratio = facts(cx).multipart_ratio;
    ratio >= args.number(0) && ratio < args.number(1)
}

/// `check_qp_ratio(min)`: needlessly encoded bytes per byte of quoted-printable.
pub(super) fn qp_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let facts = facts(cx);
    let ratio =
        if facts.qp_bytes > 0 { facts.qp_count as f64 / facts.qp_bytes as f64 } else { 0.0 };
    ratio >= args.number(0)
}

/// `check_for_ascii_text_illegal()`: text declared as ASCII that is not.
pub(super) fn ascii_illegal(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).ascii_illegal > 0
}

/// `check_abundant_unicode_ratio(min)`: entities where no HTML is.
pub(super) fn unicode_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let is_ratio = re!(r"\A\d{0,3}\.\d{1,3}\n?\z");
    let given = args.word(0).unwrap_or_default();
    facts(cx).unicode_ratio >= args.number(0) && is_ratio.is_match(given.as_bytes())
}

/// `check_msg_parse_flags(flag)`: an anomaly found while parsing the message.
pub(super) fn parse_flag(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|flag| cx.tree().has_flag(flag))
}

/// `check_for_faraway_charset()`: declared in a charset of no wanted locale, and mostly 8-bit.
pub(super) fn faraway_charset(cx: &EvalContext<'_>, _: &Args) -> bool {
    let Some(locales) = cx.tables.locales() else { return false };
    let kind = cx.text("Content-Type");
    let Some(charset) = declared_charset(&kind) else { return false };
    if locale::charset_is_ok(charset, locales) {
        return false;
    }
    let body = cx.views.body();
    let high: usize = body.iter().map(|t| t.iter().filter(|b| !b.is_ascii()).count()).sum();
    let all: usize = body.iter().map(Vec::len).sum::<usize>() + body.len().saturating_sub(1);
    all - high <= high && high > 3
}

/// The charset in a Content-Type: in double quotes, in single ones, or up to white space.
fn declared_charset(kind: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset=";
    let mut values = Vec::new();
    let mut from = 0;
    while let Some(at) = find_no_case(&kind[from..], NAME) {
        from += at + NAME.len();
        values.push(&kind[from..]);
    }
    let quoted = |quote: u8| {
        values.iter().find_map(|value| {
            let inner = value.strip_prefix(&[quote])?;
            let end = memchr::memchr(quote, inner).filter(|end| *end > 0)?;
            Some(&inner[..end])
        })
    };
    let bare = |value: &&'_ [u8]| value.iter().position(|b| is_space(*b)).unwrap_or(value.len());
    quoted(b'"').or_else(|| quoted(b'\'')).or_else(|| {
        let value = values.iter().find(|value| bare(value) > 0)?;
        Some(&value[..bare(value)])
    })
}

/// `check_for_uppercase(min, max)`: percent of letters that are capitals.
pub(super) fn uppercase(cx: &EvalContext<'_>, args: &Args) -> bool {
    let percent = *cx.memo.uppercase.get_or_init(|| uppercase_percent(cx));
    percent > args.number(0) && percent <= args.number(1)
}

fn uppercase_percent(cx: &EvalContext<'_>) -> f64 {
    /// Shorter texts are not judged.
    const BYTES_MIN: usize = 200;
    let kind = cx.text("Content-Type");
    let charsets = facts(cx).charsets.iter().map(Vec::as_slice);
    if declared_charset(&kind).into_iter().chain(charsets).any(locale::charset_looks_like_caps) {
        return 0.0;
    }
    let has_words = |text: &[u8]| trim(text).iter().any(|b| is_space(*b));
    let base64 = re!(r"\A(?:[A-Za-z0-9+/=]{60,76} ){2}");
    let japanese = re!(r"(?s)\x1b\$B.*\x1b\(B");
    let (mut bytes, mut lower, mut upper) = (0, 0, 0);
    for text in cx.views.body() {
        let may_be_base64 = memchr::memchr(b' ', text).is_some_and(|at| (60..=76).contains(&at));
        if !has_words(text) || (may_be_base64 && base64.is_match(text)) {
            continue;
        }
        let text = match memchr::memchr(0x1b, text) {
            Some(_) => japanese.replace_all(text, b"".as_slice()),
            None => Cow::Borrowed(text.as_slice()),
        };
        bytes += text.len();
        lower += count(&text, |b| b.is_ascii_lowercase() || b.is_ascii_digit());
        upper += count(&text, |b| b.is_ascii_uppercase());
    }
    if bytes < BYTES_MIN || upper + lower == 0 {
        return 0.0;
    }
    upper as f64 / (upper + lower) as f64 * 100.0
}

/// `check_ma_non_text()`: alternatives that are no text.
pub(super) fn alternative_not_text(cx: &EvalContext<'_>, _: &Args) -> bool {
    let tree = cx.tree();
    let is_ordinary = |node: &Node<'_>| {
        matches!(node.kind.as_str(), "multipart/related" | "application/rtf")
            || node.kind.starts_with("text/")
    };
    let alternatives = tree.nodes.iter().filter(|n| n.kind == "multipart/alternative");
    alternatives.filter(|n| !n.is_leaf).any(|node| {
        node.children.iter().any(|&child| {
            let child = &tree.nodes[child];
            child.is_leaf && !is_ordinary(child)
        })
    })
}

/// `check_base64_length(min, [max])`: bytes of the longest line of base64.
pub(super) fn base64_length(cx: &EvalContext<'_>, args: &Args) -> bool {
    let longest = *cx.memo.base64_length.get_or_init(|| {
        let tree = cx.tree();
        let parts = tree.nodes.iter().filter(|n| n.is_leaf && n.kind != "application/ics");
        let encoded = parts.filter(|n| is_base64(n));
        encoded.flat_map(|n| n.lines()).map(<[u8]>::len).max().unwrap_or_default()
    });
    longest as f64 >= args.number(0) && args.bound(1).is_none_or(|max| longest as f64 <= max)
}

/// Whether the part is declared as base64 and nothing else.
pub(super) fn is_base64(node: &Node<'_>) -> bool {
    node.value("content-transfer-encoding").eq_ignore_ascii_case(b"base64")
}

/// Sums over all parts.
#[derive(Default)]
struct Gather {
    facts: MimeFacts,
    text_bytes: usize,
    entities: usize,
    /// Kind and bytes of every leaf that is no attachment.
    sizes: Vec<(bool, usize)>,
}

impl Gather {
    fn run(mut self, tree: &MimeTree<'_>, locales: Option<&[String]>) -> MimeFacts {
        self.facts.multipart_ratio = 1.0;
        let mut qp = Quoted::default();
        for index in tree.in_order() {
            self.part(&tree.nodes[index], locales, &mut qp);
        }
        if qp.bytes > 0 {
            self.facts.qp_count = qp.needless.max(0).unsigned_abs();
            self.facts.qp_bytes = qp.bytes;
        }
        self.facts.qp_long_line = qp.has_long_line;
        if self.text_bytes > 0 {
            self.facts.unicode_ratio = self.entities as f64 / self.text_bytes as f64;
        }
        if self.facts.has_alternative {
            let last = |html: bool| self.sizes.iter().rev().find(|s| s.0 == html).map(|s| s.1);
            if let (Some(text), Some(html @ 1..)) = (last(false), last(true)) {
                self.facts.multipart_ratio = text as f64 / html as f64;
            }
        }
        self.facts.missing_boundary = tree.missing_boundary;
        self.facts
    }

    fn part(&mut self, node: &Node<'_>, locales: Option<&[String]>, qp: &mut Quoted) {
        let kind = node.content_type();
        self.facts.has_alternative |= kind.kind == "multipart/alternative";
        let encoding = node.value("content-transfer-encoding").to_ascii_lowercase();
        let disposition = node.value("content-disposition").to_ascii_lowercase();
        let charset = kind.charset.as_ref().map(|c| c.to_ascii_lowercase());
        let holds = |text: &[u8], word: &[u8]| memchr::memmem::find(text, word).is_some();
        let is_attachment = holds(&disposition, b"attachment");
        let is_base64 = holds(&encoding, b"base64");
        self.declared(&kind.kind, charset.as_deref().unwrap_or_default(), locales);
        self.facts.attachments += usize::from(is_attachment);
        self.facts.base64_count += usize::from(is_base64);
        self.facts.qp_count += usize::from(!is_base64 && holds(&encoding, b"quoted-printable"));
        let in_place = disposition.starts_with(b"attachment") || disposition.starts_with(b"inline");
        self.facts.base64_text |= kind.kind.starts_with("text")
            && is_base64
            && !in_place
            && charset.as_deref().is_none_or(|c| c.is_empty() || is_ascii_charset(c));
        if !node.is_leaf {
            return;
        }
        let is_plain = kind.kind == "text/plain";
        let is_html = kind.kind == "text/html";
        if !is_attachment && (is_plain || is_html) {
            // Bytes count only from the first multipart/alternative on.
            let bytes = node.raw_body().len();
            let bytes = if self.facts.has_alternative { bytes } else { 0 };
            self.sizes.push((is_html, bytes));
        }
        if encoding == b"quoted-printable" {
            qp.text(node.raw_body());
        }
        if is_plain && charset.as_deref().is_none_or(|c| c == b"us-ascii") {
            let is_legal = |l: &[u8]| l.is_ascii() && memchr::memchr2(0, b'\r', l).is_none();
            if !is_legal(node.raw_body()) {
                let lines = node.lines().filter(|l| !is_legal(l));
                self.facts.ascii_illegal += lines.count();
            }
        }
        if is_plain && matches!(encoding.as_slice(), b"" | b"7bit" | b"8bit") {
            // No URI extends beyond its line.
            let body = node.raw_body();
            let count = match memchr::memchr(b'&', body) {
                Some(_) => re!("&#x[0-9A-F]{4};").find_iter(body).count(),
                None => 0,
            };
            self.entities += count;
            self.text_bytes += body.len() - count * "&#x0000;".len();
        }
    }

    /// Facts of the part's type and charset.
    fn declared(&mut self, kind: &str, charset: &[u8], locales: Option<&[String]>) {
        if kind == "text/html" {
            self.facts.html_count += 1;
        } else if kind.starts_with("text") {
            self.facts.text_count += 1;
        }
        let known = re!(r"iso-(?:8859-\d{1,2}|2022-(?:jp|kr))\b");
        self.facts.bad_iso_charset |= find(charset, b"iso-").is_some()
            && re!(r"(?i)iso-\S+-\S+\b").is_match(charset)
            && !known.is_match(charset);
        if charset.iter().any(u8::is_ascii_alphabetic) {
            let names = charset.split(|&b| is_space(b)).filter(|n| !n.is_empty());
            self.facts.charsets.extend(names.map(<[u8]>::to_vec));
            self.facts.faraway_charset |=
                locales.is_some_and(|locales| !locale::charset_is_ok(charset, locales));
        }
    }
}

/// Whether a charset (in lower case) names ASCII.
fn is_ascii_charset(charset: &[u8]) -> bool {
    re!(
        r"us-ascii|ansi_x3\.4-1968|iso-ir-6|ansi_x3\.4-1986|iso_646\.irv:1991|ascii|iso646-us|us|ibm367|cp367|csascii"
    )
    .is_match(charset)
}

/// Quoted-printable over all parts.
#[derive(Default)]
struct Quoted {
    bytes: usize,
    /// Bytes that were encoded without need; white space at line ends is subtracted again.
    needless: isize,
    has_long_line: bool,
}

impl Quoted {
    fn text(&mut self, text: &[u8]) {
        let (mut start, mut count) = (0, 0);
        for at in memchr::memchr2_iter(b'=', b'\n', text) {
            if text[at] == b'=' {
                // Digits never go beyond their line.
                count += usize::from(text.get(at + 1..at + 3).is_some_and(Self::is_needless));
            } else {
                self.line(&text[start..=at], count);
                (start, count) = (at + 1, 0);
            }
        }
        if start < text.len() {
            self.line(&text[start..], count);
        }
    }

    /// A line in which so many bytes are encoded without need.
    fn line(&mut self, line: &[u8], count: usize) {
        if line.starts_with(b"SPAM: ") {
            return;
        }
        self.has_long_line |= line.len() > QP_LINE_BYTES_MAX;
        self.bytes += line.len();
        if count > 0 {
            let mut rest = trim_end(line);
            while let Some(before) = rest.strip_suffix(b"=09").or(rest.strip_suffix(b"=20")) {
                self.needless -= 1;
                rest = before;
            }
            self.needless += count as isize;
        }
    }

    /// Whether these digits encode a byte that need not be: a tab, or a printable one except `=`.
    fn is_needless(digits: &[u8]) -> bool {
        let is_hex = |b: u8| b.is_ascii_digit() || matches!(b, b'A'..=b'F');
        match digits {
            b"09" => true,
            [b'2' | b'4' | b'5' | b'6', low] => is_hex(*low),
            [b'3', low] => is_hex(*low) && *low != b'D',
            [b'7', low] => is_hex(*low) && *low != b'F',
            _ => false,
        }
    }
}

/// Whether a type is that of an image that is parsed.
pub(super) fn image_kind(kind: &str) -> Option<&str> {
    match kind {
        "image/gif" => Some("gif"),
        "image/png" => Some("png"),
        "image/jpeg" | "image/jpg" => Some("jpeg"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_in_content_types() {
        assert_eq!(declared_charset(b"text/plain; charset=\"a b\""), Some(&b"a b"[..]));
        assert_eq!(declared_charset(b"text/plain; charset=x;"), Some(&b"x;"[..]));
        assert_eq!(declared_charset(b"text/plain"), None);
        let patterns = [r#"charset="([^"]+)""#, r"charset='([^']+)'", r"charset=(\S+)"];
        let patterns = patterns.map(|p| regex::bytes::Regex::new(&format!("(?i-u){p}")).unwrap());
        let pieces = ["charset=", "CharSet=", "\"", "'", "a", " ", "\x0b", ";", "charset"];
        let mut seed = 9u32;
        for _ in 0..20_000 {
            let mut kind = String::new();
            for _ in 0..7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                kind.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let found = patterns.iter().find_map(|p| p.captures(kind.as_bytes()));
            let expected = found.as_ref().and_then(|c| c.get(1)).map(|m| m.as_bytes());
            assert_eq!(declared_charset(kind.as_bytes()), expected, "{kind:?}");
        }
        assert!(is_ascii_charset(b"us-ascii"));
    }
}
