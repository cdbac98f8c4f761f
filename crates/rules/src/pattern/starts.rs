//! Where a match may begin, by its first bytes.
//!
//! A backtracking engine starts again at every byte of a text, though hardly any begins a match.
//! Three bytes are checked for 32 positions at once (as Hyperscan's Teddy does), and a few more
//! bytes of the positions that remain. Patterns that begin at the start of a line are tried there
//! only.

use super::frequency::BYTE_FREQUENCIES;
use super::prefixes::{self, Anchoring, Prefix};
use super::syntax::{ByteSet, Node};

/// Lengths of the prefixes to try, as long as they do not become too many.
const LENGTHS: [usize; 3] = [3, 6, 12];
/// More prefixes than this are not made longer.
const PREFIXES_ENOUGH: usize = 64;
/// Most groups of prefixes, a bit each.
const GROUPS_MAX: usize = 32;
/// Bytes that are checked for many positions at once, and groups that they are checked for.
const TEDDY_BYTES: usize = 3;
const TEDDY_BUCKETS: usize = 8;
/// Positions that are checked at once.
const POSITIONS: usize = 32;
/// Bytes of a text that are read for them.
const BLOCK: usize = POSITIONS + TEDDY_BYTES - 1;
/// Lines of at least so many bytes are found from their ends.
const LONG_LINE: usize = 32;

/// Searching by first bytes is worthwhile if at most this share of the bytes of ordinary text
/// begins a match, and at most the second share passes the check of three bytes; if there is but
/// one position to try, up to the third.
const FREQUENCY_MAX: f64 = 0.02;
const TEDDY_FREQUENCY_MAX: f64 = 0.06;
const FREQUENCY_AT_START_MAX: f64 = 0.5;

/// Where the matches of a pattern may begin.
#[derive(Debug)]
pub(super) struct Starts {
    anchoring: Anchoring,
    /// Fewest bytes of a line that begins a match.
    line_bytes: usize,
    /// For each of the first bytes and its value, the groups that it fits.
    groups: Box<[[u32; 256]]>,
    /// For each of the first bytes, the groups whose prefixes end before it.
    ends: Vec<u32>,
    teddy: Teddy,
    /// Every match begins with the same two bytes, case-insensitively.
    is_pair: bool,
    /// Roughly how often a byte of text begins one of the prefixes, and how often it passes the
    /// check of three bytes.
    frequency: f64,
    teddy_frequency: f64,
}

/// Groups of the first three bytes by the lower and the upper nibble of a byte.
#[derive(Debug, Default)]
struct Teddy {
    low: [[u8; 16]; TEDDY_BYTES],
    high: [[u8; 16]; TEDDY_BYTES],
}

impl Teddy {
    fn insert(&mut self, at: usize, set: &ByteSet, group: usize) {
        for byte in set.iter() {
            self.low[at][usize::from(byte & 15)] |= 1 << group;
            self.high[at][usize::from(byte >> 4)] |= 1 << group;
        }
    }

    /// The first block, from `at` on in steps of [`POSITIONS`], in which a match may begin, with
    /// its positions as bits: no bits if fewer bytes are left than a block has.
    fn next(&self, text: &[u8], at: usize) -> (usize, u32) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, which is all that the function needs of its caller.
            return unsafe { self.next_with_avx2(text, at) };
        }
        self.next_one_by_one(text, at)
    }

    fn next_one_by_one(&self, text: &[u8], mut at: usize) -> (usize, u32) {
        while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let windows = block.windows(TEDDY_BYTES).enumerate();
            let positions = windows.fold(0, |positions, (position, bytes)| {
                let groups = bytes.iter().enumerate().fold(u8::MAX, |groups, (i, byte)| {
                    let (low, high) = (usize::from(byte & 15), usize::from(byte >> 4));
                    groups & self.low[i][low] & self.high[i][high]
                });
                positions | u32::from(groups != 0) << position
            });
            if positions != 0 {
                return (at, positions);
            }
            at += POSITIONS;
        }
        (at, 0)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn next_with_avx2(&self, text: &[u8], mut at: usize) -> (usize, u32) {
        use std::arch::x86_64::{
            __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
            _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
            _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
        };
        #[inline]
        #[target_feature(enable = "avx2")]
        fn twice(table: &[u8; 16]) -> __m256i {
            // SAFETY: the table has sixteen bytes; the load needs no alignment.
            _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
        }
        let half = _mm256_set1_epi8(15);
        while let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let mut groups = _mm256_set1_epi8(-1);
            for i in 0..TEDDY_BYTES {
                // SAFETY: the block has POSITIONS bytes from each of its first TEDDY_BYTES
                // positions on.
                let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(i).cast()) };
                let low = _mm256_and_si256(bytes, half);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
                let low = _mm256_shuffle_epi8(twice(&self.low[i]), low);
                let high = _mm256_shuffle_epi8(twice(&self.high[i]), high);
                groups = _mm256_and_si256(groups, _mm256_and_si256(low, high));
            }
            let none = _mm256_cmpeq_epi8(groups, _mm256_setzero_si256());
            let positions = !_mm256_movemask_epi8(none).cast_unsigned();
            if positions != 0 {
                return (at, positions);
            }
            at += POSITIONS;
        }
        (at, 0)
    }
}

