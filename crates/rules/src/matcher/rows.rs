//! Looks for the rows of many patterns at once: one bit a place, one step a byte.
//!
//! This is the Shift-And method (Baeza-Yates and Gonnet 1992) with places that may be stayed at
//! (Navarro and Raffinot 1999), over several machine words side by side. A text is searched as if a
//! newline stood before and after it.

use crate::pattern::sequence::{PLACES_MAX, Row};

/// Words that are stepped together: the compiler makes vector instructions of them.
const LANES: usize = 8;
/// So many are enough for a few rows, whose tables then are a quarter as large: most of them stay in the
/// cache that is next to the CPU.
const LANES_FEW: usize = 2;
/// Bytes of a text that are looked at together whether they are all the same.
const BLOCK_BYTES: usize = 16;

/// Rows of many patterns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    chunks: Vec<Chunk<LANES>>,
    /// In place of chunks, where there are but a few rows.
    few: Option<Chunk<LANES_FEW>>,
}

/// Some words of bits, and what each byte does to them.
#[derive(Debug)]
struct Chunk<const L: usize> {
    /// For each byte the places that it enters, then those that it stays at.
    steps: Box<[([u64; L], [u64; L]); 256]>,
    /// First places.
    first: [u64; L],
    /// Last places.
    last: [u64; L],
    /// The pattern of each bit in `last`.
    owners: Vec<[u32; PLACES_MAX]>,
}

/// How often a text begins with a byte.
#[inline]
pub(super) fn run_length(text: &[u8], byte: u8) -> usize {
    let (blocks, _) = text.as_chunks::<BLOCK_BYTES>();
    let mut length = 0;
    for block in blocks {
        if *block != [byte; BLOCK_BYTES] {
            break;
        }
        length += BLOCK_BYTES;
    }
    while text.get(length) == Some(&byte) {
        length += 1;
    }
    length
}

impl<const L: usize> Chunk<L> {
    fn new() -> Self {
        Chunk {
            steps: Box::new([([0; L], [0; L]); 256]),
            first: [0; L],
            last: [0; L],
            owners: vec![[0; PLACES_MAX]; L],
        }
    }

    /// Calls `found` with each pattern whose last place was reached.
    fn tell(&self, reached: &[u64; L], found: &mut impl FnMut(u32)) {
        for ((reached, last), owners) in reached.iter().zip(&self.last).zip(&self.owners) {
            let mut ends = reached & last;
            while ends != 0 {
                found(owners[ends.trailing_zeros() as usize]);
                ends &= ends - 1;
            }
        }
    }

    /// Puts a row into a word, from this bit on. Its last place stays reached whatever follows.
    fn put(&mut self, row: &Row, owner: u32, lane: usize, bit: usize) {
        for (at, place) in row.places.iter().enumerate() {
            let mask = 1u64 << (bit + at);
            place.enter.iter().for_each(|b| self.steps[usize::from(b)].0[lane] |= mask);
            place.stay.iter().for_each(|b| self.steps[usize::from(b)].1[lane] |= mask);
        }
        let end = bit + row.places.len() - 1;
        self.steps.iter_mut().for_each(|(_, stay)| stay[lane] |= 1 << end);
        self.first[lane] |= 1 << bit;
        self.last[lane] |= 1 << end;
        self.owners[lane][end] = owner;
    }

    /// The places that are reached at the end of the text, last ones wherever they were.
    fn reached(&self, text: &[u8]) -> [u64; L] {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, the only thing that the function needs beyond safe code.
            return unsafe { self.reached_with_avx2(text) };
        }
        self.reached_step_by_step(text)
    }

    /// The same, compiled for wider vectors.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn reached_with_avx2(&self, text: &[u8]) -> [u64; L] {
        self.reached_step_by_step(text)
    }

    #[inline(always)]
    fn reached_step_by_step(&self, text: &[u8]) -> [u64; L] {
        let mut state = [0; L];
        self.step(b'\n', &mut state);
        let mut rest = text;
        // Loops, because closures would not be compiled for the wider vectors.
        while let Some((block, after)) = rest.split_first_chunk::<BLOCK_BYTES>() {
            let first = block[0];
            if *block != [first; BLOCK_BYTES] {
                for byte in block {
                    self.step(*byte, &mut state);
                }
                rest = after;
                continue;
            }
            // Lines of one sign: once a step changes nothing, neither do those that follow. What ends the
            // run is stepped alone, for another run may follow it.
            let run = run_length(rest, first);
            for _ in 0..run {
                let before = state;
                self.step(first, &mut state);
                if state == before {
                    break;
                }
            }
            rest = rest.get(run..).unwrap_or_default();
            if let Some((end, after)) = rest.split_first() {
                self.step(*end, &mut state);
                rest = after;
            }
        }
        for byte in rest {
            self.step(*byte, &mut state);
        }
        self.step(b'\n', &mut state);
        state
    }

    #[inline(always)]
    fn step(&self, byte: u8, state: &mut [u64; L]) {
        let (enter, stay) = &self.steps[usize::from(byte)];
        for i in 0..L {
            // What does not wait for the state stands apart.
            let begun = self.first[i] & enter[i];
            state[i] = state[i] << 1 & enter[i] | (state[i] & stay[i] | begun);
        }
    }
}

