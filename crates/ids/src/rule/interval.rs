//! Sets of whole numbers as sorted, disjoint intervals, both ends included.

/// Sorted, disjoint, not adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Intervals(pub(crate) Vec<(u128, u128)>);

impl Intervals {
    /// All numbers up to `max`.
    pub(crate) fn all(max: u128) -> Self {
        Self(vec![(0, max)])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an interval.
    pub(crate) fn insert(&mut self, low: u128, high: u128) {
        self.0.push((low, high));
        self.0.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(self.0.len());
        for &(low, high) in &self.0 {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        self.0 = merged;
    }

    /// Adds all of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        for &(low, high) in &other.0 {
            self.insert(low, high);
        }
    }

    /// Takes away what is in the other set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for &(cut_low, cut_high) in &other.0 {
            let mut left = Vec::with_capacity(self.0.len() + 1);
            for &(low, high) in &self.0 {
                if cut_high < low || cut_low > high {
                    left.push((low, high));
                    continue;
                }
                if low < cut_low {
                    left.push((low, cut_low - 1));
                }
                if high > cut_high {
                    left.push((cut_high + 1, high));
                }
            }
            self.0 = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_agree_with_a_table_of_bits() {
        // A small space, every pair of operations compared to the obvious.
        let mut seed = 7_u64;
        let mut next = move |below: u128| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u128::from(seed >> 33) % below
        };
        for _ in 0..500 {
            let mut bits = [false; 64];
            let mut set = Intervals::default();
            for _ in 0..6 {
                let low = next(64);
                let high = (low + next(12)).min(63);
                let cut = next(3) == 0;
                if cut {
                    let mut other = Intervals::default();
                    other.insert(low, high);
                    set.subtract(&other);
                } else {
                    set.insert(low, high);
                }
                for bit in low..=high {
                    bits[bit as usize] = !cut;
                }
            }
            for (at, bit) in bits.iter().enumerate() {
                let inside = set.0.iter().any(|&(low, high)| (low..=high).contains(&(at as u128)));
                assert_eq!(inside, *bit);
            }
            assert!(set.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
