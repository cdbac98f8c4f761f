//! The histogram that latencies are counted in.

use anyhow::Context;
use hdrhistogram::Histogram;

/// Longest latency that is recorded, in nanoseconds (an hour).
const NANOS_MAX: u64 = 3_600_000_000_000;

/// An empty histogram of nanoseconds: three digits are exact.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn latency_histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1_000, NANOS_MAX, 3).context("cannot make a histogram")
}
