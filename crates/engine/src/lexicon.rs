//! Words and phrases with a probability each, found by tokenising and hash lookup.
//!
//! Text is cut into words (runs of letters and digits, in lower case); every word is looked up
//! once, and continues the phrases that the words before it began. The cost is that of hashing the
//! text, however many words the list has.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Words of a phrase at most; longer phrases of a list are refused.
pub const PHRASE_WORDS_MAX: usize = 6;
/// Probabilities are held away from 0 and 1 by this: no single word is certain of anything.
const PROBABILITY_MARGIN: f64 = 0.01;

/// A word or phrase of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// In lower case, words separated by one space.
    pub text: String,
    /// Probability that a message that holds it is unwanted.
    pub probability: f64,
    /// Log odds of that.
    pub weight: f64,
}

/// Why a list could not be read.
#[derive(Debug, thiserror::Error)]
#[error("word list, line {line}: {what}; expected a word or phrase, a tab and a probability")]
pub struct Error {
    /// Line of the list, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The list, ready to be looked up.
#[derive(Debug, Clone, Default)]
pub struct Lexicon {
    words: Vec<Word>,
    table: HashMap<u64, Entry, BuildHasherDefault<Hashed>>,
    /// A bit for each key of the table: most words of a text have none, and need not be looked up.
    possible: Vec<u64>,
    /// Bytes of the longest single word.
    longest: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Index + 1 of the word that ends here; 0 for none.
    word: u32,
    /// A longer phrase goes on from here.
    goes_on: bool,
}

impl Lexicon {
    /// The list that ships.
    pub fn shipped() -> Self {
        // A test reads the list that ships.
        Self::parse(include_str!("../data/words.tsv")).unwrap_or_default()
    }

    /// Reads `word or phrase<TAB>probability` lines.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lexicon = Lexicon::default();
        for (line, number) in text.lines().zip(1..) {
            let error = |what| Error { line: number, what };
            let (word, probability) = line.split_once('\t').ok_or(error("there is no tab"))?;
            let probability: f64 =
                probability.trim().parse().map_err(|_| error("the probability is no number"))?;
            if !(0.0..=1.0).contains(&probability) {
                return Err(error("the probability is not between 0 and 1"));
            }
            lexicon.insert(word, probability).map_err(error)?;
        }
        Ok(lexicon)
    }

    fn insert(&mut self, text: &str, probability: f64) -> Result<(), &'static str> {
        let mut hashes = Vec::new();
        let mut longest = self.longest;
        each_word(text, usize::MAX, |hash, range| {
            hashes.push(hash);
            longest = longest.max(range.len());
        });
        if hashes.is_empty() || hashes.len() > PHRASE_WORDS_MAX {
            return Err("the phrase has no words or too many");
        }
        self.longest = longest;
        let bounded = probability.clamp(PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN);
        let weight = (bounded / (1.0 - bounded)).ln();
        self.words.push(Word { text: text.to_owned(), probability, weight });
        let last = hashes.len() - 1;
        let mut prefix = 0;
        for (i, hash) in hashes.into_iter().enumerate() {
            prefix = join(prefix, hash);
            let (word, bit) = possible_at(prefix);
            self.possible.resize(POSSIBLE_WORDS, 0);
            self.possible[word] |= bit;
            let entry = self.table.entry(prefix).or_default();
            if i == last {
                entry.word = u32::try_from(self.words.len()).map_err(|_| "the list is too long")?;
            } else {
                entry.goes_on = true;
            }
        }
        Ok(())
    }

    /// Whether the table may have this key; seldom true if it does not.
    fn is_possible(&self, prefix: u64) -> bool {
        let (word, bit) = possible_at(prefix);
        self.possible.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// All words, in the order of the list.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Calls `found` with the index of each word and phrase in the text and its byte range, in the
    /// order in which they end. Returns how many words the text has.
    pub fn find(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) -> usize {
        let mut open = [(0u64, 0usize); PHRASE_WORDS_MAX];
        let (mut open_count, mut count) = (0, 0);
        each_word(text, self.longest, |hash, range| {
            count += 1;
            // The phrases that go on, and one that begins with this word.
            open[open_count] = (0, range.start);
            let mut kept = 0;
            for i in 0..=open_count {
                let (prefix, start) = open[i];
                let prefix = join(prefix, hash);
                if !self.is_possible(prefix) {
                    continue;
                }
                let Some(entry) = self.table.get(&prefix) else { continue };
                if entry.word > 0 {
                    found(entry.word as usize - 1, start..range.end);
                }
                if entry.goes_on && kept + 1 < PHRASE_WORDS_MAX {
                    open[kept] = (prefix, start);
                    kept += 1;
                }
            }
            open_count = kept;
        });
        count
    }
}

