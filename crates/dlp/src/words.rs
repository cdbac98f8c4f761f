//! Words as dictionaries and fingerprints compare them: letters and digits, in lower case.
//!
//! Scripts that set no spaces between words (Han, kana, Thai ...) have a word a character.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

/// Seed of the hashes of shingles. They are kept in memory only.
const SEED: u64 = 0x6a75_6e67;

/// Begin and factor of FNV-1a of 64 bits (Fowler, Noll, Vo; RFC 9923), over characters.
const FNV_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_FACTOR: u64 = 0x0100_0000_01b3;

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
    let mut open: Option<(usize, u64)> = None;
    let add = |hash: &mut u64, c: u32| *hash = (*hash ^ u64::from(c)).wrapping_mul(FNV_FACTOR);
    let mut close = |open: &mut Option<(usize, u64)>, end| {
        if let Some((start, hash)) = open.take() {
            found.push(Word { hash, start, end });
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
        let (_, hash) = open.get_or_insert((at, FNV_BEGIN));
        if c.is_ascii() {
            add(hash, u32::from(c.to_ascii_lowercase()));
        } else {
            c.to_lowercase().for_each(|c| add(hash, u32::from(c)));
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
