//! The text: its length, blank lines, the similarity of its alternatives, and the words of stock
//! promotion.

use std::collections::BTreeSet;

use super::args::Args;
use super::context::EvalContext;
use super::memo::Difference;
use super::text::{lines, re};
use crate::views::{Node, Text};
use gauntlet_rules::hash::HashMap;

/// Most words compared of one part.
const WORDS_MAX: usize = 200_000;

/// `check_body_length(max)`: the raw body has at most so many bytes.
pub(super) fn body_length(cx: &EvalContext<'_>, args: &Args) -> bool {
    cx.tree().pristine_body().len() as f64 <= args.number(0)
}

/// `multipart_alternative_difference(min, max)`.
pub(super) fn alternative_difference(cx: &EvalContext<'_>, args: &Args) -> bool {
    let percent = difference(cx).percent;
    let min = args.number(0);
    (min == 0.0 || percent > min) && args.bound(1).is_none_or(|max| percent <= max)
}

/// `multipart_alternative_difference_count(ratio, html_min)`: text words per HTML word.
pub(super) fn alternative_difference_count(cx: &EvalContext<'_>, args: &Args) -> bool {
    let found = difference(cx);
    found.html_words as f64 > args.number(1)
        && found.text_words as f64 / found.html_words as f64 > args.number(0)
}

fn difference(cx: &EvalContext<'_>) -> Difference {
    *cx.memo.difference.get_or_init(|| compare_alternatives(cx))
}

fn compare_alternatives(cx: &EvalContext<'_>) -> Difference {
    let tree = cx.tree();
    let mut found = Difference::default();
    // A meeting request: HTML and a calendar.
    let root = tree.root();
    if root.kind == "multipart/alternative" {
        let summary: Vec<String> = root.children.iter().map(|&c| kinds_below(cx, c)).collect();
        if summary == ["text/html", "text/calendar"] {
            return found;
        }
    }
    for top in tree.in_order() {
        if !is_alternative(&tree.nodes[top]) {
            continue;
        }
        let parts = tree.below(top);
        let is_html = |part: &usize| cx.rendered(*part).is_some_and(|r| r.html.is_some());
        if !parts.iter().any(is_html) {
            continue;
        }
        let words = count_words(cx, &parts);
        let html = words.values().filter(|n| n.html > 0);
        let (html_words, missing) = html
            .fold((0, 0), |(all, missing), n| (all + 1, missing + usize::from(n.html > n.text)));
        if html_words == 0 {
            continue;
        }
        found.html_words = html_words;
        found.text_words = words.values().filter(|n| n.text > 0).count();
        let percent = missing as f64 / html_words as f64 * 100.0;
        found.percent = found.percent.max(percent);
    }
    found
}

/// How often a word occurs.
#[derive(Debug, Clone, Copy, Default)]
struct Occurrences {
    html: u32,
    text: u32,
}

/// The words of these parts.
fn count_words<'a>(cx: &'a EvalContext<'_>, parts: &[usize]) -> HashMap<&'a [u8], Occurrences> {
    /// Estimated bytes of a text for each different word.
    const BYTES_PER_WORD: usize = 16;
    let mut words: HashMap<&[u8], Occurrences> = HashMap::default();
    let (mut has_html, mut has_image) = (false, false);
    for rendered in parts.iter().filter_map(|&part| cx.rendered(part)) {
        words.reserve((rendered.text().chars.len() / BYTES_PER_WORD).min(WORDS_MAX));
        let is_html = rendered.html.is_some();
        text_words(rendered.text(), |word| {
            let count = words.entry(word).or_default();
            *(if is_html { &mut count.html } else { &mut count.text }) += 1;
            has_html |= is_html;
        });
        has_image |=
            !has_html && rendered.html.as_ref().is_some_and(|state| state.inside("img").is_some());
        if has_image && !has_html {
            // It counts as a word that no text has.
            words.insert(b"\n", Occurrences { html: 1, text: 0 });
            has_html = true;
        }
    }
    words
}