/// Words of 64 bits that say which keys are possible: 32 bits a phrase of a list of a thousand.
const POSSIBLE_WORDS: usize = 512;

/// Where the bit of a key stands.
fn possible_at(prefix: u64) -> (usize, u64) {
    let bits = (prefix >> 32) as usize;
    (bits / 64 % POSSIBLE_WORDS, 1 << (bits % 64))
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// What a hash is multiplied with for each step.
const STEP: u64 = 0x2127_599b_f432_5c37;

fn join(prefix: u64, word: u64) -> u64 {
    (prefix.rotate_left(23) ^ word).wrapping_mul(SEED)
}

/// Calls `word` with hash and range of every run of letters and digits. The hash means nothing if
/// the word is of ASCII alone and has more than `longest` bytes, which is not to be found in the
/// list then.
fn each_word(text: &str, longest: usize, mut word: impl FnMut(u64, Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte < 0x80 && !byte.is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        let end = at + ascii_letters(bytes.get(at..).unwrap_or_default());
        let next = text.get(end..).and_then(|rest| rest.chars().next());
        if next.is_some_and(|c| !c.is_ascii() && is_letter_or_digit(c)) {
            let (hash, end) = word_of_any_letters(text, at);
            word(hash, at..end);
            at = end;
            continue;
        }
        if end > at {
            word(if end - at <= longest { ascii_hash(bytes, at..end) } else { 0 }, at..end);
        }
        at = end + next.map_or(0, char::len_utf8);
    }
}

/// Hash and end of the word that begins here.
fn word_of_any_letters(text: &str, start: usize) -> (u64, usize) {
    let (mut hash, mut end) = (0, start);
    for c in text.get(start..).unwrap_or_default().chars() {
        if !is_letter_or_digit(c) {
            break;
        }
        end += c.len_utf8();
        for lower in c.to_lowercase() {
            hash = add(add(hash, (lower as u32 >> 8) as u8), lower as u8);
        }
    }
    (hash, end)
}

/// The low seven bits of each byte of eight, and the same bit of each.
const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const fn in_each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// How many letters and digits of ASCII stand first, eight looked at together.
fn ascii_letters(bytes: &[u8]) -> usize {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (eight, i) in eights.iter().zip(0..) {
        let eight = u64::from_le_bytes(*eight);
        let low = eight & LOW_BITS;
        let folded = low | in_each(b' ');
        // The highest bit of each byte: sums carry into it from the first of a range on.
        let from = |bytes: u64, first: u8| bytes + in_each(0x80 - first);
        let is_letter = from(folded, b'a') & !from(folded, b'z' + 1);
        let is_digit = from(low, b'0') & !from(low, b'9' + 1);
        let others = (!(is_letter | is_digit) | eight) & !LOW_BITS;
        if others != 0 {
            return 8 * i + others.trailing_zeros() as usize / 8;
        }
    }
    8 * eights.len() + rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count()
}

/// Hash of a word of letters and digits of ASCII, the same in any case.
fn ascii_hash(bytes: &[u8], range: Range<usize>) -> u64 {
    let mut hash = 0u64;
    for at in range.clone().step_by(8) {
        let length = (range.end - at).min(8);
        let mut eight = [0; 8];
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(whole) => eight = *whole,
            None => eight.iter_mut().zip(&bytes[at..range.end]).for_each(|(to, b)| *to = *b),
        }
        let letters = (u64::from_le_bytes(eight) | in_each(b' ')) & (u64::MAX >> (64 - 8 * length));
        hash = (hash.rotate_left(5) ^ letters).wrapping_mul(STEP);
    }
    hash
}

