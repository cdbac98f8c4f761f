//! Words as dictionaries and fingerprints compare them: letters and digits, in lower case.
//!
//! Scripts that set no spaces between words (Han, kana, Thai ...) have a word a character.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

/// Seed of the hashes. They are kept in memory only.
const SEED: u64 = 0x6a75_6e67;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    /// Hash of its letters and digits in lower case.
    pub(crate) hash: u64,
    /// Bytes of the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Whether a script sets no space between words, so that each character counts as one.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// The words of a text.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut open: Option<(usize, <FixedState as BuildHasher>::Hasher)> = None;
    let state = FixedState::with_seed(SEED);
    let mut close = |open: &mut Option<(usize, <FixedState as BuildHasher>::Hasher)>, end| {
        if let Some((start, hasher)) = open.take() {
            found.push(Word { hash: hasher.finish(), start, end });
        }
    };
    for (at, c) in text.char_indices() {
        if !c.is_alphanumeric() {
            close(&mut open, at);
            continue;
        }
        let alone = is_unspaced(c);
        if alone {
            close(&mut open, at);
        }
        let (_, hasher) = open.get_or_insert_with(|| (at, state.build_hasher()));
        if c.is_ascii() {
            hasher.write_u32(u32::from(c.to_ascii_lowercase()));
        } else {
            c.to_lowercase().for_each(|c| hasher.write_u32(u32::from(c)));
        }
        if alone {
            close(&mut open, at + c.len_utf8());
        }
    }
    close(&mut open, text.len());
    found
}

/// One hash of several words in a row.
pub(crate) fn shingle(words: &[Word]) -> u64 {
    let mut hasher = FixedState::with_seed(SEED).build_hasher();
    words.iter().for_each(|word| hasher.write_u64(word.hash));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_equal_whatever_stands_between_them() {
        let hashes = |text| words(text).iter().map(|w| w.hash).collect::<Vec<_>>();
        assert_eq!(hashes("Project HERON, phase 2."), hashes("> project\r\n> heron phase\u{a0}2"));
        assert_eq!(hashes("ÄRGER").len(), 1);
        assert_eq!(hashes("ÄRGER"), hashes("ärger"));
        assert_eq!(hashes("機密文書").len(), 4);
        let word = words("  ab ")[0];
        assert_eq!((word.start, word.end), (2, 4));
        assert!(words("--- ...").is_empty());
    }
}
