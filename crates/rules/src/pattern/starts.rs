//! Where a match may begin, told by its first bytes.
//!
//! A backtracking engine begins anew at every byte of a text. Hardly any of them begins a match, which three
//! bytes tell of 32 places at once (as Hyperscan's Teddy does), and a few bytes more of those that are
//! left. Patterns that begin at the start of a line are looked at there only.

use super::chance::BYTE_CHANCES;
use super::paths::{self, Lead, Path};
use super::syntax::{ByteSet, Node};

/// First bytes that are looked at, if that does not lead to too many rows of them.
const LENGTHS: [usize; 3] = [3, 6, 12];
/// So many rows are not made longer.
const ROWS_ENOUGH: usize = 64;
/// Most kinds of beginnings that are told from each other.
const KINDS_MAX: usize = 32;
/// Bytes that are looked at for many places at once, and kinds of them.
const QUICK_BYTES: usize = 3;
const QUICK_KINDS: usize = 8;
/// Places that are looked at together.
const PLACES: usize = 32;
/// Bytes of a text that are read for them.
const BLOCK: usize = PLACES + QUICK_BYTES - 1;
/// Lines that must have so many bytes are found from their ends.
const LONG_LINE: usize = 32;

/// It pays to look for them if they begin at no more than this share of the bytes, and the first three bytes
/// say so at no more than that; where there is but one place to look at, more often.
const SELDOM: f64 = 0.02;
const SELDOM_QUICKLY: f64 = 0.06;
const SELDOM_AT_START: f64 = 0.5;

/// The beginnings of a pattern's matches.
#[derive(Debug)]
pub(super) struct Starts {
    lead: Lead,
    /// Fewest bytes of the line that a match begins.
    line_bytes: usize,
    /// For each of the first bytes, which kinds have it.
    kinds: Box<[[u32; 256]]>,
    /// For each of the first bytes, which kinds need neither it nor those after it.
    ends: Vec<u32>,
    quick: Quick,
    /// Every match begins with the same two bytes, in any case.
    is_pair: bool,
    /// Roughly how often a byte of text begins one of the kinds, and how often the first three bytes say so.
    chance: f64,
    quick_chance: f64,
}

/// Kinds of the first bytes by the lower and the upper half of a byte.
#[derive(Debug, Default)]
struct Quick {
    low: [[u8; 16]; QUICK_BYTES],
    high: [[u8; 16]; QUICK_BYTES],
}

impl Quick {
    fn put(&mut self, at: usize, set: &ByteSet, kind: usize) {
        for byte in set.iter() {
            self.low[at][usize::from(byte & 15)] |= 1 << kind;
            self.high[at][usize::from(byte >> 4)] |= 1 << kind;
        }
    }

    /// The first block, from `at` on in steps of [`PLACES`], in which a match may begin, and at which of its
    /// places, as bits: none where fewer bytes are left than a block has.
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
            let windows = block.windows(QUICK_BYTES).enumerate();
            let places = windows.fold(0, |places, (place, bytes)| {
                let kinds = bytes.iter().enumerate().fold(u8::MAX, |kinds, (i, byte)| {
                    let (low, high) = (usize::from(byte & 15), usize::from(byte >> 4));
                    kinds & self.low[i][low] & self.high[i][high]
                });
                places | u32::from(kinds != 0) << place
            });
            if places != 0 {
                return (at, places);
            }
            at += PLACES;
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
            let mut kinds = _mm256_set1_epi8(-1);
            for i in 0..QUICK_BYTES {
                // SAFETY: the block has PLACES bytes from each of its first QUICK_BYTES places on.
                let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(i).cast()) };
                let low = _mm256_and_si256(bytes, half);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
                let low = _mm256_shuffle_epi8(twice(&self.low[i]), low);
                let high = _mm256_shuffle_epi8(twice(&self.high[i]), high);
                kinds = _mm256_and_si256(kinds, _mm256_and_si256(low, high));
            }
            let none = _mm256_cmpeq_epi8(kinds, _mm256_setzero_si256());
            let places = !_mm256_movemask_epi8(none).cast_unsigned();
            if places != 0 {
                return (at, places);
            }
            at += PLACES;
        }
        (at, 0)
    }
}

