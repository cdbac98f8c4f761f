//! The features of one message, and where each came from.
//!
//! Names are not made while reading: a feature keeps the number of the fact or word it was made of,
//! and only the few features that an explanation shows are put into words.

use std::fmt::{self, Write};
use std::sync::LazyLock;

use super::features::FeatureSet;
use super::group::{FEATURES_MAX, GROUPS, Group, TABLE_BITS};
use super::tokens::{
    AT, DIGIT, GREEK_OR_CYRILLIC, INVISIBLE, LATIN, NON_ASCII, WORD_BYTES_MAX, Word, Words,
    ascii_hash, hash, is_invisible, start,
};
use crate::random::mix;

/// How many words a pair reaches back.
const REACH: usize = 2;
/// Words whose sequence is kept for signatures at most.
const SEQUENCE_MAX: usize = 4_000;
/// Words by which it is decided whether a text is English, and the fewest that suffice.
const SEQUENCE_READ: usize = 300;
const SEQUENCE_MIN: usize = 8;
/// Hashes of common words of English that other languages hardly have.
static COMMON_WORDS: LazyLock<[u64; 20]> = LazyLock::new(|| {
    let words = [
        "the", "and", "to", "you", "your", "this", "that", "with", "are", "have", "from", "will",
        "our", "it", "can", "please", "if", "has", "been", "was",
    ];
    words.map(|word| ascii_hash(word.as_bytes()))
});
/// Hashes of common words of languages with Latin letters (German, French, Spanish, Portuguese,
/// Italian, Dutch, Turkish, Indonesian) that English hardly has.
static OTHER_WORDS: LazyLock<[u64; 57]> = LazyLock::new(|| {
    let words = [
        "der", "und", "das", "ist", "nicht", "mit", "von", "den", "ich", "sie", "wir", "les", "et",
        "des", "est", "une", "pour", "vous", "nous", "el", "los", "las", "que", "por", "para",
        "una", "uma", "seu", "com", "em", "di", "che", "sono", "het", "een", "van", "ve", "bir",
        "bu", "yang", "dan", "untuk", "anda", "kami", "saya", "pada", "kita", "hari", "le", "la",
        "de", "du", "da", "na", "sobre", "je", "au",
    ];
    words.map(|word| ascii_hash(word.as_bytes()))
});
/// What a feature was made of: the kind in the upper four bits, the number of the fact or word
/// below.
const ORIGIN_SHIFT: u32 = 28;
/// A word alone; a pair that reaches `n` back is `WORD + n`; 0 is a fact.
const WORD: u32 = 1;

/// The features of one message, reused from message to message.
#[derive(Debug)]
pub struct ClassifierScratch {
    set: FeatureSet,
    ends: [usize; GROUPS],
    /// What each feature was made of (see [`ORIGIN_SHIFT`]), by its position.
    origins: Vec<u32>,
    /// Texts and values, one after the other.
    arena: String,
    /// Kind of each fact; offset and length of its value in the arena.
    values: Vec<(&'static str, u32, u16)>,
    /// Offset and length of each word in the arena.
    words: Vec<(u32, u16)>,
    /// Hashes of the words of the text in their order, without those that a sender changes from one
    /// copy to the next: numbers, addresses, URLs.
    sequence: Vec<u64>,
    /// Hashes of the tags of the pages in their order.
    tags: Vec<u64>,
    /// The message at hand was read.
    pub(super) fresh: bool,
}

impl Default for ClassifierScratch {
    fn default() -> Self {
        ClassifierScratch {
            set: FeatureSet::new(TABLE_BITS, FEATURES_MAX),
            ends: [0; GROUPS],
            origins: Vec::new(),
            arena: String::new(),
            values: Vec::new(),
            words: Vec::new(),
            sequence: Vec::new(),
            tags: Vec::new(),
            fresh: false,
        }
    }
}

impl ClassifierScratch {
    /// Empties everything before a message is read.
    pub(super) fn clear(&mut self) {
        self.set.clear();
        self.origins.clear();
        self.arena.clear();
        self.values.clear();
        self.words.clear();
        self.sequence.clear();
        self.tags.clear();
    }

    /// Marks what was read as that of another message, so that the next one is read anew.
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

    /// Whether the text is in another language than English, if `has_other_letters` says that it
    /// has letters of one: of its first words less than one in twenty is one of the commonest of
    /// English. Without such letters one in twenty must be one of the commonest of other languages,
    /// since lists of goods have none of either.
    pub fn is_unread(&self, has_other_letters: bool) -> bool {
        let words = self.sequence.get(..SEQUENCE_READ).unwrap_or(&self.sequence);
        let share = |of: &[u64]| words.iter().filter(|word| of.contains(word)).count() * 20;
        words.len() >= SEQUENCE_MIN
            && share(&*COMMON_WORDS) < words.len()
            && (has_other_letters || share(&*OTHER_WORDS) >= words.len())
    }

