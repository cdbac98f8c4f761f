//! Perl's notions of "white space", "word" and "lower case": the views are specified by Perl code,
//! so they must be exactly Perl's.
//!
//! A Perl string is either *narrow* (bytes; only ASCII has properties) or *wide* (characters with
//! Unicode properties), and the same code answers differently for the two. [`Text`] keeps that
//! flag.

use std::borrow::Cow;

/// `\s` for narrow strings: tab, line feed, vertical tab, form feed, carriage return, space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ')
}

/// `\w` for narrow strings.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Without leading and trailing `\s`.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| !is_space(b)).unwrap_or(bytes.len());
    trim_end(&bytes[start..])
}

/// The bytes without white space (Perl's `\s`) at the end.
pub(crate) fn trim_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| !is_space(b)).map_or(0, |i| i + 1);
    &bytes[..end]
}

/// Approximate frequency of each byte in header fields.
const COMMONNESS: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = match i as u8 {
            b' ' => 4,
            b'e' | b't' | b'o' | b'r' | b'm' | b'i' | b'a' | b'n' | b's' | b'.' => 3,
            b'a'..=b'z' | b'0'..=b'9' => 2,
            b'A'..=b'Z' => 1,
            _ => 0,
        };
        i += 1;
    }
    table
};

/// Offset of a word's rarest byte.
pub(crate) fn rarest(word: &[u8]) -> Option<usize> {
    (0..word.len()).min_by_key(|at| COMMONNESS[usize::from(word[*at])])
}

/// First position of a short constant `needle` in a short `haystack`, found by its rarest byte:
/// searchers for long texts take longer to prepare.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let at = rarest(needle)?;
    memchr::memchr_iter(needle[at], haystack).find_map(|found| {
        let start = found.checked_sub(at)?;
        haystack.get(start..)?.starts_with(needle).then_some(start)
    })
}

/// First position of `needle` (lower case) in `haystack`, ignoring ASCII case.
pub(crate) fn find_no_case(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let (&first, rest) = needle.split_first()?;
    let mut at = 0;
    while let Some(tail) = haystack.get(at..) {
        let i = memchr::memchr2(first, first.to_ascii_uppercase(), tail)? + at;
        let after = haystack.get(i + 1..i + 1 + rest.len())?;
        if after.eq_ignore_ascii_case(rest) {
            return Some(i);
        }
        at = i + 1;
    }
    None
}

/// Whether `haystack` begins with `needle`, ignoring ASCII case.
pub(crate) fn starts_no_case(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.get(..needle.len()).is_some_and(|head| head.eq_ignore_ascii_case(needle))
}

/// The text before the first line end and so on: `split /^/m`, each piece with its `\n`.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
        let (line, tail) = rest.split_at(end);
        rest = tail;
        Some(line)
    })
}

/// Number of bytes for which `is` holds. Counted in bytes as far as these can, because a vector
/// holds many.
pub(crate) fn count(text: &[u8], is_so: impl Fn(&u8) -> bool) -> usize {
    let chunks = text.chunks(usize::from(u8::MAX));
    chunks.map(|chunk| usize::from(chunk.iter().map(|b| u8::from(is_so(b))).sum::<u8>())).sum()
}

/// Bytes that are examined at once.
const BLOCK_BYTES: usize = 32;

/// Length of the beginning of plain ASCII bytes with single spaces between, in whole blocks.
pub(crate) fn plain_blocks(bytes: &[u8]) -> usize {
    let blocks = bytes.as_chunks::<BLOCK_BYTES>().0;
    let nexts = bytes.get(1..).unwrap_or_default().as_chunks::<BLOCK_BYTES>().0;
    let is_plain = |(block, next): &(&[u8; BLOCK_BYTES], &[u8; BLOCK_BYTES])| {
        // No early exit within a block, so that the compiler vectorizes it.
        !block.iter().zip(*next).fold(false, |other, (byte, next)| {
            let is_shown = |byte: u8| byte.wrapping_sub(b'!') < 0x80 - b'!';
            other | !(is_shown(*byte) | (*byte == b' ') & is_shown(*next))
        })
    };
    BLOCK_BYTES * blocks.iter().zip(nexts).take_while(is_plain).count()
}

/// A Perl string: its characters, and whether it is wide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The characters; all below U+0100 if the string is narrow.
    pub chars: String,
    /// Unicode properties apply, and its bytes are UTF-8; else its bytes are its characters'
    /// values.
    pub wide: bool,
}

impl Text {
    /// A narrow string of these bytes.
    pub(crate) fn narrow(bytes: &[u8]) -> Self {
        let chars = match std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()) {
            Some(text) => text.to_owned(),
            None => bytes.iter().map(|&b| char::from(b)).collect(),
        };
        Text { chars, wide: false }
    }

    pub(crate) fn wide(chars: String) -> Self {
        Text { chars, wide: true }
    }

    /// The string's bytes as rules see them.
    pub fn bytes(&self) -> Vec<u8> {
        to_bytes(&self.chars, self.wide)
    }

    /// The same, borrowed if possible.
    pub(crate) fn as_bytes(&self) -> Cow<'_, [u8]> {
        if self.wide || self.chars.is_ascii() {
            return Cow::Borrowed(self.chars.as_bytes());
        }
        Cow::Owned(self.bytes())
    }

    /// Length in characters, as Perl's `length` counts.
    pub fn len(&self) -> usize {
        count_chars(&self.chars)
    }

    /// Whether it has no characters.
    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }
}

/// Number of characters; quick if all are ASCII.
pub(crate) fn count_chars(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The bytes of a Perl string: UTF-8 if wide, else one byte a character.
pub(crate) fn to_bytes(chars: &str, wide: bool) -> Vec<u8> {
    if wide || chars.is_ascii() {
        return chars.as_bytes().to_vec();
    }
    chars.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

/// `\s` of a character in a narrow or wide string.
pub(crate) fn is_space_char(c: char, wide: bool) -> bool {
    match u8::try_from(c) {
        Ok(byte) if byte < 0x80 => is_space(byte),
        _ => wide && c.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted() {
        for length in [0, 1, 254, 255, 256, 600] {
            assert_eq!(count(&vec![b'a'; length], u8::is_ascii_lowercase), length);
        }
    }

    #[test]
    fn finding_and_trimming() {
        assert_eq!(find(b"a (by) by b", b"by b"), Some(7));
        assert_eq!(find(b"b) by", b"x) by"), None);
        assert_eq!(find(b"", b" by "), None);
        assert_eq!(find_no_case(b"a Boundary=", b"boundary"), Some(2));
        assert_eq!(find_no_case(b"bbound", b"bound"), Some(1));
        assert_eq!(find_no_case(b"bo", b"bound"), None);
        assert_eq!(trim(b" \x0b a\xa0 \r\n"), b"a\xa0");
        assert_eq!(lines(b"a\n\nb").collect::<Vec<_>>(), [&b"a\n"[..], b"\n", b"b"]);
    }

    #[test]
    fn narrow_bytes_are_kept_and_wide_ones_are_utf8() {
        assert_eq!(Text::narrow(b"caf\xe9").bytes(), b"caf\xe9");
        assert_eq!(Text::wide("café".to_owned()).bytes(), "café".as_bytes());
        assert!(is_space_char('\u{a0}', true) && !is_space_char('\u{a0}', false));
    }
}
