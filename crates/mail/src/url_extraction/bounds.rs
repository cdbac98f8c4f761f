//! Upper bounds of how many URLs a part has, without parsing or rendering it: most messages stay
//! far below [`crate::Limits::urls_max`], and counting the bytes that no URL can do without proves
//! it.

use crate::html::{Token, Tokenizer};
use crate::part::Part;

/// A number that the part's URLs do not exceed, as low as it takes to stay within `enough`. Renders
/// nothing.
pub(crate) fn urls_at_most(part: &Part<'_>, enough: usize) -> usize {
    match part.text() {
        Some(text) if part.is_html() => html_urls_at_most(text, enough),
        Some(text) => text_urls_at_most(text),
        None => 0,
    }
}

/// A number that the URLs found in a text do not exceed: they do not overlap, and each has a colon
/// or a dot.
fn text_urls_at_most(text: &str) -> usize {
    count(text.as_bytes(), |b| b == b'.' || b == b':')
}

/// The same for the source of an HTML part; its tags are tokenized only as far as that is needed to
/// stay within `enough`. What it shows has its dots and colons from the source's text, from
/// character references (`&`), from images (`<im`) and from markers of list items (`<li`); a link
/// is an attribute's value (`=`) or stands in brackets in a style.
fn html_urls_at_most(source: &str, enough: usize) -> usize {
    let bytes = source.as_bytes();
    let mut at_most = markers(bytes);
    if at_most <= enough {
        return at_most;
    }
    let fewer = at_most.saturating_sub(irrelevant_markers(bytes));
    if fewer <= enough {
        return fewer;
    }
    let mut tokens = Tokenizer::new(bytes);
    while at_most > enough
        && let Some((token, range)) = tokens.next()
    {
        let piece = bytes.get(range).unwrap_or_default();
        at_most -= markers(piece).saturating_sub(token_urls_at_most(&token, piece));
    }
    at_most
}

/// How many markers stand for no URL whatever they are in, by the bytes beside them: most are in
/// styles.
///
/// Before the `=` of a link is the end of its name (see [`links_at_most`]). The colon of a URL is
/// shown after `mailto` or before slashes: if not, then a reference or a tag is beside it, of which
/// the first has a mark of its own.
fn irrelevant_markers(bytes: &[u8]) -> usize {
    let is_alphanumeric =
        |b: u8| ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'0') < 10);
    let is_irrelevant = |((before, here), after): ((&u8, &u8), &u8)| {
        let ends_name =
            b"fcarndt".iter().fold(*before <= b' ', |any, b| any | (before | 0x20 == *b));
        let joins = is_alphanumeric(*before)
            & (before | 0x20 != b'o')
            & (is_alphanumeric(*after) | (*after == b' '));
        ((*here == b'=') & !ends_name) | ((*here == b':') & joins)
    };
    let from = |at: usize| bytes.get(at..).unwrap_or_default().chunks(PIECE);
    let pieces = from(0).zip(from(1)).zip(from(2));
    let in_piece = |((before, here), after): ((&[u8], &[u8]), &[u8])| {
        let triples = before.iter().zip(here).zip(after);
        triples.fold(0u8, |count, location| count.wrapping_add(u8::from(is_irrelevant(location))))
    };
    pieces.map(in_piece).map(usize::from).sum()
}

/// All in a piece of HTML that may stand for a URL, whatever it is a piece of.
fn markers(piece: &[u8]) -> usize {
    let opens = memchr::memchr_iter(b'<', piece);
    let shown = opens.filter(|at| matches!(piece.get(at + 1), Some(b'l' | b'L' | b'i' | b'I')));
    count(piece, |b| is_text_marker(b) || matches!(b, b'(' | b'=')) + shown.count()
}

/// A number that the URLs which come from a token do not exceed.
fn token_urls_at_most(token: &Token<'_>, piece: &[u8]) -> usize {
    match token {
        Token::Start(tag) => {
            let is_shown = matches!(tag.name.first(), Some(b'l' | b'L' | b'i' | b'I'));
            let shown = if is_shown { 1 + count(piece, is_text_marker) } else { 0 };
            shown + links_at_most(piece)
        }
        Token::Text(_) | Token::RawText(_) => count(piece, |b| is_text_marker(b) || b == b'('),
        _ => 0,
    }
}

