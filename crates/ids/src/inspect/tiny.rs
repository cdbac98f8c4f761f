//! Patterns of one to three bytes, all at once: each belongs to one of eight buckets, and tables by
//! byte say which buckets have a pattern that goes on so here (after "Teddy" of Hyperscan: X. Wang
//! et al., "Hyperscan: a fast multi-pattern regex matcher for modern CPUs", 2019).

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::grams::commonness;

/// A bit each.
const BUCKETS: usize = 8;

/// Buckets that patterns of a single byte have for themselves: they are soon found, and then such
/// a bucket is done with.
const SINGLES_MAX: usize = 4;

/// Which buckets have a pattern with this byte at its first place that is looked at, and at its
/// second one; of a pattern of a single byte anything follows.
#[derive(Debug)]
struct Tables {
    first: [u8; 256],
    second: [u8; 256],
}

/// A pattern in its bucket.
#[derive(Debug, Clone, Copy)]
struct Member {
    pattern: u32,
    /// Where the bytes that are looked at lie in it.
    at: u8,
}

/// A pattern that is to be looked for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) number: u32,
    /// In small letters.
    pub(super) text: &'a [u8],
    /// As it has to be written; empty if case does not count.
    pub(super) exact: Vec<&'a [u8]>,
    /// Within how many bytes from the beginning it lies, if not anywhere.
    pub(super) within: Option<usize>,
}

impl Wanted<'_> {
    /// Whether it can have this byte at a place.
    fn fits(&self, at: usize, value: u8) -> bool {
        if self.exact.is_empty() {
            return self.text.get(at) == Some(&value.to_ascii_lowercase());
        }
        self.exact.iter().any(|text| text.get(at) == Some(&value))
    }
}

/// A few short patterns.
#[derive(Debug, Default)]
pub(super) struct Tiny {
    tables: Option<Box<Tables>>,
    #[cfg(target_arch = "x86_64")]
    nibbles: avx2::Nibbles,
    buckets: [Vec<Member>; BUCKETS],
    /// Buckets whose patterns lie in the beginning alone, and how far that reaches.
    heads: u8,
    heads_within: usize,
}

/// What is still looked for.
struct Search<'a, F> {
    tiny: &'a Tiny,
    tables: &'a Tables,
    bytes: &'a [u8],
    /// Buckets some of whose patterns are.
    live: u8,
    /// By bucket: patterns that need not be found again.
    done: [u32; BUCKETS],
    found: &'a mut F,
}

impl Tiny {
    /// So many are looked for at once; with more, most places would have to be compared.
    pub(super) const PATTERNS_MAX: usize = 32;

    /// Of these patterns.
    pub(super) fn new(mut patterns: Vec<Wanted<'_>>) -> Self {
        let mut made = Self::default();
        if patterns.is_empty() {
            return made;
        }
        // Those that begin alike share a bucket, so that few places look like one of its patterns.
        patterns
            .sort_by_key(|wanted| (wanted.within.is_none(), wanted.text.len() > 1, wanted.text));
        let mut tables = Box::new(Tables { first: [0; 256], second: [0; 256] });
        let mut bucket = 0;
        for (left, kind) in shares(&patterns) {
            for own in kind.chunks(kind.len().div_ceil(left.max(1)).max(1)) {
                for wanted in own {
                    made.put(bucket.min(BUCKETS - 1), wanted, &mut tables);
                }
                bucket += 1;
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            made.nibbles = avx2::Nibbles::new(&tables.first, &tables.second);
        }
        made.tables = Some(tables);
        made
    }

    fn put(&mut self, bucket: usize, wanted: &Wanted<'_>, tables: &mut Tables) {
        let (at, bit) = (place(wanted.text), 1 << bucket);
        for value in 0..=u8::MAX {
            if let Some(set) = tables.first.get_mut(usize::from(value))
                && wanted.fits(at, value)
            {
                *set |= bit;
            }
            if let Some(set) = tables.second.get_mut(usize::from(value))
                && (wanted.text.len() == at + 1 || wanted.fits(at + 1, value))
            {
                *set |= bit;
            }
        }
        if let Some(within) = wanted.within {
            self.heads |= bit;
            self.heads_within = self.heads_within.max(within);
        }
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket.push(Member { pattern: wanted.number, at: u8::try_from(at).unwrap_or(0) });
        }
    }

    /// Hands out patterns that may lie in the bytes, each with the place where it would begin.
    /// `found` says whether a pattern need not be found again.
    pub(super) fn search(&self, bytes: &[u8], found: &mut impl FnMut(u32, usize) -> bool) {
        let Some(tables) = &self.tables else { return };
        let all = self.buckets.iter().enumerate().filter(|(_, bucket)| !bucket.is_empty());
        let live = all.fold(0, |live, (bucket, _)| live | 1 << bucket);
        let done = [0; BUCKETS];
        let mut search = Search { tiny: self, tables, bytes, live, done, found };
        let heads_end = self.heads_within.min(bytes.len());
        search.run(0, heads_end);
        search.live &= !self.heads;
        search.run(heads_end, bytes.len());
    }
}

