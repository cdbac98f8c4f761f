//! Search for words in a Received field: dozens in each line, of which it has two or three. The
//! byte pairs of a line are recorded once; a word with a pair that the line lacks is not in it.

use std::ops::Deref;

use crate::views::perl;

/// The set of byte pairs of a text, by a case-insensitive hash.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pairs([u64; 8]);

impl Pairs {
    /// The pairs of a text.
    pub(super) const fn of(text: &[u8]) -> Self {
        let mut pairs = [0; 8];
        let Some((first, mut rest)) = text.split_first() else { return Pairs(pairs) };
        let mut before = *first & 0xdf;
        while let Some((byte, after)) = rest.split_first() {
            let byte = *byte & 0xdf;
            let hash = (before as usize * 11) ^ byte as usize;
            pairs[hash >> 6 & 7] |= 1 << (hash & 63);
            (before, rest) = (byte, after);
        }
        Pairs(pairs)
    }

    /// The pairs of both texts, for what needs both of them.
    pub(super) fn and(self, other: &Pairs) -> Self {
        Pairs(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether the other set has a pair that this one lacks.
    pub(super) fn lack(&self, other: &Pairs) -> bool {
        self.0.iter().zip(&other.0).fold(0, |missing, (here, wanted)| missing | wanted & !here) != 0
    }
}

/// A word with its pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    text: &'static str,
    pairs: Pairs,
}

impl Word {
    pub(super) const fn new(text: &'static str) -> Self {
        Word { text, pairs: Pairs::of(text.as_bytes()) }
    }
}

/// A line or the end of one, with the pairs of the whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    text: &'t [u8],
    pairs: &'t Pairs,
}

impl Deref for Line<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.text
    }
}

impl<'t> Line<'t> {
    /// A text and its pairs.
    pub(super) fn new(text: &'t [u8], pairs: &'t Pairs) -> Self {
        Line { text, pairs }
    }

    /// The text after a prefix.
    pub(super) fn after(&self, prefix: &[u8]) -> Option<Line<'t>> {
        self.text.strip_prefix(prefix).map(|text| Line { text, ..*self })
    }

    /// The text from here on.
    pub(super) fn starting_at(&self, at: usize) -> Line<'t> {
        Line { text: self.text.get(at..).unwrap_or_default(), ..*self }
    }

    /// Whether it contains a word; true for the empty one.
    pub(super) fn has(&self, word: &Word) -> bool {
        let is_there = || perl::find(self.text, word.text.as_bytes()).is_some();
        word.text.is_empty() || self.may_have(&word.pairs) && is_there()
    }

    /// Whether it may contain all words with these pairs, case-insensitively.
    pub(super) fn may_have(&self, pairs: &Pairs) -> bool {
        !self.pairs.lack(pairs)
    }
}

/// Whether a line has a constant word.
macro_rules! has {
    ($line:expr, $text:literal) => {{
        const WORD: $crate::views::relays::words::Word =
            $crate::views::relays::words::Word::new($text);
        $line.has(&WORD)
    }};
}
pub(super) use has;

/// Whether a line may contain a constant word, case-insensitively.
macro_rules! may_have {
    ($line:expr, $text:literal) => {{
        const PAIRS: $crate::views::relays::words::Pairs =
            $crate::views::relays::words::Pairs::of($text);
        $line.may_have(&PAIRS)
    }};
}
pub(super) use may_have;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_a_search_finds() {
        let text = b"from a.example (helo=b) by mx.example with ESMTP id 1; Mon, 2 Jan 2023";
        let pairs = Pairs::of(text);
        let line = Line::new(text, &pairs);
        for start in 0..text.len() {
            for end in start..text.len() {
                assert!(line.may_have(&Pairs::of(&text[start..end])));
                assert!(line.may_have(&Pairs::of(&text[start..end].to_ascii_uppercase())));
            }
        }
        for word in ["Exim", " (Postfix) with", "with mapi id ", "(qmail-"] {
            assert!(!line.has(&Word::new(word)));
        }
        assert!(has!(line, "helo=") && !has!(line, "HELO=") && may_have!(line, b"HELO="));
        assert!(
            line.after(b"from ").is_some_and(|rest| has!(rest, " by mx") && !has!(rest, "from"))
        );
    }

    #[test]
    fn few_words_pass_by_accident() {
        let text =
            b"from a.example ([192.0.2.1]) by mx.example (Postfix) with ESMTP id 12AB; Mon, 2 Jan";
        let pairs = Pairs::of(text);
        let words = [" SMTPSVC", "[XMail ", "(ecelerity", "Exim", "(Scalix SMTP Relay", "(qmail-"];
        let passing = words.iter().filter(|w| !pairs.lack(&Pairs::of(w.as_bytes())));
        assert!(passing.count() <= 1);
    }
}
