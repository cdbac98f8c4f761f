//! Untrusted text on its way into a header field, a reply or a log line: it stays on its line.

use std::borrow::Cow;

/// Whether a program may take the character for a line end, or a terminal for cursor movement:
/// control characters of ASCII and of ISO 6429 (NEL among them), and the line and paragraph
/// separators of Unicode.
pub fn breaks_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text on one line: `instead` replaces each character that would break it.
pub fn one_line(text: &str, instead: char) -> Cow<'_, str> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) || !text.contains(breaks_line) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if breaks_line(c) { instead } else { c }).collect())
}

/// The first `bytes_max` bytes of the text, cut at a character boundary.
pub fn truncate(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&i| text.is_char_boundary(i));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// The text on one line, with spaces for characters that would break it, cut to `bytes_max` bytes.
pub fn excerpt(text: &str, bytes_max: usize) -> String {
    truncate(&one_line(text, ' '), bytes_max).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_a_line_is_replaced_and_nothing_else() {
        let evil = "a\r\n\0\t\u{b}\u{c}\u{1b}[1m\u{7f}\u{85}\u{9b}\u{2028}\u{2029}b";
        assert_eq!(one_line(evil, '?'), "a???????[1m?????b");
        for kept in ["", "plain", "grüße, 日本\u{200e}\u{a0}"] {
            assert!(matches!(one_line(kept, '?'), Cow::Borrowed(same) if same == kept));
        }
    }
}