    /// Hashes of the first tags of the pages in their order.
    pub fn tags(&self) -> &[u64] {
        &self.tags
    }

    /// Appends the hash of a tag to [`Self::tags`].
    pub(super) fn tag(&mut self, value: u64) {
        self.tags.push(value);
    }

    /// What a feature is, by its position, for display: `link to example.com`.
    pub fn name(&self, position: usize) -> String {
        let group = Group::ALL.into_iter().find(|g| position < self.ends[g.index()]);
        let group = group.map_or("", Group::name);
        let Some(&origin) = self.origins.get(position) else { return format!("{group}:") };
        let number = (origin & ((1 << ORIGIN_SHIFT) - 1)) as usize;
        let (fact, pair);
        let pieces: &[&str] = match origin >> ORIGIN_SHIFT {
            0 => {
                let (kind, at, length) = self.values.get(number).copied().unwrap_or_default();
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

    /// Adds the feature `kind: value` to a group.
    pub(super) fn feature(&mut self, group: Group, kind: &'static str, value: &str) {
        let at = self.arena.len();
        self.arena.push_str(value);
        self.feature_since(group, kind, at);
    }

    /// Adds `kind: value`, the value being written by `format_args!`.
    pub(super) fn feature_fmt(
        &mut self,
        group: Group,
        kind: &'static str,
        value: fmt::Arguments<'_>,
    ) {
        let at = self.arena.len();
        // Writing to a string cannot fail.
        let _ = self.arena.write_fmt(value);
        self.feature_since(group, kind, at);
    }

    /// A string to write a value to; [`Self::feature_since`] makes a fact of what stands from its
    /// end on.
    pub(super) fn arena(&mut self) -> &mut String {
        &mut self.arena
    }

    /// Adds `kind: value`, the value being what stands in the arena from `at` on.
    pub(super) fn feature_since(&mut self, group: Group, kind: &'static str, at: usize) {
        let value = self.arena.get(at..).unwrap_or_default();
        let hash = hash(hash_of_kind(group, kind), value.as_bytes());
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        if self.set.add(hash) {
            self.origins.push(self.values.len() as u32);
            self.values.push((kind, at as u32, length));
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
            self.origins.push(self.values.len() as u32);
            let length = u16::try_from(self.arena.len() - at).unwrap_or(u16::MAX);
            self.values.push((kind, at as u32, length));
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
            if word.has(NON_ASCII) {
                value = self.non_ascii(&word, group);
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

    /// The hash of a word with other characters than ASCII, as it is displayed; 0 if nothing is
    /// left.
    fn non_ascii(&mut self, word: &Word<'_>, group: Group) -> u64 {
        let visible: String;
        let mut text = word.text;
        if word.has(INVISIBLE) {
            visible = text.chars().filter(|&c| !is_invisible(c)).collect();
            text = &visible;
            self.feature(group, "invisible characters in a word", "");
            if text.is_ascii() {
                return ascii_hash(text.as_bytes());
            }
        }
        if word.has(LATIN) && word.has(GREEK_OR_CYRILLIC) {
            self.feature(group, "a word of mixed alphabets", "");
            return ascii_hash(crate::lookalike::skeleton(text).as_bytes());
        }
        hash(101, start(&text.to_lowercase(), 2 * WORD_BYTES_MAX).as_bytes())
    }
}

/// The words before the one at hand, newest first: what pairs of words reach back to.
#[derive(Default)]
struct Window {
    salt: u64,
    words: [u64; REACH],
    seen: usize,
}

/// A hash of a kind of feature.
fn hash_of_kind(group: Group, kind: &str) -> u64 {
    hash(group.index() as u64 + 0x1000, kind.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::Message;

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
    fn a_text_without_common_words_of_english_is_unread() {
        let mut scratch = ClassifierScratch::default();
        let mut is_unread = |body: &str| {
            scratch.read(&Message::parse(format!("Subject: x\n\n{body}\n").as_bytes()));
            scratch.is_unread(!body.is_ascii())
        };
        assert!(!is_unread(
            "Thank you for the minutes, we will look at them with the others today."
        ));
        assert!(is_unread("Vielen Dank, wir sehen uns das Protokoll heute mit den anderen an."));
        assert!(is_unread(
            "merci pour le compte rendu, nous allons le lire avec les autres ce soir"
        ));
        assert!(
            !is_unread("cialis viagra levitra watches bags shoes rings pens"),
            "a list of goods"
        );
        assert!(is_unread("上周会议的记录见下文，我们可以星期四讨论。"));
        assert!(!is_unread("Danke!"), "too short to tell");
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
