//! From bytes to sets of hashes.
//!
//! A feature is present or absent; how often it occurs does not count. That makes a message's
//! weight independent of repetition, which is what padding would exploit.

use crate::random::mix;

/// A set of hashed features, reused from message to message.
///
/// Hashes are cut to `bits`, the size of the table of weights; two features that fall together
/// share a weight, which costs little accuracy while the table is several times larger than the
/// number of features that matter.
#[derive(Debug)]
pub struct FeatureSet {
    bits: u32,
    limit: usize,
    indices: Vec<u32>,
    /// One bit an index, set while the index is in the set.
    present: Vec<u64>,
}

impl FeatureSet {
    /// An empty set of at most `limit` features, numbered below `1 << bits`. `bits` is 6 to 28.
    pub fn new(bits: u32, limit: usize) -> Self {
        let bits = bits.clamp(6, 28);
        let present = vec![0; 1 << (bits - 6)];
        FeatureSet { bits, limit, indices: Vec::with_capacity(limit.min(1 << 12)), present }
    }

    /// Takes all features out.
    pub fn clear(&mut self) {
        for &i in &self.indices {
            if let Some(word) = self.present.get_mut(i as usize >> 6) {
                *word = 0;
            }
        }
        self.indices.clear();
    }

    /// The features, in the order they were added.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Adds the feature with this hash. False, and nothing happens, if the set has it or is full.
    #[inline]
    pub fn add(&mut self, hash: u64) -> bool {
        let index = self.index_of(hash);
        let bit = 1u64 << (index & 63);
        let Some(word) = self.present.get_mut(index as usize >> 6) else { return false };
        let new = *word & bit == 0 && self.indices.len() < self.limit;
        if new {
            *word |= bit;
            self.indices.push(index);
        }
        new
    }

    /// Bits of an index.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The index under which a hash is kept.
    #[inline]
    pub fn index_of(&self, hash: u64) -> u32 {
        // The multiplication spreads hashes whose difference is in few bits (n-grams are such).
        (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.bits)) as u32
    }

    /// Adds every run of `n` bytes (1 to 8). `view` keeps runs of different texts apart.
    pub fn add_ngrams(&mut self, text: &[u8], n: u32, view: u8) {
        let n = n.clamp(1, 8);
        let mask = u64::MAX >> (64 - 8 * n);
        let salt = if view == 0 { 0 } else { mix(u64::from(view)) };
        let mut run = 0u64;
        for (&byte, seen) in text.iter().zip(1u32..) {
            run = ((run << 8) | u64::from(byte)) & mask;
            if seen >= n {
                self.add(run.wrapping_add(salt));
            }
        }
    }

    /// Adds every token and every orthogonal sparse bigram: a token with the first, second, third
    /// or fourth before it, the distance being part of the feature (Siefkes, Assis, Chhabra and
    /// Yerazunis, "Combining Winnow and Orthogonal Sparse Bigrams", 2004).
    ///
    /// Tokens are runs of letters and digits (ASCII ones, all bytes above 127, and `$!-'`) and
    /// every other visible character by itself.
    pub fn add_sparse_bigrams(&mut self, text: &[u8], view: u8) {
        let salt = mix(u64::from(view));
        let mut window = Window::default();
        let mut token = 0u64;
        for &byte in text {
            match CLASSES[usize::from(byte)] {
                Byte::Word => {
                    token = (token ^ u64::from(byte)).wrapping_mul(TOKEN_PRIME).rotate_left(5);
                }
                class => {
                    if token != 0 {
                        window.push(token, salt, self);
                        token = 0;
                    }
                    if class == Byte::Mark {
                        window.push(u64::from(byte) + 1, salt, self);
                    }
                }
            }
        }
        if token != 0 {
            window.push(token, salt, self);
        }
    }
}

/// How many tokens a sparse bigram reaches back.
const BIGRAM_REACH: usize = 4;
/// The 64-bit prime of FNV.
const TOKEN_PRIME: u64 = 0x0000_0100_0000_01B3;
/// One odd multiplier for each distance, so that "a b" and "a ? b" are different features.
const DISTANCE: [u64; BIGRAM_REACH] =
    [0xA24B_AED4_963E_E407, 0x9FB2_1C65_1E98_DF25, 0xD6E8_FEB8_6659_FD93, 0xC2B2_AE3D_27D4_EB4F];

/// The tokens before the one at hand, newest first: what sparse bigrams reach back to.
#[derive(Default)]
struct Window {
    tokens: [u64; BIGRAM_REACH],
    seen: usize,
}

impl Window {
    #[inline]
    fn push(&mut self, token: u64, salt: u64, set: &mut FeatureSet) {
        set.add(token ^ salt);
        for (earlier, distance) in self.tokens.iter().zip(DISTANCE).take(self.seen) {
            set.add(token.wrapping_mul(31).wrapping_add(earlier.wrapping_mul(distance)) ^ salt);
        }
        self.tokens.rotate_right(1);
        self.tokens[0] = token;
        self.seen = (self.seen + 1).min(BIGRAM_REACH);
    }
}

/// What a byte is to the tokeniser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    Word,
    Mark,
    Space,
}

const CLASSES: [Byte; 256] = {
    let mut classes = [Byte::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b >= 128 || matches!(b, b'$' | b'!' | b'-' | b'\'') {
            classes[byte] = Byte::Word;
        } else if b <= b' ' {
            classes[byte] = Byte::Space;
        }
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> FeatureSet {
        FeatureSet::new(22, 100)
    }

    #[test]
    fn every_run_once() {
        let mut set = set();
        set.add_ngrams(b"abababab", 4, 0);
        assert_eq!(set.indices().len(), 2, "abab and baba");
        set.clear();
        assert!(set.indices().is_empty());
        set.add_ngrams(b"abc", 4, 0);
        assert!(set.indices().is_empty(), "shorter than a run");
        set.add_ngrams(b"abcd", 4, 0);
        set.add_ngrams(b"abcd", 4, 1);
        assert_eq!(set.indices().len(), 2, "views are apart");
    }

    #[test]
    fn sparse_bigrams_reach_four_back() {
        let mut set = set();
        set.add_sparse_bigrams(b"one two three four five six", 1);
        // Six tokens, and 1 + 2 + 3 + 4 + 4 pairs.
        assert_eq!(set.indices().len(), 6 + 14);
        let mut again = FeatureSet::new(22, 100);
        again.add_sparse_bigrams(b" one  two\tthree four\r\nfive six\n", 1);
        assert_eq!(set.indices(), again.indices(), "white space does not count");
    }

    #[test]
    fn never_more_than_the_limit() {
        let mut set = FeatureSet::new(22, 10);
        set.add_ngrams(&(0..=255).collect::<Vec<u8>>(), 4, 0);
        assert_eq!(set.indices().len(), 10);
    }
}
