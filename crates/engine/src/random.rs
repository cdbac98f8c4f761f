//! A small seeded generator, so that training, resampling, workloads and tests repeat exactly.
//!
//! For what must not be guessed there is `gauntlet_store::random`.

/// 2^64 divided by the golden ratio: what SplitMix64 adds for each number.
pub const SPLIT_MIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        mix(self.0)
    }

    /// A number below `bound`, by multiplication (the bias is below `bound / 2^32`); 0 for 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// A number from 0 up to, not including, 1, in steps of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Puts a slice in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(u32::try_from(i + 1).unwrap_or(u32::MAX)) as usize;
            items.swap(i, j);
        }
    }
}

/// The finaliser of SplitMix64: every bit of the input changes about half of the output.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_for_a_seed_and_stays_below_the_bound() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|&n| n < 7));
        assert!((0..7).all(|n| draw(3).contains(&n)));
    }
}
