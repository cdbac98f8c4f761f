//! Words, white space and sizes in HTML, as SpamAssassin counts them.

use crate::views::perl;

/// Characters between which a tag splits a word: neither white space nor ASCII punctuation.
pub(super) fn in_word(c: char, wide: bool) -> bool {
    !perl::is_space_char(c, wide) && !c.is_ascii_punctuation()
}

/// Perl's `\w`, for a character; `wide`: the string has characters above 255.
pub(super) fn is_word_char(c: char, wide: bool) -> bool {
    if c.is_ascii() { perl::is_word(c as u8) } else { wide && c.is_alphanumeric() }
}

/// Length of the word piece at the end, 1 to 7, that begins at a word boundary.
pub(super) fn tail_word(text: &str, wide: bool) -> Option<usize> {
    let tail: Vec<char> = text.chars().rev().take(8).collect();
    let run = tail.iter().take(7).take_while(|&&c| in_word(c, wide)).count();
    let word = |i: usize| tail.get(i).is_some_and(|&c| is_word_char(c, wide));
    (1..=run).rev().find(|&length| word(length - 1) != word(length))
}

/// Length of the word piece at the start, 1 to 7, that ends at a word boundary.
pub(super) fn head_word(text: &str, wide: bool) -> Option<usize> {
    let head: Vec<char> = text.chars().take(8).collect();
    let run = head.iter().take(7).take_while(|&&c| in_word(c, wide)).count();
    let word = |i: usize| head.get(i).is_some_and(|&c| is_word_char(c, wide));
    (1..=run).rev().find(|&length| word(length - 1) != word(length))
}

/// Width or height in pixels on a screen of 800 by 600; 200 if unknown.
pub(super) fn pixels(value: &str, per_percent: f64) -> f64 {
    let value = value.strip_suffix('\n').unwrap_or(value);
    let (digits, scale) = match value.strip_suffix('%') {
        Some(digits) => (digits, per_percent),
        None => (value, 1.0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let size = if plain { digits.parse::<f64>().unwrap_or(0.0) * scale } else { 0.0 };
    if size > 0.0 { size } else { 200.0 }
}

/// How many characters beyond ASCII are white space.
pub(super) fn other_spaces(text: &str) -> usize {
    // They begin with one of these bytes.
    let bytes = text.as_bytes();
    let starts =
        memchr::memchr3_iter(0xc2, 0xe2, 0xe3, bytes).chain(memchr::memchr_iter(0xe1, bytes));
    starts.filter(|&i| text[i..].chars().next().is_some_and(char::is_whitespace)).count()
}

/// Whether there is anything but spaces.
pub(super) fn has_text(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{c2}' && chars.peek() == Some(&'\u{a0}') {
            chars.next();
        } else if !(c.is_ascii() && perl::is_space(c as u8)) {
            return true;
        }
    }
    false
}

/// Appends the text; runs of white space become one space, so does a no-break space that was
/// decoded as Latin-1.
pub(super) fn collapse_space(text: &str, out: &mut String) {
    const NO_BREAK: &str = "\u{c2}\u{a0}";
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        i += perl::plain_blocks(&bytes[i..]);
        while let Some(&byte) = bytes.get(i) {
            let stops = match byte {
                b' ' => bytes.get(i + 1).is_some_and(|&next| perl::is_space(next)),
                b'\t'..=b'\r' => true,
                0xc3 => bytes[i..].starts_with(NO_BREAK.as_bytes()),
                _ => false,
            };
            if stops {
                break;
            }
            i += 1;
        }
        out.push_str(&text[start..i]);
        match bytes.get(i) {
            None => break,
            Some(0xc3) => i += NO_BREAK.len(),
            Some(_) => {
                let rest = &bytes[i..];
                i += rest.iter().position(|&b| !perl::is_space(b)).unwrap_or(rest.len());
            }
        }
        out.push(' ');
    }
}