/// Runs of patterns that share no bucket with others (heads, and of both those of a single byte),
/// each with how many buckets it gets; all together have at most as many as there are.
fn shares<'a, 'b>(patterns: &'b [Wanted<'a>]) -> Vec<(usize, &'b [Wanted<'a>])> {
    let alike = |one: &Wanted<'_>, other: &Wanted<'_>| {
        one.within.is_some() == other.within.is_some()
            && (one.text.len() > 1) == (other.text.len() > 1)
    };
    let runs: Vec<&[Wanted<'_>]> = patterns.chunk_by(alike).collect();
    let is_single = |run: &[Wanted<'_>]| run.first().is_some_and(|wanted| wanted.text.len() == 1);
    let mut left = BUCKETS;
    let mut made = Vec::new();
    let singles = runs.iter().filter(|run| is_single(run)).count();
    let longs = runs.len() - singles;
    for run in runs.iter().filter(|run| is_single(run)) {
        let share = run.len().min(SINGLES_MAX / singles.max(1)).max(1);
        left -= share;
        made.push((share, *run));
    }
    for (i, run) in runs.iter().filter(|run| !is_single(run)).enumerate() {
        let share = run.len().min(left / (longs - i)).max(1);
        left -= share;
        made.push((share, *run));
    }
    made
}

/// Where the two bytes lie that are looked at: the rarer ones of three.
fn place(text: &[u8]) -> usize {
    match text {
        [first, _, third] if commonness(*third) < commonness(*first) => 1,
        _ => 0,
    }
}

impl<F: FnMut(u32, usize) -> bool> Search<'_, F> {
    /// Looks at all places from `at` to before `end`.
    fn run(&mut self, at: usize, end: usize) {
        let mut at = at;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            at = unsafe { avx2::blocks(self, at, end) };
        }
        while at < end && self.live != 0 {
            self.look(at);
            at += 1;
        }
    }

    /// Compares the patterns that may lie at a place.
    fn look(&mut self, at: usize) {
        let set = |table: &[u8; 256], at: usize| {
            let byte = self.bytes.get(at);
            byte.and_then(|byte| table.get(usize::from(*byte))).copied()
        };
        // Behind the end only patterns of a single byte go on, which the comparison finds out.
        let second = set(&self.tables.second, at + 1).unwrap_or(u8::MAX);
        let mut buckets = set(&self.tables.first, at).unwrap_or(0) & second & self.live;
        while buckets != 0 {
            let bucket = buckets.trailing_zeros() as usize;
            buckets &= buckets - 1;
            self.compare(bucket, at);
        }
    }

    fn compare(&mut self, bucket: usize, at: usize) {
        let tiny = self.tiny;
        let (Some(members), Some(done)) = (tiny.buckets.get(bucket), self.done.get_mut(bucket))
        else {
            return;
        };
        for (place, member) in members.iter().enumerate() {
            let bit = 1 << place;
            if *done & bit == 0
                && let Some(begin) = at.checked_sub(usize::from(member.at))
                && (self.found)(member.pattern, begin)
            {
                *done |= bit;
            }
        }
        if done.count_ones() as usize == members.len() {
            self.live &= !(1 << bucket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that `search` hands out, in order, if nothing is ever done.
    fn found(tiny: &Tiny, bytes: &[u8]) -> Vec<(u32, usize)> {
        let mut all = Vec::new();
        tiny.search(bytes, &mut |pattern, begin| {
            all.push((pattern, begin));
            false
        });
        all
    }

    #[test]
    fn every_place_of_a_pattern_is_handed_out() {
        let texts: [&[u8]; 9] =
            [b"4", b"m", b"\x16\x03", b"get", b"{\0", b"\xff\xd8\xff", b"..", b"%n", b"a b"];
        let numbered = || (0u32..).zip(texts);
        let wanted = |(number, text), within| Wanted { number, text, exact: Vec::new(), within };
        let anywhere = Tiny::new(numbered().map(|of| wanted(of, None)).collect());
        let heads = numbered().map(|of| wanted(of, (of.0 % 2 == 0).then_some(40)));
        let heads = Tiny::new(heads.collect());
        let mut state = 7_u64;
        let mut bytes = Vec::new();
        while bytes.len() < 4_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = (state >> 56) as usize;
            match texts.get(place % 40) {
                Some(text) if place & 128 == 0 => bytes.extend(text.to_ascii_uppercase()),
                Some(text) => bytes.extend_from_slice(text),
                None => bytes.push((state >> 48) as u8),
            }
        }
        for len in (0..100).chain([333, 4_000]) {
            let part = bytes.get(..len).unwrap_or_default();
            let (all, early) = (found(&anywhere, part), found(&heads, part));
            for (number, text) in numbered() {
                for begin in 0..(len + 1).saturating_sub(text.len()) {
                    let is_there = part
                        .get(begin..begin + text.len())
                        .unwrap_or_default()
                        .to_ascii_lowercase()
                        == text;
                    let reaches = number % 2 == 1 || begin + text.len() <= 40;
                    let place = (number, begin);
                    assert!(!is_there || all.contains(&place), "{place:?} of {len}");
                    assert!(!is_there || !reaches || early.contains(&place), "{place:?} of {len}");
                }
            }
        }
    }

    #[test]
    fn what_is_done_is_not_handed_out_again() {
        let wanted = |number, text| Wanted { number, text, exact: vec![text], within: None };
        let tiny = Tiny::new(vec![wanted(1, b"4"), wanted(2, b"ab")]);
        let mut all = Vec::new();
        tiny.search(&b"44ab4ab4".repeat(20), &mut |pattern, begin| {
            all.push((pattern, begin));
            pattern == 1
        });
        assert_eq!(all.iter().filter(|(pattern, _)| *pattern == 1).count(), 1);
        assert_eq!(all.iter().filter(|(pattern, _)| *pattern == 2).count(), 40);
    }
}
