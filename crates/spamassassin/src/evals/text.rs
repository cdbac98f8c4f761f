//! Helpers of eval functions: constant patterns, and byte comparison as in Perl.

use regex::bytes::Regex;

pub(crate) use crate::views::count;

/// A constant pattern over bytes, compiled when first used.
macro_rules! re {
    ($pattern:expr) => {{
        static PATTERN: std::sync::LazyLock<regex::bytes::Regex> =
            std::sync::LazyLock::new(|| $crate::evals::text::bytes_pattern($pattern));
        &*PATTERN
    }};
}
pub(crate) use re;

/// A constant pattern with look-around or references, which `regex` does not support.
macro_rules! look {
    ($pattern:expr) => {{
        static PATTERN: std::sync::LazyLock<gauntlet_rules::pattern::Pattern> =
            std::sync::LazyLock::new(|| {
                gauntlet_rules::pattern::Pattern::new(&$pattern).expect("a constant pattern")
            });
        &*PATTERN
    }};
}
pub(crate) use look;

/// Compiles a constant pattern: classes are ASCII, anything else is bytes.
pub(crate) fn bytes_pattern(pattern: &str) -> Regex {
    Regex::new(&format!("(?-u){pattern}")).expect("a constant pattern")
}

/// `\w`.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `\s`.
pub(crate) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Equal, ignoring ASCII case.
pub(crate) fn eq_ignore_case(a: &[u8], b: &[u8]) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Every position of `needle` in `text`, ignoring ASCII case; none for an empty needle.
pub(crate) fn find_ignore_case<'t>(
    text: &'t [u8],
    needle: &'t [u8],
) -> impl Iterator<Item = usize> + 't {
    let first = needle.first().copied().unwrap_or_default();
    let starts = memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text);
    let is_there = move |start: &usize| {
        let found = text.get(*start..start + needle.len());
        !needle.is_empty() && found.is_some_and(|found| found.eq_ignore_ascii_case(needle))
    };
    starts.filter(is_there)
}

/// The text without its leading and trailing white space.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&b| !is_space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|&b| !is_space(b)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// The text without its trailing white space.
pub(crate) fn trim_end(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|&b| !is_space(b)).map_or(0, |last| last + 1)]
}

/// The lines of a text, each with its line feed.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&b| b == b'\n')
}

/// One space for every run of white space.
pub(crate) fn collapse_space(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if !is_space(byte) {
            out.push(byte);
        } else if out.last() != Some(&b' ') {
            out.push(b' ');
        }
    }
    out
}

/// A number at the start of a text, as Perl converts text to numbers: 0 if there is none.
pub(crate) fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let is_part =
        |(i, c): (usize, char)| c.is_ascii_digit() || c == '.' || (i == 0 && "+-".contains(c));
    let end = text.char_indices().find(|&p| !is_part(p)).map_or(text.len(), |(i, _)| i);
    text[..end].parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_notions() {
        assert_eq!(trim(b" \x0b a b\n"), b"a b");
        assert_eq!(collapse_space(b"a \n\tb "), b"a b ");
        assert_eq!(find_ignore_case(b"aBab", b"AB").collect::<Vec<_>>(), [0, 2]);
        assert_eq!(find_ignore_case(b"abc", b"").count(), 0);
        for (text, number) in [("-12", -12.0), (".05", 0.05), ("0400", 400.0), ("undef", 0.0)] {
            assert_eq!(leading_number(text), number);
        }
    }
}