impl Starts {
    /// The starts of a pattern; `None` if its first bytes say nothing.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let anchoring = prefixes::anchoring(node);
        let mut prefixes = None;
        for length in LENGTHS {
            let Some(longer) = prefixes::prefixes(node, length) else { break };
            let is_many = longer.len() > PREFIXES_ENOUGH;
            prefixes = Some(longer);
            if is_many {
                break;
            }
        }
        let prefixes = prefixes?;
        if prefixes.iter().any(Vec::is_empty) && anchoring == Anchoring::Anywhere {
            return None;
        }
        let length = prefixes.iter().map(Vec::len).max().unwrap_or(0);
        let groups = groups(&prefixes, length);
        let mut starts = Starts {
            anchoring,
            line_bytes: prefixes::line_bytes(node),
            groups: vec![[0; 256]; length].into(),
            ends: vec![0; length],
            teddy: Teddy::default(),
            is_pair: is_pair(&prefixes),
            frequency: 0.0,
            teddy_frequency: 0.0,
        };
        let mut teddy = vec![[ByteSet::default(); TEDDY_BYTES]; TEDDY_BUCKETS];
        for (group, prefix) in groups.iter().enumerate() {
            let mut frequency = 1.0;
            for (at, (table, end)) in starts.groups.iter_mut().zip(&mut starts.ends).enumerate() {
                let set = prefix.get(at).copied();
                let of_end = if set.is_none() { 1 << group } else { 0 };
                *end |= of_end;
                let set = set.unwrap_or(ByteSet::ALL);
                set.iter().for_each(|byte| table[usize::from(byte)] |= 1 << group);
                frequency *= set.sum_of(&BYTE_FREQUENCIES).min(1.0);
            }
            starts.frequency += frequency;
            let bucket = group * TEDDY_BUCKETS / groups.len();
            let newline = (anchoring == Anchoring::Line).then(|| ByteSet::of(b'\n'));
            let mut sets = newline.into_iter().chain(prefix.iter().copied());
            for set in &mut teddy[bucket] {
                *set = set.union(&sets.next().unwrap_or(ByteSet::ALL));
            }
        }
        for (group, sets) in teddy.iter().enumerate() {
            sets.iter().enumerate().for_each(|(at, set)| starts.teddy.insert(at, set, group));
            starts.teddy_frequency +=
                sets.iter().map(|s| s.sum_of(&BYTE_FREQUENCIES).min(1.0)).product::<f64>();
        }
        Some(starts)
    }

    /// Whether searching by first bytes is quicker than letting PCRE2 search, which does well by
    /// itself if all matches begin with the same two bytes.
    pub(super) fn is_worthwhile(&self) -> bool {
        match self.anchoring {
            Anchoring::Text => self.frequency <= FREQUENCY_AT_START_MAX,
            Anchoring::Line if self.line_bytes >= LONG_LINE => true,
            _ => {
                !self.is_pair
                    && self.frequency <= FREQUENCY_MAX
                    && self.teddy_frequency <= TEDDY_FREQUENCY_MAX
            }
        }
    }

    /// Whether all matches begin at the start of a line.
    pub(super) fn is_in_lines(&self) -> bool {
        self.anchoring == Anchoring::Line
    }

    /// Whether a match may begin here, by all bytes of the prefixes.
    #[inline]
    fn fits(&self, text: &[u8], at: usize) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        let mut groups = u32::MAX;
        for (table, byte) in self.groups.iter().zip(rest) {
            groups &= table[usize::from(*byte)];
            if groups == 0 {
                return false;
            }
        }
        self.ends.get(rest.len()).is_none_or(|end| groups & end != 0)
    }

    /// The first `Some` that `try_match` returns for a position at or after `from` where a match
    /// may begin.
    pub(super) fn find<T>(
        &self,
        text: &[u8],
        from: usize,
        mut try_match: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut try_match = |at| if self.fits(text, at) { try_match(at) } else { None };
        match self.anchoring {
            Anchoring::Text if from > 0 => None,
            Anchoring::Text => try_match(0),
            Anchoring::Line => {
                let is_start = from.checked_sub(1).is_none_or(|at| text.get(at) == Some(&b'\n'));
                let result = if is_start { try_match(from) } else { None };
                if result.is_some() {
                    return result;
                }
                if self.line_bytes >= LONG_LINE {
                    return self.find_in_long_lines(text, from, try_match);
                }
                // The newline before the line is the first of the three bytes.
                self.find_anywhere(text, from, |newline| try_match(newline + 1))
            }
            Anchoring::Anywhere => self.find_anywhere(text, from, try_match),
        }
    }

    fn find_anywhere<T>(
        &self,
        text: &[u8],
        from: usize,
        mut try_match: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut at = from;
        while at < text.len() {
            let (block, mut positions) = self.teddy.next(text, at);
            at = block;
            if positions == 0 {
                // The end of the text, padded to a block.
                let rest = text.get(at..)?;
                let mut block = [0; BLOCK];
                let there = rest.len().min(BLOCK);
                block[..there].copy_from_slice(&rest[..there]);
                positions = self.teddy.next(&block, 0).1;
                if there < POSITIONS {
                    positions &= (1 << there) - 1;
                }
            }
            while positions != 0 {
                let result = try_match(at + positions.trailing_zeros() as usize);
                if result.is_some() {
                    return result;
                }
                positions &= positions - 1;
            }
            at += POSITIONS;
        }
        None
    }

    /// The same for lines that must have many bytes: shorter ones are skipped from their ends.
    fn find_in_long_lines<T>(
        &self,
        text: &[u8],
        from: usize,
        mut try_match: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut at = from;
        loop {
            // The next line begins after `at`: find the first that is long enough.
            at += memchr::memchr(b'\n', text.get(at..)?)? + 1;
            while let Some(end) = memchr::memrchr(b'\n', text.get(at..at + self.line_bytes)?) {
                at += end + 1;
            }
            let result = try_match(at);
            if result.is_some() {
                return result;
            }
        }
    }
}