/// Words between white space that hold a letter, a digit or an underscore; not more than are
/// compared.
fn text_words<'t>(text: &'t Text, mut found: impl FnMut(&'t [u8])) {
    let bytes = text.chars.as_bytes();
    if bytes.is_ascii() {
        let words = bytes.split(|b| super::text::is_space(*b));
        let words = words.filter(|word| word.iter().any(|b| super::text::is_word(*b)));
        return words.take(WORDS_MAX).for_each(found);
    }
    let (mut start, mut has_letter, mut count, mut i) = (0, false, 0, 0);
    while i <= bytes.len() && count < WORDS_MAX {
        // The character here, and its length.
        let (is_space, is_letter, length) = match bytes.get(i) {
            None => (true, false, 1),
            Some(b) if b.is_ascii() => (super::text::is_space(*b), super::text::is_word(*b), 1),
            Some(_) if !text.wide => (false, false, 1),
            Some(_) => {
                let c = text.chars[i..].chars().next().unwrap_or_default();
                (c.is_whitespace(), !has_letter && c.is_alphanumeric(), c.len_utf8())
            }
        };
        if !is_space {
            has_letter |= is_letter;
        } else {
            if has_letter {
                found(&bytes[start..i]);
                count += 1;
            }
            (start, has_letter) = (i + length, false);
        }
        i += length;
    }
}

fn is_alternative(node: &Node<'_>) -> bool {
    let rest = node.kind.strip_prefix("multipart/alternative");
    rest.is_some_and(|r| !r.bytes().next().is_some_and(super::text::is_word))
}

/// The types of a part and those inside it, joined by commas.
fn kinds_below(cx: &EvalContext<'_>, top: usize) -> String {
    let tree = cx.tree();
    let kinds: Vec<&str> = tree.below(top).iter().map(|&i| tree.nodes[i].kind.as_str()).collect();
    kinds.join(",")
}

/// `check_blank_line_ratio(min, max, [lines_min])`: percent of blank lines.
pub(super) fn blank_line_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    let (blank, all) = *cx.memo.blank_lines.get_or_init(|| {
        let chunks = cx.views.rawbody().iter();
        chunks.flat_map(|chunk| lines(chunk)).fold((0usize, 0usize), |(blank, all), line| {
            (blank + usize::from(line.iter().all(|&b| super::text::is_space(b))), all + 1)
        })
    });
    let lines_min = args.number(2).max(1.0);
    let percent = if (all as f64) < lines_min { -1.0 } else { 100.0 * blank as f64 / all as f64 };
    let (min, max) = (args.number(0), args.number(1));
    (min == 0.0 || percent > min) && percent <= max
}

/// `tvd_vertical_words(min, max)`: the highest percentage of spaces per other byte in any line.
pub(super) fn vertical_words(cx: &EvalContext<'_>, args: &Args) -> bool {
    let percent = *cx.memo.space_percent.get_or_init(|| {
        let texts = cx.views.body().iter().filter(|t| t.len() > 5);
        let percent = texts.map(|text| {
            let spaces = memchr::memchr_iter(b' ', text).count();
            let others = text.len() - spaces;
            if spaces > others || others == 0 { 100.0 } else { (100 * spaces / others) as f64 }
        });
        percent.fold(-1.0, f64::max)
    });
    let max = args.number(1);
    percent >= args.number(0) && percent < if max >= 100.0 { 101.0 } else { max }
}

/// `check_stock_info(min)`: different headings of a stock promotion in the first plain text.
pub(super) fn stock_info(cx: &EvalContext<'_>, args: &Args) -> bool {
    let min = args.number(0);
    min == 0.0 || stock_headings(cx) as f64 >= min
}

