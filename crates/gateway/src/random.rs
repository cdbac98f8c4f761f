//! Randomness for spreading load: choices that need not be secret, only even. A seed repeats them.

use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, 2014), usable
/// from many threads at once.
#[derive(Debug)]
pub struct Random(AtomicU64);

/// 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Random(AtomicU64::new(seed))
    }

    /// Seeded by the system; by the time if it has no randomness.
    pub fn of_the_system() -> Self {
        let mut bytes = [0; 8];
        let seed = match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => crate::clock::now_ms().cast_unsigned(),
        };
        Random::seeded(seed)
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for 0.
    pub fn below(&self, n: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }
}
