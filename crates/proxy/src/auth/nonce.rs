//! Nonces of Digest (RFC 7616 section 3.3): when each was made is written in it, under a key of
//! this process, so that those that nobody uses cost nothing; of those that are used it is kept
//! which counts (`nc`) have come.
//!
//! After a restart all are stale, and clients come again with a new one without asking people.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;

/// Bytes of the time and the number, which are written in it.
const WRITTEN_BYTES: usize = 12;
/// Bytes of the mark that proves that it is ours.
const MARK_BYTES: usize = 16;
/// Counts below the highest that may still come: requests of several connections overtake each
/// other.
const WINDOW: u32 = 64;

/// Makes and knows nonces.
#[derive(Debug)]
pub(crate) struct Nonces {
    key: hmac::Key,
    base: Instant,
    made: AtomicU64,
    good_for: Duration,
    used_max: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    by_number: HashMap<u64, Use>,
    /// In the order of their first use.
    order: VecDeque<u64>,
    /// Nonces up to this number were forgotten; whether they were used is not known.
    forgotten: u64,
}

#[derive(Debug)]
struct Use {
    login: Arc<str>,
    highest: u32,
    /// Bit `n` is set if `highest - n` has come.
    seen: u64,
}

/// A nonce of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonce {
    number: u64,
}

/// It is not good for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Too old, not ours, or forgotten.
    Stale,
    /// The count has come before.
    Replayed,
}

impl Nonces {
    /// # Errors
    /// If the system has no randomness to give.
    pub(crate) fn new(
        good_for: Duration,
        used_max: usize,
        now: Instant,
    ) -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        let (made, used) = (AtomicU64::new(1), Mutex::default());
        Ok(Nonces { key, base: now, made, good_for, used_max, used })
    }

    /// A new one.
    pub(crate) fn make(&self, now: Instant) -> String {
        let seconds = u32::try_from(self.seconds(now)).unwrap_or(u32::MAX);
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::with_capacity(WRITTEN_BYTES + MARK_BYTES);
        bytes.extend_from_slice(&seconds.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        let mark = hmac::sign(&self.key, &bytes);
        bytes.extend_from_slice(mark.as_ref().get(..MARK_BYTES).unwrap_or_default());
        base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
    }

    fn seconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.base).as_secs()
    }

    /// The nonce of this text, if it is ours and not too old.
    pub(crate) fn read(&self, text: &str, now: Instant) -> Option<Nonce> {
        let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).ok()?;
        let (written, mark) = bytes.split_at_checked(WRITTEN_BYTES)?;
        let expected = hmac::sign(&self.key, written);
        let is_ours = mark.len() == MARK_BYTES
            && is_same(mark, expected.as_ref().get(..MARK_BYTES).unwrap_or_default());
        let (seconds, number) = written.split_first_chunk::<4>()?;
        let age = self.seconds(now).saturating_sub(u32::from_be_bytes(*seconds).into());
        let number = u64::from_be_bytes(*number.first_chunk::<8>()?);
        (is_ours && age <= self.good_for.as_secs()).then_some(Nonce { number })
    }

    /// It was used by this login before.
    pub(crate) fn is_known_of(&self, nonce: Nonce, login: &str) -> bool {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.by_number.get(&nonce.number).is_some_and(|known| &*known.login == login)
    }

    /// Uses it once.
    ///
    /// # Errors
    /// If it may have been used with this count.
    pub(crate) fn take(&self, nonce: Nonce, count: u32, login: &str) -> Result<(), Unfit> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = used.by_number.get_mut(&nonce.number) {
            return match &*known.login == login {
                true => known.take(count),
                false => Err(Unfit::Replayed),
            };
        }
        if nonce.number <= used.forgotten {
            return Err(Unfit::Stale);
        }
        while used.order.len() >= self.used_max {
            let Some(oldest) = used.order.pop_front() else { break };
            used.by_number.remove(&oldest);
            used.forgotten = used.forgotten.max(oldest);
        }
        used.order.push_back(nonce.number);
        let first = Use { login: login.into(), highest: count, seen: 1 };
        used.by_number.insert(nonce.number, first);
        Ok(())
    }
}

impl Use {
    fn take(&mut self, count: u32) -> Result<(), Unfit> {
        if count > self.highest {
            let step = count - self.highest;
            self.seen = if step < WINDOW { self.seen << step | 1 } else { 1 };
            self.highest = count;
            return Ok(());
        }
        let below = self.highest - count;
        let bit = if below < WINDOW { 1 << below } else { return Err(Unfit::Stale) };
        match self.seen & bit {
            0 => {
                self.seen |= bit;
                Ok(())
            }
            _ => Err(Unfit::Replayed),
        }
    }
}

/// Compares in a time that does not tell where two texts differ.
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_FOR: Duration = Duration::from_secs(300);

    #[test]
    fn a_nonce_is_ours_and_good_for_some_time() {
        let now = Instant::now();
        let (ours, others) = [0, 1].map(|_| Nonces::new(GOOD_FOR, 100, now).unwrap()).into();
        let nonce = ours.make(now);
        assert_ne!(nonce, ours.make(now));
        assert!(ours.read(&nonce, now + GOOD_FOR).is_some());
        assert!(ours.read(&nonce, now + GOOD_FOR + Duration::from_secs(1)).is_none());
        assert!(others.read(&nonce, now).is_none());
        for cut in 0..nonce.len() {
            assert!(ours.read(&nonce[..cut], now).is_none());
        }
    }

    #[test]
    fn a_count_comes_once_in_any_order_within_the_window() {
        let now = Instant::now();
        let nonces = Nonces::new(GOOD_FOR, 100, now).unwrap();
        let nonce = nonces.read(&nonces.make(now), now).unwrap();
        for count in [1, 3, 2, 70] {
            assert_eq!(nonces.take(nonce, count, "ann"), Ok(()), "{count}");
            assert_eq!(nonces.take(nonce, count, "ann"), Err(Unfit::Replayed), "{count}");
        }
        assert_eq!(nonces.take(nonce, 7, "ann"), Ok(()), "63 below the highest");
        assert_eq!(nonces.take(nonce, 6, "ann"), Err(Unfit::Stale));
        assert_eq!(nonces.take(nonce, 71, "bob"), Err(Unfit::Replayed), "somebody else's");
    }

    #[test]
    fn what_was_forgotten_is_stale_and_not_new() {
        let now = Instant::now();
        let nonces = Nonces::new(GOOD_FOR, 2, now).unwrap();
        let all: Vec<Nonce> =
            (0..3).map(|_| nonces.read(&nonces.make(now), now).unwrap()).collect();
        for nonce in &all {
            assert_eq!(nonces.take(*nonce, 1, "ann"), Ok(()));
        }
        assert_eq!(nonces.used.lock().unwrap().by_number.len(), 2);
        assert_eq!(nonces.take(all[0], 1, "ann"), Err(Unfit::Stale));
        assert_eq!(nonces.take(all[2], 1, "ann"), Err(Unfit::Replayed));
    }
}