impl Rows {
    /// Packs rows, each with the pattern that it belongs to, into words.
    pub(crate) fn new(mut rows: Vec<(Row, u32)>) -> Self {
        rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.places.len()));
        let mut filled: Vec<usize> = Vec::new();
        let mut packed = Vec::with_capacity(rows.len());
        for (row, owner) in &rows {
            let length = row.places.len();
            let fits = filled.iter().position(|used| used + length <= PLACES_MAX);
            let word = fits.unwrap_or(filled.len());
            if word == filled.len() {
                filled.push(0);
            }
            if let Some(used) = filled.get_mut(word) {
                packed.push((row, *owner, word, *used));
                *used += length;
            }
        }
        let mut all = Rows::default();
        if (1..=LANES_FEW).contains(&filled.len()) {
            all.few = Some(Chunk::new());
        } else {
            all.chunks.resize_with(filled.len().div_ceil(LANES), Chunk::new);
        }
        for (row, owner, word, bit) in packed {
            if let Some(few) = &mut all.few {
                few.put(row, owner, word, bit);
            } else if let Some(chunk) = all.chunks.get_mut(word / LANES) {
                chunk.put(row, owner, word % LANES, bit);
            }
        }
        all
    }

    /// Calls `found` with each pattern whose row is in the text.
    pub(crate) fn search(&self, text: &[u8], mut found: impl FnMut(u32)) {
        if let Some(few) = &self.few {
            return few.tell(&few.reached(text), &mut found);
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F, which is all that the function needs of its caller.
            return unsafe { wide::search(&self.chunks, text, &mut found) };
        }
        for chunk in &self.chunks {
            chunk.tell(&chunk.reached(text), &mut found);
        }
    }
}