/// [`char::is_alphanumeric`], whose tables are not asked about the letters of Latin and Cyrillic.
pub(crate) fn is_letter_or_digit(c: char) -> bool {
    match c {
        '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2C1}' => true,
        '\u{400}'..='\u{481}' | '\u{48A}'..='\u{52F}' => true,
        c => c.is_alphanumeric(),
    }
}

fn add(hash: u64, byte: u8) -> u64 {
    (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(STEP)
}

/// The keys are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` keys are used, which come by `write_u64`.
        for &byte in bytes {
            self.0 = add(self.0, byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        // The table takes its position from the low and its tag from the high bits.
        self.0 = key ^ (key >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &str, text: &str) -> Vec<(String, String)> {
        let lexicon = Lexicon::parse(list).unwrap();
        let mut all = Vec::new();
        lexicon.find(text, |word, range| {
            all.push((lexicon.words()[word].text.clone(), text[range].to_owned()));
        });
        all
    }

    #[test]
    fn words_and_phrases_in_any_case_and_spacing() {
        let list = "free\t0.9\nfree of charge\t0.8\nprêt\t0.7\ncharge account\t0.6\n";
        let text = "FREE, of\ncharge account. Freedom! Un PRÊT";
        let expected = [
            ("free", "FREE"),
            ("free of charge", "FREE, of\ncharge"),
            ("charge account", "charge account"),
            ("prêt", "PRÊT"),
        ];
        assert_eq!(found(list, text), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn long_words_are_words_that_no_list_has() {
        let list = "prize\t0.9\nprize money\t0.8\nwon\t0.7\n";
        let long = "x".repeat(500);
        for strange in ["prizes", "prizeprize", "prizeé", "prizexé", &long, &format!("{long}é won")]
        {
            let text = format!("won prize {strange} prize MONEY");
            let words: Vec<String> = found(list, &text).into_iter().map(|(word, _)| word).collect();
            let of_it = usize::from(strange.ends_with(" won"));
            let expected = [vec!["won", "prize"], vec!["won"; of_it], vec!["prize", "prize money"]];
            assert_eq!(words, expected.concat(), "{text}");
            let count = Lexicon::parse(list).unwrap().find(&text, |_, _| ());
            assert_eq!(count, 5 + of_it, "{text}");
        }
    }

    #[test]
    fn letters_are_those_of_unicode() {
        let differs = |c: &char| is_letter_or_digit(*c) != c.is_alphanumeric();
        assert_eq!(('\0'..=char::MAX).find(differs), None);
    }

    #[test]
    fn broken_lists_name_the_line() {
        for list in ["a\t0.5\nb", "a\t0.5\nb\tx", "a\t0.5\nb\t1.5", "a\t0.5\n--\t0.5"] {
            assert_eq!(Lexicon::parse(list).unwrap_err().line, 2, "{list:?}");
        }
    }

    #[test]
    fn the_list_that_ships() {
        let words = Lexicon::parse(include_str!("../data/words.tsv")).unwrap();
        assert!(words.words().len() >= 500);
        let mut texts: Vec<_> = words.words().iter().map(|w| w.text.clone()).collect();
        assert!(texts.is_sorted(), "so that changes are easy to read");
        texts.dedup();
        assert_eq!(texts.len(), words.words().len());
    }
}
