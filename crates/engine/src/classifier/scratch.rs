//! The features of one message, and where each came from.
//!
//! Names are not made while reading: a feature keeps the number of the fact or word it was made of,
//! and only the few features that an explanation shows are put into words.

use std::fmt::{self, Write};

use gauntlet_mail::Message;

use super::features::FeatureSet;
use super::model::{FEATURES_MAX, GROUPS, TABLE_BITS};
use super::random::mix;
use super::reading::{self, Group};
use crate::lexicon::is_letter_or_digit;

/// How many words a pair reaches back.
const REACH: usize = 2;
/// Longest word; longer ones count as one kind.
const WORD_BYTES_MAX: usize = 24;
/// Words whose sequence is kept for signatures at most.
const SEQUENCE_MAX: usize = 4_000;
/// What a feature was made of: the kind in the upper four bits, the number of the fact or word below.
const ORIGIN_SHIFT: u32 = 28;
/// A word alone; a pair that reaches `n` back is `WORD + n`; 0 is a fact.
const WORD: u32 = 1;

/// The features of one message, reused from message to message.
#[derive(Debug)]
pub struct ClassifierScratch {
    set: FeatureSet,
    ends: [usize; GROUPS],
    /// One a feature.
    origins: Vec<u32>,
    /// Texts and values, one after the other.
    arena: String,
    /// Kind of each fact, and where its value stands in the arena.
    facts: Vec<(&'static str, u32, u16)>,
    /// Where each word stands.
    words: Vec<(u32, u16)>,
    /// Hashes of the words of the text in their order, without those that a sender changes from one
    /// copy to the next: numbers, addresses, URLs.
    sequence: Vec<u64>,
    /// Hashes of the tags of the pages in their order.
    tags: Vec<u64>,
    fresh: bool,
}

impl Default for ClassifierScratch {
    fn default() -> Self {
        ClassifierScratch {
            set: FeatureSet::new(TABLE_BITS, FEATURES_MAX),
            ends: [0; GROUPS],
            origins: Vec::new(),
            arena: String::new(),
            facts: Vec::new(),
            words: Vec::new(),
            sequence: Vec::new(),
            tags: Vec::new(),
            fresh: false,
        }
    }
}

impl ClassifierScratch {
    /// Reads a message; what was read before is gone.
    pub fn read(&mut self, message: &Message<'_>) {
        self.set.clear();
        self.origins.clear();
        self.arena.clear();
        self.facts.clear();
        self.words.clear();
        self.sequence.clear();
        self.tags.clear();
        reading::read(message, self);
        self.fresh = true;
    }

    /// Reads the message unless it was read since the last [`Self::forget`].
    pub(crate) fn read_once(&mut self, message: &Message<'_>) {
        if !self.fresh {
            self.read(message);
        }
    }

    /// Another message follows.
    pub(crate) fn forget(&mut self) {
        self.fresh = false;
    }

    /// The features and where each group ends.
    pub fn features(&self) -> (&[u32], &[usize; GROUPS]) {
        (self.set.indices(), &self.ends)
    }

    /// Hashes of the words of the text in their order; numbers, addresses and URLs are left out.
    pub fn sequence(&self) -> &[u64] {
        &self.sequence
    }

    /// Hashes of the first tags of the pages in their order.
    pub fn tags(&self) -> &[u64] {
        &self.tags
    }

    /// The next tag.
    pub(super) fn tag(&mut self, value: u64) {
        self.tags.push(value);
    }

    /// What a feature is, by its position, for a person: `link to example.com`.
    pub fn name(&self, position: usize) -> String {
        let group = Group::ALL.into_iter().find(|g| position < self.ends[g.index()]);
        let group = group.map_or("", Group::name);
        let Some(&origin) = self.origins.get(position) else { return format!("{group}:") };
        let number = (origin & ((1 << ORIGIN_SHIFT) - 1)) as usize;
        let (fact, pair);
        let pieces: &[&str] = match origin >> ORIGIN_SHIFT {
            0 => {
                let (kind, at, length) = self.facts.get(number).copied().unwrap_or_default();
                fact = [group, ": ", kind, " ", self.text(at, length)];
                &fact
            }
            WORD => {
                pair = [group, ": word \"", self.word(number), "\"", "", ""];
                &pair
            }
            reach => {
                let back = (reach - WORD) as usize;
                let gap = if back > 1 { " \u{2026} " } else { " " };
                let earlier = number.checked_sub(back).map_or("", |n| self.word(n));
                pair = [group, ": words \"", earlier, gap, self.word(number), "\""];
                &pair
            }
        };
        let mut name = pieces.concat();
        name.truncate(name.trim_end().len());
        name
    }

    fn word(&self, number: usize) -> &str {
        self.words.get(number).map_or("", |&(at, length)| self.text(at, length))
    }

    fn text(&self, at: u32, length: u16) -> &str {
        self.arena.get(at as usize..at as usize + usize::from(length)).unwrap_or_default()
    }