/// The same steps with a vector for all words of a chunk.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_loadu_si512,
        _mm512_setzero_si512, _mm512_slli_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    };

    use super::{BLOCK_BYTES, LANES, run_length};

    type Words = [u64; LANES];
    type Chunk = super::Chunk<LANES>;

    /// `(a | b) & c`, as a table of three inputs.
    const OR_AND: i32 = 0xa8;
    /// `(a & b) | c`.
    const AND_OR: i32 = 0xea;

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(words: &Words) -> __m512i {
        // SAFETY: a vector is as long as the words; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    /// Some chunks that are stepped side by side: no step waits for one of another chunk.
    struct Steps<'c, const N: usize> {
        chunks: &'c [Chunk; N],
        first: [__m512i; N],
        state: [__m512i; N],
    }

    impl<const N: usize> Steps<'_, N> {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn step(&mut self, byte: u8) {
            for i in 0..N {
                let (enter, stay) = &self.chunks[i].steps[usize::from(byte)];
                let (enter, stay) = (load(enter), load(stay));
                let moved = _mm512_slli_epi64::<1>(self.state[i]);
                self.state[i] = if N == 1 {
                    // Alone, a step waits for the one before it: this way two instructions long, not three.
                    let begun = _mm512_and_si512(self.first[i], enter);
                    let rest = _mm512_ternarylogic_epi64::<AND_OR>(self.state[i], stay, begun);
                    _mm512_ternarylogic_epi64::<AND_OR>(moved, enter, rest)
                } else {
                    let entered = _mm512_ternarylogic_epi64::<OR_AND>(moved, self.first[i], enter);
                    _mm512_ternarylogic_epi64::<AND_OR>(self.state[i], stay, entered)
                };
            }
        }
    }

    /// Calls `found` with each pattern of these chunks whose row is in the text.
    #[target_feature(enable = "avx512f")]
    pub(super) fn search(chunks: &[Chunk], text: &[u8], found: &mut impl FnMut(u32)) {
        let mut rest = chunks;
        while !rest.is_empty() {
            // Three side by side keep the CPU's loads busy; four are two and two.
            rest = match rest.len() {
                1 => search_some::<1>(rest, text, found),
                2 | 4 => search_some::<2>(rest, text, found),
                _ => search_some::<3>(rest, text, found),
            };
        }
    }

    /// The same for the first of them. The others come back.
    #[target_feature(enable = "avx512f")]
    fn search_some<'c, const N: usize>(
        chunks: &'c [Chunk],
        text: &[u8],
        found: &mut impl FnMut(u32),
    ) -> &'c [Chunk] {
        let Some((some, rest)) = chunks.split_first_chunk::<N>() else { return &[] };
        some.iter().zip(&reached(some, text)).for_each(|(chunk, words)| chunk.tell(words, found));
        rest
    }

    /// What is reached of some chunks at the end of the text.
    #[target_feature(enable = "avx512f")]
    fn reached<const N: usize>(chunks: &[Chunk; N], text: &[u8]) -> [Words; N] {
        let nothing = [_mm512_setzero_si512(); N];
        let mut first = nothing;
        for i in 0..N {
            first[i] = load(&chunks[i].first);
        }
        let mut steps = Steps { chunks, first, state: nothing };
        steps.step(b'\n');
        let mut rest = text;
        while let Some((block, after)) = rest.split_first_chunk::<BLOCK_BYTES>() {
            let first = block[0];
            if *block != [first; BLOCK_BYTES] {
                for byte in block {
                    steps.step(*byte);
                }
                rest = after;
                continue;
            }
            // As step by step.
            let run = run_length(rest, first);
            for _ in 0..run {
                let before = steps.state;
                steps.step(first);
                let same = |i: usize| _mm512_cmpeq_epi64_mask(before[i], steps.state[i]) == 0xff;
                if (0..N).all(same) {
                    break;
                }
            }
            rest = rest.get(run..).unwrap_or_default();
            if let Some((end, after)) = rest.split_first() {
                steps.step(*end);
                rest = after;
            }
        }
        for byte in rest {
            steps.step(*byte);
        }
        steps.step(b'\n');
        let mut out = [[0; LANES]; N];
        for (words, reached) in out.iter_mut().zip(steps.state) {
            // SAFETY: the words are as long as a vector; the store needs no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), reached) };
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;
    use crate::pattern::sequence::rarest_row;

    #[test]
    fn rows_are_found_where_patterns_match() {
        let patterns = ["\\bsoma\\b", "v[-_]?i[-_]?z[-_]?q", "(?:[a-z]{5,}[ .]+){3}", "^x.*y$"];
        let rows = patterns.iter().map(|p| rarest_row(&parse(p).unwrap().node).unwrap());
        let rows = Rows::new(rows.zip(0..).collect());
        let found = |text: &str| {
            let mut found = Vec::new();
            rows.search(text.as_bytes(), |p| found.push(p));
            found.sort_unstable();
            found
        };
        assert_eq!(found("take soma"), [0]);
        assert_eq!(found("so many, somatic"), [0u32; 0]);
        assert_eq!(found("a v-i_zq"), [1]);
        assert_eq!(found("hello there, world"), [0u32; 0]);
        assert_eq!(found("hello there world."), [2]);
        assert_eq!(found("xaby"), [3]);
        // Runs of one sign of every length, wherever they stand.
        for before in 0..20 {
            for length in 1..70 {
                let text = [&" ".repeat(before), "hello ", &"o".repeat(length), " world."].concat();
                assert_eq!(found(&text), if length >= 5 { &[2u32][..] } else { &[] }, "{text}");
            }
        }
    }

    #[test]
    fn chunks_side_by_side_say_what_each_says_alone() {
        let text = b"take soma and viizq, hello there world.".repeat(3);
        let patterns = ["\\bsoma\\b", "v[-_]?i[-_]?z[-_]?q", "(?:[a-z]{5,}[ .]+){3}", "zz.z"];
        for count in [1, 50, 90, 150, 200, 250] {
            let rows = (0..count).flat_map(|_| patterns);
            let rows = rows.map(|p| rarest_row(&parse(p).unwrap().node).unwrap());
            let rows = Rows::new(rows.zip(0..).collect());
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            rows.search(&text, |p| together.push(p));
            for chunk in &rows.chunks {
                chunk.tell(&chunk.reached_step_by_step(&text), &mut |p| alone.push(p));
            }
            if let Some(few) = &rows.few {
                few.tell(&few.reached_step_by_step(&text), &mut |p| alone.push(p));
            }
            together.sort_unstable();
            alone.sort_unstable();
            assert_eq!(together, alone, "{} chunks", rows.chunks.len());
            assert_eq!(together.len(), 3 * count as usize);
        }
    }
}
