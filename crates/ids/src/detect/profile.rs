//! What rules cost: while packets are inspected, the time that each rule takes is counted, and that
//! of the search that names rules.
//!
//! Detection reads no clock by itself: one is handed in.

use std::collections::BTreeMap;

use crate::rule::BufferKey;

/// Tells the time since any moment, in nanoseconds; it does not go back.
pub type Clock = fn() -> u64;

/// What is searched for fast patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Searched {
    /// Payloads and streams, and what else packets are looked up by.
    Packet,
    /// A buffer of transactions.
    Buffer(BufferKey),
}

/// What a rule or a search has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// How often it was tried.
    pub checks: u64,
    /// How often it matched; of a search: how many rules it named.
    pub matches: u64,
    /// All that took.
    pub nanoseconds: u64,
    /// The longest of them.
    pub slowest_nanoseconds: u64,
}

impl Cost {
    fn add(&mut self, matches: u64, nanoseconds: u64) {
        self.checks += 1;
        self.matches += matches;
        self.nanoseconds += nanoseconds;
        self.slowest_nanoseconds = self.slowest_nanoseconds.max(nanoseconds);
    }

    /// Adds what another thread has counted.
    pub fn join(&mut self, other: &Self) {
        self.checks += other.checks;
        self.matches += other.matches;
        self.nanoseconds += other.nanoseconds;
        self.slowest_nanoseconds = self.slowest_nanoseconds.max(other.slowest_nanoseconds);
    }
}

/// Counts that were taken out.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// All of detection, see [`Profile::detection`].
    pub detection: Cost,
    /// Of each rule that was tried, by its number.
    pub rules: BTreeMap<u32, Cost>,
}

/// Counts of one thread.
#[derive(Debug, Clone)]
pub struct Profile {
    clock: Clock,
    /// Every so manieth packet is measured.
    every: u64,
    packets: u64,
    /// Packets that were measured, and what all of detection took for them.
    pub detection: Cost,
    /// By number of the rule.
    rules: BTreeMap<u32, Cost>,
    searches: BTreeMap<Searched, Cost>,
}

impl Profile {
    /// Measures every so manieth packet (0 counts as 1) by this clock.
    pub fn new(clock: Clock, every: u64) -> Self {
        Self {
            clock,
            every: every.max(1),
            packets: 0,
            detection: Cost::default(),
            rules: BTreeMap::new(),
            searches: BTreeMap::new(),
        }
    }

    /// The same for another thread, without counts.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(self.clock, self.every)
    }

    /// Of each rule that was tried, by its number.
    pub fn rules(&self) -> impl Iterator<Item = (u32, &Cost)> {
        self.rules.iter().map(|(number, cost)| (*number, cost))
    }

    /// Of each search.
    pub fn searches(&self) -> impl Iterator<Item = (Searched, &Cost)> {
        self.searches.iter().map(|(searched, cost)| (*searched, cost))
    }

    /// Takes the counts, and begins anew: those of searches are forgotten.
    pub fn take(&mut self) -> Taken {
        self.searches.clear();
        let (detection, rules) = (&mut self.detection, &mut self.rules);
        Taken { detection: std::mem::take(detection), rules: std::mem::take(rules) }
    }

    /// Itself, if the next packet is to be measured.
    pub(crate) fn next(&mut self) -> Option<&mut Self> {
        let is_turn = self.packets.is_multiple_of(self.every);
        self.packets += 1;
        is_turn.then_some(self)
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn tried(&mut self, rule: u32, since: u64, matched: bool) {
        let took = self.now().saturating_sub(since);
        self.rules.entry(rule).or_default().add(matched.into(), took);
    }

    pub(crate) fn searched(&mut self, searched: Searched, since: u64, named: usize) {
        let took = self.now().saturating_sub(since);
        self.searches.entry(searched).or_default().add(named as u64, took);
    }

    pub(crate) fn inspected(&mut self, since: u64, alerts: usize) {
        let took = self.now().saturating_sub(since);
        self.detection.add(alerts as u64, took);
    }
}
