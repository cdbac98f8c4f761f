//! Searches for the byte-set sequences of many patterns at once: one bit for a state, one step for
//! a byte.
//!
//! This is the Shift-And algorithm (Baeza-Yates and Gonnet 1992) with states that have self-loops
//! (Navarro and Raffinot 1999), over several machine words side by side. A text is searched as if a
//! newline preceded and followed it, so that anchors are states too. Automata were slower: the
//! states of a lazy DFA over all patterns do not fit a cache (see `DESIGN.md`).

use crate::pattern::sequence::{ByteSequence, STATES_MAX};

/// Words that are stepped together; the compiler turns them into vector instructions.
const LANES: usize = 8;
/// Words for few sequences: tables a quarter as large mostly stay in the first-level cache.
const LANES_SMALL: usize = 2;
/// Bytes of a text that are compared at once to detect a run of one byte.
const BLOCK_BYTES: usize = 16;

/// The sequences of many patterns, packed into words of states.
#[derive(Debug, Default)]
pub(crate) struct ShiftAnd {
    chunks: Vec<Chunk<LANES>>,
    /// In place of chunks, where there are few sequences.
    small: Option<Chunk<LANES_SMALL>>,
}

/// Some words of states, and their transitions for each byte.
#[derive(Debug)]
struct Chunk<const L: usize> {
    /// For each byte the states that it enters, then those whose self-loop takes it.
    steps: Box<[([u64; L], [u64; L]); 256]>,
    /// First states of the sequences.
    first: [u64; L],
    /// Last states of the sequences.
    last: [u64; L],
    /// The pattern of each bit in `last`.
    owners: Vec<[u32; STATES_MAX]>,
}

/// Length of the run of a byte at the start of a text.
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
            owners: vec![[0; STATES_MAX]; L],
        }
    }

    /// Calls `found` with each pattern whose last state was reached.
    fn report(&self, reached: &[u64; L], found: &mut impl FnMut(u32)) {
        for ((reached, last), owners) in reached.iter().zip(&self.last).zip(&self.owners) {
            let mut ends = reached & last;
            while ends != 0 {
                found(owners[ends.trailing_zeros() as usize]);
                ends &= ends - 1;
            }
        }
    }

    /// Inserts a sequence into a word, from this bit on. Its last state loops on every byte, so
    /// that nothing has to be collected at each step.
    fn insert(&mut self, sequence: &ByteSequence, owner: u32, lane: usize, bit: usize) {
        for (at, state) in sequence.states.iter().enumerate() {
            let mask = 1u64 << (bit + at);
            state.enter.iter().for_each(|b| self.steps[usize::from(b)].0[lane] |= mask);
            state.self_loop.iter().for_each(|b| self.steps[usize::from(b)].1[lane] |= mask);
        }
        let end = bit + sequence.states.len() - 1;
        self.steps.iter_mut().for_each(|(_, self_loop)| self_loop[lane] |= 1 << end);
        self.first[lane] |= 1 << bit;
        self.last[lane] |= 1 << end;
        self.owners[lane][end] = owner;
    }

    /// The states that are active at the end of the text; last states stay active once reached.
    fn reached(&self, text: &[u8]) -> [u64; L] {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, the only thing that the function needs beyond safe code.
            return unsafe { self.reached_with_avx2(text) };
        }
        self.reached_step_by_step(text)
    }

    /// The same, compiled for AVX2.
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
        // Plain loops: closures are not compiled with the target features of the caller.
        while let Some((block, after)) = rest.split_first_chunk::<BLOCK_BYTES>() {
            let first = block[0];
            if *block != [first; BLOCK_BYTES] {
                for byte in block {
                    self.step(*byte, &mut state);
                }
                rest = after;
                continue;
            }
            // A run of one byte: once a step changes nothing, the rest of the run does not either.
            // The byte that ends the run is stepped alone, for another run may follow it.
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
        let (enter, self_loop) = &self.steps[usize::from(byte)];
        for i in 0..L {
            // This term does not depend on the state, which shortens the chain of dependent
            // instructions.
            let begun = self.first[i] & enter[i];
            state[i] = state[i] << 1 & enter[i] | (state[i] & self_loop[i] | begun);
        }
    }
}

impl ShiftAnd {
    /// Packs sequences, each with the pattern that it belongs to, into words: the longest first,
    /// each into the first word with room.
    pub(crate) fn new(mut sequences: Vec<(ByteSequence, u32)>) -> Self {
        sequences.sort_by_key(|(sequence, _)| std::cmp::Reverse(sequence.states.len()));
        let mut filled: Vec<usize> = Vec::new();
        let mut packed = Vec::with_capacity(sequences.len());
        for (sequence, owner) in &sequences {
            let length = sequence.states.len();
            let fits = filled.iter().position(|used| used + length <= STATES_MAX);
            let word = fits.unwrap_or(filled.len());
            if word == filled.len() {
                filled.push(0);
            }
            if let Some(used) = filled.get_mut(word) {
                packed.push((sequence, *owner, word, *used));
                *used += length;
            }
        }
        let mut all = ShiftAnd::default();
        if (1..=LANES_SMALL).contains(&filled.len()) {
            all.small = Some(Chunk::new());
        } else {
            all.chunks.resize_with(filled.len().div_ceil(LANES), Chunk::new);
        }
        for (sequence, owner, word, bit) in packed {
            if let Some(small) = &mut all.small {
                small.insert(sequence, owner, word, bit);
            } else if let Some(chunk) = all.chunks.get_mut(word / LANES) {
                chunk.insert(sequence, owner, word % LANES, bit);
            }
        }
        all
    }

