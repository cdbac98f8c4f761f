//! Keys of messages: the time of reception times 4096, plus a tie-break within the millisecond.
//!
//! So the row id orders messages and selects them by time, without a second index.

/// Most messages of one millisecond.
pub(crate) const SEQ_PER_MS: i64 = 4096;

/// The first key of this time, in Unix milliseconds.
pub(crate) fn seq_of(ms: i64) -> i64 {
    ms.saturating_mul(SEQ_PER_MS)
}

/// The time of a key, in Unix milliseconds.
pub(crate) fn ms_of(seq: i64) -> i64 {
    seq.div_euclid(SEQ_PER_MS)
}

/// Position of a message among those of its millisecond. It depends on the id alone, so that a
/// record that is written again after a crash gets the same key.
pub(crate) fn tie_break(id: &str) -> i64 {
    i64::from(crc32fast::hash(id.as_bytes())) % SEQ_PER_MS
}
