//! Numbers by which tests of what is shared choose, from a printed seed.

/// Small random numbers from a seed.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    /// One below this.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % most
    }
}