    /// The group ends here.
    pub(super) fn end(&mut self, group: Group) {
        for end in self.ends.iter_mut().skip(group.index()) {
            *end = self.set.indices().len();
        }
    }

    /// Adds `kind: value`.
    pub(super) fn fact(&mut self, group: Group, kind: &'static str, value: &str) {
        let at = self.arena.len();
        self.arena.push_str(value);
        self.fact_since(group, kind, at);
    }

    /// Adds `kind: value`, the value being written by `format_args!`.
    pub(super) fn fact_of(&mut self, group: Group, kind: &'static str, value: fmt::Arguments<'_>) {
        let at = self.arena.len();
        // Writing to a string cannot fail.
        let _ = self.arena.write_fmt(value);
        self.fact_since(group, kind, at);
    }

    /// A string to write a value to; [`Self::fact_since`] makes a fact of what stands from its end
    /// on.
    pub(super) fn arena(&mut self) -> &mut String {
        &mut self.arena
    }

    /// Adds `kind: value`, the value being what stands in the arena from `at` on.
    pub(super) fn fact_since(&mut self, group: Group, kind: &'static str, at: usize) {
        let value = self.arena.get(at..).unwrap_or_default();
        let hash = hash(hash_of_kind(group, kind), value.as_bytes());
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        if self.set.add(hash) {
            self.origins.push(self.facts.len() as u32);
            self.facts.push((kind, at as u32, length));
        } else {
            self.arena.truncate(at);
        }
    }

    /// Adds a feature by its hash.
    pub(super) fn hashed(&mut self, group: Group, kind: &'static str, value: u64, shown: &[u8]) {
        if self.set.add(mix(value ^ hash_of_kind(group, kind))) {
            let at = self.arena.len();
            match shown.is_ascii() {
                // Names of tags nearly always are, and so need no check as UTF-8.
                true => self.arena.extend(shown.iter().map(|&b| char::from(b))),
                false => self.arena.push_str(&String::from_utf8_lossy(shown)),
            }
            self.origins.push(self.facts.len() as u32);
            let length = u16::try_from(self.arena.len() - at).unwrap_or(u16::MAX);
            self.facts.push((kind, at as u32, length));
        }
    }

    /// Adds the words of a text, in lower case, and pairs of words near each other. Digits become
    /// `0`; invisible characters are dropped; words that mix alphabets are read as what they look
    /// like; addresses and URLs are left out. `Text` is kept as a sequence too.
    pub(super) fn words(&mut self, text: &str, group: Group) {
        let base = self.arena.len();
        self.arena.push_str(text);
        let mut window = Window { salt: mix(group.index() as u64 + 1), ..Window::default() };
        let mut words = Words { text, at: 0 };
        while let Some(word) = words.next() {
            let mut value = word.hash;
            if word.has(AT) {
                continue;
            }
            if word.has(FOREIGN) {
                value = self.foreign(&word, group);
            }
            if value == 0 {
                continue;
            }
            if group == Group::Text && !word.has(DIGIT) && self.sequence.len() < SEQUENCE_MAX {
                self.sequence.push(value);
            }
            let length = word.text.len().min(2 * WORD_BYTES_MAX) as u16;
            self.words.push(((base + word.start) as u32, length));
            self.push(value, &mut window);
        }
    }

    #[inline]
    fn push(&mut self, value: u64, window: &mut Window) {
        let number = (self.words.len() - 1) as u32 & ((1 << ORIGIN_SHIFT) - 1);
        if self.set.add(value ^ window.salt) {
            self.origins.push(WORD << ORIGIN_SHIFT | number);
        }
        let seen = window.seen;
        for (&earlier, back) in window.words.iter().zip(1u32..).take(seen) {
            let pair = value.wrapping_mul(31) ^ earlier.rotate_left(back * 9) ^ window.salt;
            if self.set.add(pair) {
                self.origins.push((WORD + back) << ORIGIN_SHIFT | number);
            }
        }
        window.words = [value, window.words[0]];
        window.seen = (seen + 1).min(REACH);
    }

    /// The hash of a word with other characters than ASCII, as a person reads it; 0 if nothing is
    /// left.
    fn foreign(&mut self, word: &Word<'_>, group: Group) -> u64 {
        let visible: String;
        let mut text = word.text;
        if word.has(INVISIBLE) {
            visible = text.chars().filter(|&c| !is_invisible(c)).collect();
            text = &visible;
            self.fact(group, "invisible characters in a word", "");
            if text.is_ascii() {
                return ascii_hash(text.as_bytes());
            }
        }
        if word.has(LATIN) && word.has(GREEK_OR_CYRILLIC) {
            self.fact(group, "a word of mixed alphabets", "");
            return ascii_hash(crate::lookalike::skeleton(text).as_bytes());
        }
        hash(101, reading::start(&text.to_lowercase(), 2 * WORD_BYTES_MAX).as_bytes())
    }
}

/// The last words.
#[derive(Default)]
struct Window {
    salt: u64,
    words: [u64; REACH],
    seen: usize,
}

/// One word of a text.
struct Word<'t> {
    text: &'t str,
    start: usize,
    /// Of ASCII words.
    hash: u64,
    /// [`AT`], [`DIGIT`], [`FOREIGN`] and what else a word may have.
    has: u16,
}

