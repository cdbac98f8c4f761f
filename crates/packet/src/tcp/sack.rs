//! Selective acknowledgements (RFC 2018): which bytes behind the acknowledgement arrived.

use super::sequence::{geq, gt, leq, lt};

/// Ranges kept for one direction; more are not noted. A window has fewer.
const RANGES_MAX: usize = 4096;

/// Ranges in order; sequence numbers from left to right edge.
#[derive(Debug, Default)]
struct Ranges(Vec<(u32, u32)>);

/// Acknowledged ranges of one direction; most have none, so they are in a box.
#[derive(Debug, Default)]
pub(crate) struct Sacked(Option<Box<Ranges>>);

impl Sacked {
    /// Bytes in all ranges.
    pub(crate) fn bytes(&self) -> u32 {
        self.0.as_ref().map_or(0, |ranges| ranges.bytes())
    }

    /// Adds a range; what it touches is joined.
    pub(crate) fn insert(&mut self, left: u32, right: u32) {
        self.0.get_or_insert_default().insert(left, right);
    }

    /// Whether a range of it holds another.
    pub(crate) fn covers(&self, left: u32, right: u32) -> bool {
        self.0.as_ref().is_some_and(|ranges| ranges.covers(left, right))
    }

    /// Forgets what an acknowledgement covers.
    pub(crate) fn prune(&mut self, acknowledged: u32) {
        if let Some(ranges) = &mut self.0 {
            ranges.prune(acknowledged);
            if ranges.0.is_empty() {
                self.0 = None;
            }
        }
    }
}

impl Ranges {
    fn bytes(&self) -> u32 {
        self.0.iter().fold(0, |sum: u32, &(left, right)| sum.wrapping_add(right.wrapping_sub(left)))
    }

    fn insert(&mut self, mut left: u32, mut right: u32) {
        let first = self.0.partition_point(|&(_, end)| lt(end, left));
        let last = self.0.partition_point(|&(start, _)| leq(start, right)).max(first);
        for &(start, end) in self.0.get(first..last).unwrap_or_default() {
            left = if lt(start, left) { start } else { left };
            right = if gt(end, right) { end } else { right };
        }
        if last == first && self.0.len() >= RANGES_MAX {
            return;
        }
        self.0.splice(first..last, [(left, right)]);
    }

    fn covers(&self, left: u32, right: u32) -> bool {
        self.0.iter().any(|&(start, end)| geq(left, start) && leq(right, end))
    }

    fn prune(&mut self, acknowledged: u32) {
        let done = self.0.partition_point(|&(_, end)| lt(end, acknowledged));
        self.0.drain(..done);
        if let Some((start, _)) = self.0.first_mut()
            && lt(*start, acknowledged)
        {
            *start = acknowledged;
        }
    }
}
