//! Lanes: small and large messages are written by threads and to segments of their own.
//!
//! The highest bit of a segment's number says whose it is, so that the names of files, their order
//! and an older version of this program work with both.

use super::SpoolOptions;

/// How many there are.
pub(super) const LANES: usize = 2;

/// Set in the numbers of segments with large messages.
const LARGE_BIT: u64 = 1 << 63;

/// Who writes a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Small,
    Large,
}

impl Lane {
    pub(super) const ALL: [Lane; LANES] = [Lane::Small, Lane::Large];

    /// The lane of a message of this size in bytes.
    pub(super) fn of_message(bytes: usize, options: &SpoolOptions) -> Self {
        if bytes < options.large_bytes_min { Lane::Small } else { Lane::Large }
    }

    /// The lane of the segment of this number.
    pub(super) fn of_segment(number: u64) -> Self {
        if number & LARGE_BIT == 0 { Lane::Small } else { Lane::Large }
    }

    pub(super) fn number(self) -> usize {
        self as usize
    }

    /// Name of its commit thread.
    pub(super) fn thread_name(self) -> &'static str {
        match self {
            Lane::Small => "spool",
            Lane::Large => "spool-large",
        }
    }
}

/// Numbers of each lane's newest segment: in no other can the last write be torn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Newest([Option<u64>; LANES]);

impl Newest {
    /// Of these segments, in ascending order.
    pub(super) fn of(numbers: &[u64]) -> Self {
        Newest(Lane::ALL.map(|lane| {
            numbers.iter().rev().copied().find(|number| Lane::of_segment(*number) == lane)
        }))
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.0.contains(&Some(number))
    }

    /// The number of the lane's next segment.
    pub(super) fn after(&self, lane: Lane) -> u64 {
        let none = if lane == Lane::Small { 0 } else { LARGE_BIT };
        self.0[lane.number()].unwrap_or(none) + 1
    }
}