    /// Calls `found` with each pattern whose sequence is in the text.
    pub(crate) fn search(&self, text: &[u8], mut found: impl FnMut(u32)) {
        if let Some(small) = &self.small {
            return small.report(&small.reached(text), &mut found);
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F, which is all that the function needs of its caller.
            return unsafe { wide::search(&self.chunks, text, &mut found) };
        }
        for chunk in &self.chunks {
            chunk.report(&chunk.reached(text), &mut found);
        }
    }
}

/// The same steps with AVX-512: one vector holds all words of a chunk.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_loadu_si512,
        _mm512_setzero_si512, _mm512_slli_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    };

    use super::{BLOCK_BYTES, LANES, run_length};

    type Words = [u64; LANES];
    type Chunk = super::Chunk<LANES>;

    /// `(a | b) & c` as the truth table of a ternary logic instruction.
    const OR_AND: i32 = 0xa8;
    /// `(a & b) | c`, likewise.
    const AND_OR: i32 = 0xea;

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(words: &Words) -> __m512i {
        // SAFETY: a vector is as long as the words; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    /// Some chunks that are stepped side by side, so that the CPU need not wait for the result of
    /// one step: the steps of different chunks are independent.
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
                let (enter, self_loop) = &self.chunks[i].steps[usize::from(byte)];
                let (enter, self_loop) = (load(enter), load(self_loop));
                let moved = _mm512_slli_epi64::<1>(self.state[i]);
                self.state[i] = if N == 1 {
                    // A single chunk's step waits for the one before it: this order makes it two
                    // instructions long in place of three.
                    let begun = _mm512_and_si512(self.first[i], enter);
                    let rest = _mm512_ternarylogic_epi64::<AND_OR>(self.state[i], self_loop, begun);
                    _mm512_ternarylogic_epi64::<AND_OR>(moved, enter, rest)
                } else {
                    let entered = _mm512_ternarylogic_epi64::<OR_AND>(moved, self.first[i], enter);
                    _mm512_ternarylogic_epi64::<AND_OR>(self.state[i], self_loop, entered)
                };
            }
        }
    }

    /// Calls `found` with each pattern of these chunks whose sequence is in the text.
    #[target_feature(enable = "avx512f")]
    pub(super) fn search(chunks: &[Chunk], text: &[u8], found: &mut impl FnMut(u32)) {
        let mut rest = chunks;
        while !rest.is_empty() {
            // Three chunks side by side keep the load units busy; four are done as two and two.
            rest = match rest.len() {
                1 => search_some::<1>(rest, text, found),
                2 | 4 => search_some::<2>(rest, text, found),
                _ => search_some::<3>(rest, text, found),
            };
        }
    }

    /// The same for the first `N` chunks; returns the others.
    #[target_feature(enable = "avx512f")]
    fn search_some<'c, const N: usize>(
        chunks: &'c [Chunk],
        text: &[u8],
        found: &mut impl FnMut(u32),
    ) -> &'c [Chunk] {
        let Some((some, rest)) = chunks.split_first_chunk::<N>() else { return &[] };
        some.iter().zip(&reached(some, text)).for_each(|(chunk, words)| chunk.report(words, found));
        rest
    }

    /// The states of some chunks at the end of the text.
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
            // As in `reached_step_by_step`.
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
    use crate::pattern::sequence::rarest_sequence;

    #[test]
    fn rows_are_found_where_patterns_match() {
        let patterns = ["\\bsoma\\b", "v[-_]?i[-_]?z[-_]?q", "(?:[a-z]{5,}[ .]+){3}", "^x.*y$"];
        let sequences = patterns.iter().map(|p| rarest_sequence(&parse(p).unwrap().node).unwrap());
        let sequences = ShiftAnd::new(sequences.zip(0..).collect());
        let found = |text: &str| {
            let mut found = Vec::new();
            sequences.search(text.as_bytes(), |p| found.push(p));
            found.sort_unstable();
            found
        };
        assert_eq!(found("take soma"), [0]);
        assert_eq!(found("so many, somatic"), [0u32; 0]);
        assert_eq!(found("a v-i_zq"), [1]);
        assert_eq!(found("hello there, world"), [0u32; 0]);
        assert_eq!(found("hello there world."), [2]);
        assert_eq!(found("xaby"), [3]);
        // Runs of one byte of every length, at every offset.
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
            let sequences = (0..count).flat_map(|_| patterns);
            let sequences = sequences.map(|p| rarest_sequence(&parse(p).unwrap().node).unwrap());
            let sequences = ShiftAnd::new(sequences.zip(0..).collect());
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            sequences.search(&text, |p| together.push(p));
            for chunk in &sequences.chunks {
                chunk.report(&chunk.reached_step_by_step(&text), &mut |p| alone.push(p));
            }
            if let Some(small) = &sequences.small {
                small.report(&small.reached_step_by_step(&text), &mut |p| alone.push(p));
            }
            together.sort_unstable();
            alone.sort_unstable();
            assert_eq!(together, alone, "{} chunks", sequences.chunks.len());
            assert_eq!(together.len(), 3 * count as usize);
        }
    }
}