/// Whether every prefix begins with the same two bytes, case-insensitively.
fn is_pair(prefixes: &[Prefix]) -> bool {
    let first = |at: usize| {
        let mut sets =
            prefixes.iter().map(|prefix| prefix.get(at).copied().unwrap_or(ByteSet::ALL));
        sets.by_ref().reduce(|a, b| a.union(&b)).is_some_and(|set| set.len() <= 2)
    };
    first(0) && first(1)
}

/// The prefixes, joined until there are few enough of them.
fn groups(prefixes: &[Prefix], length: usize) -> Vec<Prefix> {
    let by = |key: &dyn Fn(usize, &Prefix) -> Prefix| {
        let mut groups: Vec<(Prefix, Prefix)> = Vec::new();
        for (number, prefix) in prefixes.iter().enumerate() {
            let key = key(number, prefix);
            match groups.iter_mut().find(|group| group.0 == key) {
                Some((_, group)) => {
                    group.truncate(prefix.len());
                    group.iter_mut().zip(prefix).for_each(|(a, b)| *a = a.union(b));
                }
                None => groups.push((key, prefix.clone())),
            }
            if groups.len() > GROUPS_MAX {
                return None;
            }
        }
        Some(groups.into_iter().map(|group| group.1).collect::<Vec<Prefix>>())
    };
    let first = |length: usize| by(&|_, prefix| prefix.iter().take(length).copied().collect());
    let joined = (1..=length).rev().find_map(first);
    let any = || by(&|number, _| vec![ByteSet::of((number * GROUPS_MAX / prefixes.len()) as u8)]);
    joined.or_else(any).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::pattern::parse::parse;

    /// Patterns with matches that begin in many ways.
    const PATTERNS: [&str; 24] = [
        "(?i)(?:sum of|us\\$|eur(?:os?)?|[0-9]{3}) ?[0-9]",
        "\\w<!--\\s*\\w+\\s*-->\\w",
        "(?m)^(?:to|from|subject):\\S",
        "(?m)^[^\\r\\n]{40}",
        "(?m)^[^\\r\\n]{40}x$",
        "^(?:to|\\s*from)",
        "(?m)(?:^a|^b)c?$",
        "\\bto\\b",
        "(?<=t)o|(?<!a)b",
        "(?=[a-c])\\w+(?!x)",
        "o$|\\n",
        "a?b?c",
        "(?:ab?){2,}c|x",
        "(a|b)\\1",
        "(?>a+)b|[^a-z]{3}",
        "z\\z",
        "(?m)^$",
        "(?m)^(?:a|)",
        "x*",
        "a{3,}?b",
        "[\\x80-\\xff]{2}",
        "(?:from|to)(?: the| a)? (?:end|side)",
        "(?:)",
        "[^\\s\\S]a|to",
    ];

    fn texts() -> Vec<Vec<u8>> {
        let mut texts: Vec<Vec<u8>> = vec![
            b"".to_vec(),
            b"z".to_vec(),
            b"to".to_vec(),
            b"\n".to_vec(),
            b"The sum of 5 US$ 7, euro 9 and 1234 to the end of a word\nto:x\nfrom: y\nSubject:z"
                .to_vec(),
            b"aw<!-- b -->c abab aa bb aab \xe9\xe9 from a side, to the end!!! aaab".to_vec(),
            [
                vec![b'l'; 39],
                b"\n".to_vec(),
                vec![b'm'; 40],
                b"\nshort\n".to_vec(),
                vec![b'n'; 80],
                b"x\n".to_vec(),
            ]
            .concat(),
            b"subject:a\n\n\nb\nac\nbc\n".to_vec(),
        ];
        let mut seed = 11u32;
        for length in [31, 32, 33, 34, 35, 63, 64, 65, 66, 67, 200] {
            let mut next = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                b"abctofrm \n:$1x<!-\xe9z"[(seed >> 16) as usize % 19]
            };
            texts.push((0..length).map(|_| next()).collect());
        }
        texts
    }

    #[test]
    fn matches_are_those_of_a_search_at_every_byte() {
        for pattern in PATTERNS {
            let pattern = Pattern::new(pattern).expect("valid");
            let Some(starts) = pattern.node().and_then(Starts::of) else { continue };
            for text in texts() {
                for from in 0..=text.len() {
                    let found =
                        starts.find(&text, from, |at| pattern.find_anchored(&text, at, None));
                    let expected = pattern.find_unanchored(&text, from, None);
                    assert_eq!(
                        found.unwrap_or(Ok(None)),
                        expected,
                        "{pattern:?} {} {from}",
                        text.escape_ascii()
                    );
                    assert_eq!(
                        pattern.find(&text, from),
                        expected,
                        "{pattern:?} {}",
                        text.escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn places_are_the_same_with_and_without_vectors() {
        for pattern in PATTERNS {
            let Some(starts) = Starts::of(&parse(pattern).expect("valid").node) else { continue };
            for text in texts() {
                for at in 0..text.len() {
                    let expected = starts.teddy.next_one_by_one(&text, at);
                    assert_eq!(starts.teddy.next(&text, at), expected, "{pattern}");
                }
            }
        }
    }

    #[test]
    fn where_it_is_worthwhile() {
        let is_worthwhile = |pattern: &str| {
            Starts::of(&parse(pattern).expect("valid").node)
                .is_some_and(|starts| starts.is_worthwhile())
        };
        assert!(is_worthwhile("(?i)(?:viagra|cialis|levitra)"));
        assert!(is_worthwhile("(?m)^[^\\r\\n]{998}"));
        assert!(is_worthwhile("^https?://\\d"));
        // Almost everywhere, at the start of every line, and what PCRE2 finds by itself.
        for pattern in ["[a-z]+x", "x*", "^.*x", "(?m)^[^>].*?<a href=", "\\nReceived:.*x"] {
            assert!(!is_worthwhile(pattern), "{pattern}");
        }
    }

    #[test]
    fn more_beginnings_than_kinds() {
        let words: Vec<String> = (0..2000).map(|n| format!("{:?}", n * 7919 % 10_007)).collect();
        let pattern = Pattern::new(&words.join("|")).expect("valid");
        if let Some(starts) = pattern.node().and_then(Starts::of) {
            let text = b"1 22 7919 5831 x 333 3743 9999 12 no 0";
            for from in 0..text.len() {
                let found = starts.find(text, from, |at| pattern.find_anchored(text, at, None));
                assert_eq!(
                    found.unwrap_or(Ok(None)),
                    pattern.find_unanchored(text, from, None),
                    "{from}"
                );
            }
        }
    }
}