impl Word<'_> {
    fn has(&self, marks: u16) -> bool {
        self.has & marks != 0
    }
}

/// Finds words: letters and digits of any alphabet, and joiners. A Chinese, Japanese or Korean sign is a
/// word by itself, since nothing stands between words there.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

/// What a byte is folded to in a word: 0 ends it, 255 begins another character than ASCII. What the
/// word then has stands above: [`AT`], [`DIGIT`], [`FOREIGN`].
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
            128.. => 255 | FOREIGN,
            _ => 0,
        };
        byte += 1;
    }
    folded
};
/// An at sign, a digit, a byte of another character than ASCII.
const AT: u16 = 0x100;
const DIGIT: u16 = 0x200;
const FOREIGN: u16 = 0x400;
/// A Latin letter of ASCII, one of Greek or Cyrillic, an invisible character: told of foreign words.
const LATIN: u16 = 0x800;
const GREEK_OR_CYRILLIC: u16 = 0x1000;
const INVISIBLE: u16 = 0x2000;

impl<'t> Words<'t> {
    fn next(&mut self) -> Option<Word<'t>> {
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
            if has & FOREIGN != 0 {
                self.at = start;
                match self.foreign() {
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
    fn foreign(&mut self) -> Option<Word<'t>> {
        let (start, rest) = (self.at, self.text.get(self.at..)?);
        let (mut end, mut has) = (rest.len(), 0);
        for (i, c) in rest.char_indices() {
            if is_sign(c) {
                if i == 0 {
                    (end, has) = (c.len_utf8(), FOREIGN);
                } else {
                    end = i;
                }
                break;
            }
            has |= match c {
                '0'..='9' => DIGIT,
                'A'..='Z' | 'a'..='z' => LATIN,
                '@' => AT,
                '\u{370}'..='\u{52F}' if is_letter_or_digit(c) => GREEK_OR_CYRILLIC | FOREIGN,
                c if is_invisible(c) => INVISIBLE | FOREIGN,
                c if is_joiner(c) || is_letter_or_digit(c) => FOREIGN * u16::from(!c.is_ascii()),
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
        // The word may have ended before the foreign character.
        let hash = if has & FOREIGN == 0 { ascii_hash(text.as_bytes()) } else { 0 };
        Some(Word { text, start, hash, has })
    }
}

/// Characters inside a word beside letters and digits; `@` so that an address is one word.
fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '-' | '@' | '$' | '€' | '£' | '%')
}

/// Characters that show nothing and are put into words to hide them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{34F}')
}

/// Signs of scripts that put nothing between words: kana, ideographs, Thai, Hangul.
fn is_sign(c: char) -> bool {
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

/// A hash of a kind of feature.
fn hash_of_kind(group: Group, kind: &str) -> u64 {
    hash(group.index() as u64 + 0x1000, kind.as_bytes())
}

/// A hash of bytes, eight at a time.
fn hash(seed: u64, value: &[u8]) -> u64 {
    let mut hash = seed ^ (value.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut chunks = value.chunks_exact(8);
    for chunk in chunks.by_ref() {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    let tail = chunks.remainder().iter().fold(0, |tail, &b| tail << 8 | u64::from(b));
    mix(hash ^ tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Words { text, at: 0 };
        std::iter::from_fn(|| words.next()).map(|w| w.text).collect()
    }

    #[test]
    fn words_of_any_alphabet() {
        assert_eq!(words("Hello, it's a 10% off-day!"), ["Hello", "it's", "a", "10%", "off-day"]);
        assert_eq!(words("grüße—jetzt… née"), ["grüße", "jetzt", "née"]);
        assert_eq!(words("日本go東"), ["日", "本", "go", "東"]);
        assert_eq!(words("see http://example.com/a?b#c now <https://x.example>"), ["see", "now"]);
        assert_eq!(words("a@b.example"), ["a@b", "example"]);
        assert!(words("").is_empty() && words(" …—\u{A0} ").is_empty());
        assert_eq!(words("vi\u{200B}agra"), ["vi\u{200B}agra"]);
    }

    #[test]
    fn features_know_their_names() {
        let mut scratch = ClassifierScratch::default();
        scratch.read(&Message::parse(b"Subject: cheap pills now\nFrom: a@example.org\n\nx\n"));
        let count = scratch.features().0.len();
        let names: Vec<String> = (0..count).map(|i| scratch.name(i)).collect();
        for name in [
            "subject: word \"pills\"",
            "subject: words \"cheap pills\"",
            "subject: words \"cheap \u{2026} now\"",
            "sender: domain example.org",
        ] {
            assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
        }
        assert_eq!(scratch.name(99_999), ":", "no such feature");
    }
}