impl Starts {
    /// Of a pattern; none if its first bytes tell nothing.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let lead = paths::lead(node);
        let mut rows = None;
        for length in LENGTHS {
            let Some(longer) = paths::paths(node, length) else { break };
            let is_many = longer.len() > ROWS_ENOUGH;
            rows = Some(longer);
            if is_many {
                break;
            }
        }
        let rows = rows?;
        if rows.iter().any(Vec::is_empty) && lead == Lead::Anywhere {
            return None;
        }
        let length = rows.iter().map(Vec::len).max().unwrap_or(0);
        let kinds = kinds(&rows, length);
        let mut starts = Starts {
            lead,
            line_bytes: paths::line_bytes(node),
            kinds: vec![[0; 256]; length].into(),
            ends: vec![0; length],
            quick: Quick::default(),
            is_pair: is_pair(&rows),
            chance: 0.0,
            quick_chance: 0.0,
        };
        let mut quick = vec![[ByteSet::default(); QUICK_BYTES]; QUICK_KINDS];
        for (kind, row) in kinds.iter().enumerate() {
            let mut chance = 1.0;
            for (at, (table, end)) in starts.kinds.iter_mut().zip(&mut starts.ends).enumerate() {
                let set = row.get(at).copied();
                let of_end = if set.is_none() { 1 << kind } else { 0 };
                *end |= of_end;
                let set = set.unwrap_or(ByteSet::ALL);
                set.iter().for_each(|byte| table[usize::from(byte)] |= 1 << kind);
                chance *= set.sum_of(&BYTE_CHANCES).min(1.0);
            }
            starts.chance += chance;
            let bucket = kind * QUICK_KINDS / kinds.len();
            let newline = (lead == Lead::Line).then(|| ByteSet::of(b'\n'));
            let mut sets = newline.into_iter().chain(row.iter().copied());
            for set in &mut quick[bucket] {
                *set = set.union(&sets.next().unwrap_or(ByteSet::ALL));
            }
        }
        for (kind, sets) in quick.iter().enumerate() {
            sets.iter().enumerate().for_each(|(at, set)| starts.quick.put(at, set, kind));
            starts.quick_chance +=
                sets.iter().map(|s| s.sum_of(&BYTE_CHANCES).min(1.0)).product::<f64>();
        }
        Some(starts)
    }

    /// Whether looking for them is quicker than letting PCRE2 look, which does well by itself where all matches
    /// begin with the same two bytes.
    pub(super) fn pays(&self) -> bool {
        match self.lead {
            Lead::Text => self.chance <= SELDOM_AT_START,
            Lead::Line if self.line_bytes >= LONG_LINE => true,
            _ => !self.is_pair && self.chance <= SELDOM && self.quick_chance <= SELDOM_QUICKLY,
        }
    }

    /// Whether all matches begin at the start of a line.
    pub(super) fn is_in_lines(&self) -> bool {
        self.lead == Lead::Line
    }

    /// Whether the first bytes of a match may stand here.
    #[inline]
    fn fits(&self, text: &[u8], at: usize) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        let mut kinds = u32::MAX;
        for (table, byte) in self.kinds.iter().zip(rest) {
            kinds &= table[usize::from(*byte)];
            if kinds == 0 {
                return false;
            }
        }
        self.ends.get(rest.len()).is_none_or(|end| kinds & end != 0)
    }

    /// What is told of the first place at or after `from` where a match may begin and of which something is
    /// told.
    pub(super) fn find<T>(
        &self,
        text: &[u8],
        from: usize,
        mut tell: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut tell = |at| if self.fits(text, at) { tell(at) } else { None };
        match self.lead {
            Lead::Text if from > 0 => None,
            Lead::Text => tell(0),
            Lead::Line => {
                let is_start = from.checked_sub(1).is_none_or(|at| text.get(at) == Some(&b'\n'));
                let told = if is_start { tell(from) } else { None };
                if told.is_some() {
                    return told;
                }
                if self.line_bytes >= LONG_LINE {
                    return self.find_in_long_lines(text, from, tell);
                }
                // The newline is one of the quick bytes.
                self.find_anywhere(text, from, |newline| tell(newline + 1))
            }
            Lead::Anywhere => self.find_anywhere(text, from, tell),
        }
    }

    fn find_anywhere<T>(
        &self,
        text: &[u8],
        from: usize,
        mut tell: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut at = from;
        while at < text.len() {
            let (block, mut places) = self.quick.next(text, at);
            at = block;
            if places == 0 {
                // The end, with nothing behind it.
                let rest = text.get(at..)?;
                let mut block = [0; BLOCK];
                let there = rest.len().min(BLOCK);
                block[..there].copy_from_slice(&rest[..there]);
                places = self.quick.next(&block, 0).1;
                if there < PLACES {
                    places &= (1 << there) - 1;
                }
            }
            while places != 0 {
                let told = tell(at + places.trailing_zeros() as usize);
                if told.is_some() {
                    return told;
                }
                places &= places - 1;
            }
            at += PLACES;
        }
        None
    }

    /// The same for lines that must have many bytes: most are jumped over.
    fn find_in_long_lines<T>(
        &self,
        text: &[u8],
        from: usize,
        mut tell: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut at = from;
        loop {
            // Behind `at` the next line begins: of those that are long enough the first.
            at += memchr::memchr(b'\n', text.get(at..)?)? + 1;
            while let Some(end) = memchr::memrchr(b'\n', text.get(at..at + self.line_bytes)?) {
                at += end + 1;
            }
            let told = tell(at);
            if told.is_some() {
                return told;
            }
        }
    }
}

