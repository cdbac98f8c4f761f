//! Text without invisible characters, and with one form of those that look like ASCII: what
//! a reader sees, and what mail programs and browsers make of it when they open a link.

use std::borrow::Cow;

/// A text in plain form, and where its pieces stood.
#[derive(Debug)]
pub(crate) struct Normalized<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Offsets in the plain and in the original text from which on both run in step.
    steps: Vec<(usize, usize)>,
}

impl Normalized<'_> {
    /// The offset in the original text of the character at `at` of the plain one.
    pub(crate) fn original(&self, at: usize) -> usize {
        let i = self.steps.partition_point(|(plain, _)| *plain <= at);
        let (plain, original) = i.checked_sub(1).map_or((0, 0), |i| self.steps[i]);
        original + (at - plain)
    }
}

/// The plain form of `text`; none if it is plain already.
pub(crate) fn of(text: &str) -> Option<Normalized<'_>> {
    let first = first_changed(text)?;
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut steps = Vec::new();
    for (i, c) in text[first..].char_indices() {
        let i = first + i;
        let plain = if c.is_ascii() && !is_control(c) { Some(c) } else { plain(c) };
        if let Some(plain) = plain {
            out.push(plain);
        }
        if plain != Some(c) {
            steps.push((out.len(), i + c.len_utf8()));
        }
    }
    Some(Normalized { text: Cow::Owned(out), steps })
}

/// Where the first character stands that has another plain form.
fn first_changed(text: &str) -> Option<usize> {
    // Most text has none of the bytes that such a character begins with.
    let may_change = |b: u8| {
        matches!(b, 0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xef | 0xf3) || is_control(char::from(b))
    };
    if !text.bytes().any(may_change) {
        return None;
    }
    text.char_indices().find(|(_, c)| plain(*c) != Some(*c)).map(|(i, _)| i)
}

fn is_control(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f')
}

/// What a character looks like; none if like nothing.
fn plain(c: char) -> Option<char> {
    match c {
        c if is_control(c) => None,
        // Soft hyphen, joiners, markers of direction, variation selectors, tags (Unicode's property
        // Default_Ignorable_Code_Point) and the markers between annotations.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            None
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => None,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => None,
        '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => None,
        // Full stops (UTS 46 section 2.3) and what looks like one or like a slash.
        '\u{3002}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}' => Some('.'),
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => Some('/'),
        '\u{fe55}' | '\u{2236}' | '\u{a789}' => Some(':'),
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept() {
        assert!(of("plain \u{2019}text\u{e9}\r\n\t").is_none());
        let text = "a\u{200b}b \u{ff45}vil\u{3002}example\u{ad}/x \u{4e2d}";
        let plain = of(text).unwrap();
        assert_eq!(plain.text, "ab evil.example/x \u{4e2d}");
        for (at, c) in plain.text.char_indices().filter(|(_, c)| c.is_ascii_lowercase()) {
            let original = &text[plain.original(at)..];
            assert!(original.starts_with(c) || original.starts_with('\u{ff45}'), "{c}");
        }
    }
}
