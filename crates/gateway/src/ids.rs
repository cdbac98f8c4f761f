//! Names of messages: unique on a node, sortable by time, short enough to read out.

use std::sync::atomic::{AtomicU64, Ordering};

/// Digits of an id: base 32 without letters that are easily confused (Crockford).
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Characters of an id.
const LENGTH: usize = 13;
/// Bits below the milliseconds: ids of one millisecond.
const COUNTER_BITS: u32 = 20;

/// Makes ids. Those of a later process are greater, unless the clock was set back by more than the
/// process before was old; the spool's ids are shown to [`Ids::see`] so that even then none
/// repeats.
#[derive(Debug, Default)]
pub struct Ids {
    last: AtomicU64,
}

impl Ids {
    /// The next id at this time, Unix milliseconds.
    pub fn next(&self, now_ms: i64) -> u64 {
        let at_least = now_ms.max(0).cast_unsigned() << COUNTER_BITS;
        let step = |last: u64| Some(at_least.max(last.saturating_add(1)));
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        at_least.max(before.unwrap_or_default().saturating_add(1))
    }

    /// Never makes this id again.
    pub fn see(&self, id: u64) {
        self.last.fetch_max(id, Ordering::Relaxed);
    }
}

/// When an id was made, Unix milliseconds.
pub fn time_of(id: u64) -> i64 {
    (id >> COUNTER_BITS).cast_signed()
}

/// The id as users see it.
pub fn to_text(id: u64) -> String {
    let digit = |i: usize| {
        let shift = 5 * (LENGTH - 1 - i);
        let index = usize::try_from(id >> shift).unwrap_or(usize::MAX) & 31;
        DIGITS.get(index).copied().map_or('0', char::from)
    };
    (0..LENGTH).map(digit).collect()
}

/// The id that a text names, in either case.
pub fn parse(text: &str) -> Option<u64> {
    if text.len() != LENGTH {
        return None;
    }
    text.bytes().try_fold(0u64, |id, b| {
        let digit = DIGITS.iter().position(|d| *d == b.to_ascii_uppercase())?;
        Some(id.checked_mul(32)? | u64::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_their_texts_too() {
        let ids = Ids::default();
        let now = 1_795_000_000_000;
        let made: Vec<u64> = [now, now, now - 5, now + 1].map(|t| ids.next(t)).into();
        assert!(made.is_sorted_by(|a, b| a < b), "{made:?}");
        let texts: Vec<String> = made.iter().map(|id| to_text(*id)).collect();
        assert!(texts.is_sorted(), "{texts:?}");
        for id in made.into_iter().chain([0, u64::MAX]) {
            assert_eq!(parse(&to_text(id)), Some(id));
        }
        assert_eq!(parse("0000000000001"), Some(1));
        assert_eq!(parse("ZZZZZZZZZZZZZ"), None);
        assert_eq!(parse("U"), None);
    }
}