fn stock_headings(cx: &EvalContext<'_>) -> usize {
    let tree = cx.tree();
    let first = tree.in_order().into_iter().find(|&i| tree.nodes[i].kind == "text/plain");
    let Some(rendered) = first.and_then(|i| cx.rendered(i)) else { return 0 };
    let heading = re!(r"(?m)^\s*([^:\s][^:\n]{2,29})\s*:\s*\S");
    let known = re!(
        r"(^trad(?:e|ing)date|company(?:name)?|s[a-z]?(?:t[a-z]?o[a-z]?c[a-z]?k|y[a-z]?m(?:[a-z]?b[a-z]?o[a-z]?l)?)|t(?:arget|icker)|(?:opening|current)p(?:rice)?|p(?:rojected|osition)|expectations|weeks?high|marketperformance|(?:year|week|month|day|price)(?:target|estimates?)|sector|r(?:ecommendation|ating))\z"
    );
    let mut found: BTreeSet<Vec<u8>> = BTreeSet::new();
    for chunk in short_paragraphs(&rendered.text().bytes()) {
        for title in heading.captures_iter(chunk) {
            let letters: Vec<u8> =
                title[1].to_ascii_lowercase().into_iter().filter(u8::is_ascii_lowercase).collect();
            found.extend(known.find(&letters).map(|m| m.as_bytes().to_vec()));
        }
    }
    found.len()
}

/// Text in pieces of at most about 4 KiB, cut after a line feed, a `>` or a space.
fn short_paragraphs(text: &[u8]) -> Vec<&[u8]> {
    const PIECE_BYTES: usize = 2048;
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > 2 * PIECE_BYTES {
        let window = &rest[PIECE_BYTES..2 * PIECE_BYTES];
        let cut = [b'\n', b'>', b' '].iter().find_map(|&b| memchr::memchr(b, window)).unwrap_or(0);
        let (piece, tail) = rest.split_at(PIECE_BYTES + cut + 1);
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

/// Lengths of the first plain text and its signature, in bytes.
fn signature(cx: &EvalContext<'_>) -> Option<(usize, usize)> {
    let tree = cx.tree();
    let part =
        tree.in_order().into_iter().find(|&i| tree.nodes[i].kind.starts_with("text/plain"))?;
    let text = tree.nodes[part].decoded();
    let (mut body, mut signature) = (text.len(), 0);
    for mark in re!(r"(?m)^-- ?\r?$").find_iter(text) {
        let after = text.len() - mark.end();
        if after > 4 {
            (body, signature) = (mark.start(), after);
        }
    }
    Some((body, signature))
}

/// `plaintext_body_length(min, [max])`: bytes before the signature.
pub(super) fn plain_length(cx: &EvalContext<'_>, args: &Args) -> bool {
    signature(cx).is_some_and(|(body, _)| within(body as f64, args))
}

/// `plaintext_sig_length(min, [max])`: bytes of the signature.
pub(super) fn signature_length(cx: &EvalContext<'_>, args: &Args) -> bool {
    signature(cx).is_some_and(|(_, signature)| within(signature as f64, args))
}

/// `plaintext_body_sig_ratio(min, [max])`: bytes before the signature per byte of it.
pub(super) fn signature_ratio(cx: &EvalContext<'_>, args: &Args) -> bool {
    signature(cx).is_some_and(|(body, signature)| {
        within(if signature == 0 { 1e6 } else { body as f64 / signature as f64 }, args)
    })
}

fn within(value: f64, args: &Args) -> bool {
    value >= args.number(0) && args.bound(1).is_none_or(|max| value <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_cut_after_a_separator() {
        let text = [vec![b'x'; 3000], vec![b' '], vec![b'y'; 3000]].concat();
        let pieces = short_paragraphs(&text);
        assert_eq!(pieces.iter().map(|p| p.len()).collect::<Vec<_>>(), [3001, 3000]);
        assert_eq!(short_paragraphs(b"short"), [b"short"]);
    }

    #[test]
    fn words_hold_a_letter_a_digit_or_an_underscore() {
        let words = |text: Text| {
            let mut all = Vec::new();
            text_words(&text, |word| all.push(String::from_utf8_lossy(word).into_owned()));
            all.join("|")
        };
        assert_eq!(words(Text::narrow(b"a-b\x0b -- \x1c_ .9\n")), "a-b|\x1c_|.9");
        assert_eq!(words(Text::wide("a-b\u{a0}\u{e9} \u{2014} _".to_owned())), "a-b|\u{e9}|_");
        assert_eq!(words(Text::narrow(b"\xe9 \xe9a\xa0b ")), "\u{e9}a\u{a0}b");
        assert_eq!(words(Text::wide("\u{3000}\u{3042}\u{3000}".to_owned())), "\u{3042}");
    }
}