/// What every URL in a text has, or may come from.
fn is_text_marker(byte: u8) -> bool {
    matches!(byte, b'.' | b':' | b'&')
}

/// A number that the links of a start tag do not exceed: values of attributes whose names end as
/// those do that name a URL (`href`, `src`, `data`, `poster`, `action`, `background`, `content`),
/// and brackets in styles.
fn links_at_most(tag: &[u8]) -> usize {
    let is_link = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| tag.get(before));
        before
            .is_none_or(|b| b.is_ascii_whitespace() || b"fcarndt".contains(&b.to_ascii_lowercase()))
    };
    let values = memchr::memchr_iter(b'=', tag).filter(is_link);
    values.count() + memchr::memchr_iter(b'(', tag).count()
}

/// Bytes counted at a time: a count fits a byte then, and the compiler makes vectors of it.
const PIECE: usize = 192;

/// How many bytes are so.
pub(super) fn count(text: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    let in_piece =
        |piece: &[u8]| piece.iter().fold(0u8, |count, b| count.wrapping_add(u8::from(matches(*b))));
    text.chunks(PIECE).map(|piece| usize::from(in_piece(piece))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::View;
    use crate::html::render;
    use crate::limits::Limits;
    use crate::url_extraction::Collector;

    #[test]
    fn bounds_are_never_too_low() {
        let styled = "<p style='margin:0.5em;color:red;font:1.2em a.b'>x</p>".repeat(20);
        let listed = "<ol><li>a.com<li>b.com</ol><img alt='http://c.com d.com' src=x.gif>";
        for source in [
            &styled,
            listed,
            "mailto:a@b.c MAILTO:d@e.f mailt&#111:g@h.i mailt&#x6f:j@k.l http:<b>//a.b/ a:b c: d",
            "<a href=mailto:a@b.c/><img src =http:x><form action\n=http:y><p style=a:b;c:url(d:e)>",
            "http://a.com b.com&#46;c&period;com <textarea><b x.com y.com></textarea>",
            "<a href = 'http://a'>1</a><style>p{background:url(http://b)}</style> 1<2 a.com>b.com",
            "<p style='background:url(x.com/1), url(\"http://x.com/2\")'><meta http-equiv=refresh \
             content='0;url=http://c.com'><form ACTION=http://d><td background=http://e>",
        ] {
            let page = render(source, &Limits::default());
            let mut collector = Collector::new(100);
            collector.html(0, source, &page);
            for enough in [0, 3, 10, 1_000] {
                let at_most = html_urls_at_most(source, enough);
                assert!(collector.urls.len() <= at_most, "{source}");
                assert!(page.links.len() <= at_most, "{source}");
            }
            let mut collector = Collector::new(100);
            collector.text(0, View::Text, source);
            assert!(collector.urls.len() <= text_urls_at_most(source), "{source}");
        }
        assert_eq!(html_urls_at_most(&styled, 0), 0, "styles are no text");
        assert!(html_urls_at_most(&styled, 1_000) > 100);
    }

    #[test]
    fn marks_that_are_idle_stand_for_no_url() {
        let pieces = [
            "a",
            "o",
            ":",
            "=",
            " ",
            "//x.com",
            "b.com",
            "mailto:a@b.c",
            "mailt&#111",
            "http",
            "<b>",
            "</b>",
            "<img src",
            "<a href=",
            "<li>",
            "<p style=",
            "'",
            ">",
            "url(",
            ")",
            "&colon;",
            "\n",
        ];
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let mut source = String::new();
            for _ in 0..9 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                source.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let page = render(&source, &Limits::default());
            let mut collector = Collector::new(100);
            collector.html(0, &source, &page);
            let at_most = markers(source.as_bytes()) - irrelevant_markers(source.as_bytes());
            assert!(collector.urls.len() <= at_most, "{source}");
            assert!(page.links.len() <= at_most, "{source}");
        }
    }
}
