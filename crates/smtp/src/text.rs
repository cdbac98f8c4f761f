//! Text from outside on its way into a header field, a reply or a line of a log: it stays on its line.

use std::borrow::Cow;

/// The character ends a line for somebody, or moves a terminal's cursor: the control characters of ASCII
/// and of ISO 6429 (NEL among them), and the line and paragraph separators of Unicode.
pub fn breaks_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text on one line: `instead` stands for each character that would break it.
pub fn one_line(text: &str, instead: char) -> Cow<'_, str> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) || !text.contains(breaks_line) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if breaks_line(c) { instead } else { c }).collect())
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
