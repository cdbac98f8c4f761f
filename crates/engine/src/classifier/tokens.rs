//! The tokeniser: words of a text, their hashes, and what kinds of characters they have.

use crate::lexicon::is_letter_or_digit;
use crate::random::mix;

/// Longest word; longer ones count as one kind.
pub(super) const WORD_BYTES_MAX: usize = 24;

/// One word of a text.
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    /// Hash of its letters, folded to lower case; of ASCII words only.
    pub(super) hash: u64,
    /// [`AT`], [`DIGIT`], [`NON_ASCII`] and what else a word may have.
    has: u16,
}

impl Word<'_> {
    pub(super) fn has(&self, marks: u16) -> bool {
        self.has & marks != 0
    }
}

/// Finds words: letters and digits of any alphabet, and joiners. A Chinese, Japanese or Korean
/// character is a word by itself, since nothing stands between words there.
pub(super) struct Words<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

/// What a byte is folded to in a word: 0 ends it, 255 begins another character than ASCII. What the
/// word then has stands above: [`AT`], [`DIGIT`], [`NON_ASCII`].
const FOLDED: [u16; 256] = {
    let mut folded = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        folded[byte] = match b {
            b'0'..=b'9' => b'0' as u16 | DIGIT,
            b'@' => b as u16 | AT,
            b'A'..=b'Z' | b'a'..=b'z' => b.to_ascii_lowercase() as u16,
            b'\'' | b'-' | b'$' | b'%' => b as u16,
            128.. => 255 | NON_ASCII,
            _ => 0,
        };
        byte += 1;
    }
    folded
};

/// An at sign, a digit, a byte of another character than ASCII.
pub(super) const AT: u16 = 0x100;

pub(super) const DIGIT: u16 = 0x200;

pub(super) const NON_ASCII: u16 = 0x400;

/// A Latin letter of ASCII, one of Greek or Cyrillic, an invisible character: set for words with
/// other characters than ASCII.
pub(super) const LATIN: u16 = 0x800;

pub(super) const GREEK_OR_CYRILLIC: u16 = 0x1000;

pub(super) const INVISIBLE: u16 = 0x2000;

impl<'t> Words<'t> {
    pub(super) fn next(&mut self) -> Option<Word<'t>> {
        let bytes = self.text.as_bytes();
        loop {
            // Up to the first byte of a word.
            let rest = bytes.get(self.at..)?;
            let skip = rest.iter().position(|&b| FOLDED[usize::from(b)] != 0)?;
            self.at += skip;
            let (start, mut hash, mut has) = (self.at, 0u64, 0u16);
            let rest = rest.get(skip..)?;
            let mut length = rest.len();
            for (at, &byte) in rest.iter().enumerate() {
                let folded = FOLDED[usize::from(byte)];
                if folded == 0 {
                    length = at;
                    break;
                }
                has |= folded;
                hash = step(hash, folded);
            }
            self.at += length;
            if has & NON_ASCII != 0 {
                self.at = start;
                match self.non_ascii() {
                    Some(word) => return Some(word),
                    None => continue,
                }
            }
            let text = self.text.get(start..self.at)?;
            if bytes.get(self.at..self.at + 3) == Some(b"://") {
                // The links are read by themselves.
                let rest = bytes.get(self.at..)?;
                let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'<' | b'>' | b'"');
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
                continue;
            }
            let hash = if text.len() > WORD_BYTES_MAX { long(text.len()) } else { mix(hash) };
            return Some(Word { text, start, hash, has });
        }
    }

    /// The word at `at`, which holds other characters than ASCII; None if it is a mark.
    fn non_ascii(&mut self) -> Option<Word<'t>> {
        let (start, rest) = (self.at, self.text.get(self.at..)?);
        let (mut end, mut has) = (rest.len(), 0);
        for (i, c) in rest.char_indices() {
            if is_unspaced_script(c) {
                if i == 0 {
                    (end, has) = (c.len_utf8(), NON_ASCII);
                } else {
                    end = i;
                }
                break;
            }
            has |= match c {
                '0'..='9' => DIGIT,
                'A'..='Z' | 'a'..='z' => LATIN,
                '@' => AT,
                '\u{370}'..='\u{52F}' if is_letter_or_digit(c) => GREEK_OR_CYRILLIC | NON_ASCII,
                c if is_invisible(c) => INVISIBLE | NON_ASCII,
                c if is_joiner(c) || is_letter_or_digit(c) => NON_ASCII * u16::from(!c.is_ascii()),
                _ => {
                    end = i;
                    break;
                }
            };
        }
        let text = rest.get(..end)?;
        if text.is_empty() {
            self.at += rest.chars().next().map_or(1, char::len_utf8);
            return None;
        }
        self.at += end;
        // The word may have ended before the first character that is not ASCII.
        let hash = if has & NON_ASCII == 0 { ascii_hash(text.as_bytes()) } else { 0 };
        Some(Word { text, start, hash, has })
    }
}

/// Characters inside a word beside letters and digits; `@` so that an address is one word.
fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '-' | '@' | '$' | '€' | '£' | '%')
}

/// Characters that show nothing and are put into words to hide them.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{34F}')
}

/// Characters of scripts without word separators: kana, ideographs, Thai, Hangul.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{E7F}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{20000}'..='\u{2FA1F}')
}

#[inline]
fn step(hash: u64, folded: u16) -> u64 {
    (hash ^ u64::from(folded & 0xFF)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(5)
}

/// What all words over the longest are.
fn long(bytes: usize) -> u64 {
    0x0010_0000 + (bytes.min(63) / 8) as u64
}

/// The hash of an ASCII word; 0 of nothing.
pub(super) fn ascii_hash(word: &[u8]) -> u64 {
    match word.len() {
        0 => 0,
        1..=WORD_BYTES_MAX => {
            mix(word.iter().fold(0, |hash, &b| step(hash, FOLDED[usize::from(b)])))
        }
        length => long(length),
    }
}

/// A hash of bytes, eight at a time.
pub(super) fn hash(seed: u64, value: &[u8]) -> u64 {
    let mut hash = seed ^ (value.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut chunks = value.chunks_exact(8);
    for chunk in chunks.by_ref() {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    let tail = chunks.remainder().iter().fold(0, |tail, &b| tail << 8 | u64::from(b));
    mix(hash ^ tail)
}

/// The first `bytes` of a text, cut at a character.
pub(super) fn start(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
