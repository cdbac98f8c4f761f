//! Randomness for spreading load: choices that need not be secret, only even. A seed repeats them.

use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_engine::random::{SPLIT_MIX_STEP, mix};
use gauntlet_store::random;

/// SplitMix64 (see [`gauntlet_engine::random`]), usable from many threads at once.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Random {
    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Random(AtomicU64::new(seed))
    }

    /// Seeded by the system; by the time if it has no randomness.
    pub fn of_the_system() -> Self {
        let seed = random::array().map(u64::from_le_bytes);
        Random::seeded(seed.unwrap_or_else(|_| crate::clock::now_ms().cast_unsigned()))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        let before = self.0.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed);
        mix(before.wrapping_add(SPLIT_MIX_STEP))
    }

    /// A number below `n`; 0 for 0.
    pub fn below(&self, n: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }
}
