//! Which segments of one direction were stored, in order: for overlaps.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// What one entry costs, for the memory limit.
pub(crate) const SEGMENT_BYTES: u64 = 64;

/// Place and length by the header: offset in the stream (below zero: before its beginning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment {
    pub(crate) start: i64,
    pub(crate) len: u16,
}

impl Segment {
    pub(crate) fn end(self) -> i64 {
        self.start + i64::from(self.len)
    }
}

/// Where its data was stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Segments, by place, then length; in a box, because most sessions hold none.
#[derive(Debug, Default)]
pub(crate) struct Segments(Option<Box<Map>>);

#[derive(Debug, Default)]
struct Map(BTreeMap<Segment, Stored>);

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|map| map.0.is_empty())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |map| map.0.len() as u64 * SEGMENT_BYTES)
    }

    pub(crate) fn get(&self, segment: Segment) -> Option<Stored> {
        self.0.as_ref()?.0.get(&segment).copied()
    }

    pub(crate) fn contains(&self, segment: Segment) -> bool {
        self.0.as_ref().is_some_and(|map| map.0.contains_key(&segment))
    }

    pub(crate) fn store(&mut self, segment: Segment, stored: Stored) {
        self.0.get_or_insert_default().0.insert(segment, stored);
    }

    pub(crate) fn remove(&mut self, segment: Segment) {
        if let Some(map) = &mut self.0 {
            map.0.remove(&segment);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Segment, Stored)> + '_ {
        self.range(..)
    }

    /// The segments after one, in order.
    pub(crate) fn after(&self, segment: Segment) -> impl Iterator<Item = (Segment, Stored)> + '_ {
        self.range((Bound::Excluded(segment), Bound::Unbounded))
    }

    /// The segments before one, the nearest first.
    pub(crate) fn before(&self, segment: Segment) -> impl Iterator<Item = (Segment, Stored)> + '_ {
        self.range(..segment).rev()
    }

    fn range(
        &self,
        range: impl RangeBounds<Segment>,
    ) -> impl DoubleEndedIterator<Item = (Segment, Stored)> + '_ {
        let found = self.0.as_ref().map(|map| map.0.range(range));
        found.into_iter().flatten().map(|(&segment, &stored)| (segment, stored))
    }

    /// Forgets segments from the front whose data lies before `base`.
    pub(crate) fn prune(&mut self, base: u64) {
        let Some(map) = &mut self.0 else { return };
        while let Some((&segment, stored)) = map.0.iter().next() {
            if stored.offset >= base || stored.offset + u64::from(stored.len) > base {
                break;
            }
            map.0.remove(&segment);
        }
    }
}