/// Whether every row begins with the same two bytes, in any case.
fn is_pair(rows: &[Path]) -> bool {
    let first = |at: usize| {
        let mut sets = rows.iter().map(|row| row.get(at).copied().unwrap_or(ByteSet::ALL));
        sets.by_ref().reduce(|a, b| a.union(&b)).is_some_and(|set| set.len() <= 2)
    };
    first(0) && first(1)
}

/// The rows, joined until there are few enough of them.
fn kinds(rows: &[Path], length: usize) -> Vec<Path> {
    let by = |key: &dyn Fn(usize, &Path) -> Path| {
        let mut kinds: Vec<(Path, Path)> = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let key = key(number, row);
            match kinds.iter_mut().find(|kind| kind.0 == key) {
                Some((_, kind)) => {
                    kind.truncate(row.len());
                    kind.iter_mut().zip(row).for_each(|(a, b)| *a = a.union(b));
                }
                None => kinds.push((key, row.clone())),
            }
            if kinds.len() > KINDS_MAX {
                return None;
            }
        }
        Some(kinds.into_iter().map(|kind| kind.1).collect::<Vec<Path>>())
    };
    let first = |length: usize| by(&|_, row| row.iter().take(length).copied().collect());
    let joined = (1..=length).rev().find_map(first);
    let any = || by(&|number, _| vec![ByteSet::of((number * KINDS_MAX / rows.len()) as u8)]);
    joined.or_else(any).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::pattern::parse::parse;

    /// Patterns with matches that begin in all sorts of ways.
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
                    let found = starts.find(&text, from, |at| pattern.find_here(&text, at, None));
                    let expected = pattern.find_everywhere(&text, from, None);
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
                    let expected = starts.quick.next_one_by_one(&text, at);
                    assert_eq!(starts.quick.next(&text, at), expected, "{pattern}");
                }
            }
        }
    }

    #[test]
    fn where_it_pays() {
        let pays = |pattern: &str| {
            Starts::of(&parse(pattern).expect("valid").node).is_some_and(|starts| starts.pays())
        };
        assert!(pays("(?i)(?:viagra|cialis|levitra)"));
        assert!(pays("(?m)^[^\\r\\n]{998}"));
        assert!(pays("^https?://\\d"));
        // Almost everywhere, at everything's beginning, and what PCRE2 finds by itself.
        for pattern in ["[a-z]+x", "x*", "^.*x", "(?m)^[^>].*?<a href=", "\\nReceived:.*x"] {
            assert!(!pays(pattern), "{pattern}");
        }
    }

    #[test]
    fn more_beginnings_than_kinds() {
        let words: Vec<String> = (0..2000).map(|n| format!("{:?}", n * 7919 % 10_007)).collect();
        let pattern = Pattern::new(&words.join("|")).expect("valid");
        if let Some(starts) = pattern.node().and_then(Starts::of) {
            let text = b"1 22 7919 5831 x 333 3743 9999 12 no 0";
            for from in 0..text.len() {
                let found = starts.find(text, from, |at| pattern.find_here(text, at, None));
                assert_eq!(
                    found.unwrap_or(Ok(None)),
                    pattern.find_everywhere(text, from, None),
                    "{from}"
                );
            }
        }
    }
}
