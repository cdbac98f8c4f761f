//! Credentials that were right or wrong a moment ago, by a keyed hash of the field: a slow hash of
//! a password is not made for each request, and no password is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;

/// What was found out.
#[derive(Debug, Clone)]
struct Known {
    /// Whose they are; none if they are wrong.
    login: Option<Arc<str>>,
    since: Instant,
    /// The users were these.
    generation: u64,
}

/// Remembers it.
#[derive(Debug)]
pub(crate) struct Remembered {
    key: hmac::Key,
    keep: Duration,
    max: usize,
    known: Mutex<HashMap<[u8; 32], Known>>,
}

/// The hash of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldHash([u8; 32]);

impl Remembered {
    /// # Errors
    /// If the system has no randomness to give.
    pub(crate) fn new(keep: Duration, max: usize) -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        Ok(Remembered { key, keep, max, known: Mutex::default() })
    }

    pub(crate) fn hash(&self, field: &[u8]) -> FieldHash {
        let hash = hmac::sign(&self.key, field);
        FieldHash(hash.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// Whose they are, or that they are wrong, if that was found out of these users lately.
    pub(crate) fn get(
        &self,
        hash: FieldHash,
        generation: u64,
        now: Instant,
    ) -> Option<Option<Arc<str>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&hash.0)?;
        let is_good = found.generation == generation && now - found.since < self.keep;
        is_good.then(|| found.login.clone())
    }

    pub(crate) fn put(
        &self,
        hash: FieldHash,
        login: Option<Arc<str>>,
        generation: u64,
        now: Instant,
    ) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.max && !known.contains_key(&hash.0) {
            known.retain(|_, k| k.generation == generation && now - k.since < self.keep);
            if known.len() >= self.max {
                // Who guesses does not make others be checked again.
                known.retain(|_, k| k.login.is_some());
            }
            if known.len() >= self.max {
                known.clear();
            }
        }
        known.insert(hash.0, Known { login, since: now, generation });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_forgotten_with_time_and_with_other_users() {
        let (now, keep) = (Instant::now(), Duration::from_secs(60));
        let all = Remembered::new(keep, 100).unwrap();
        let (ann, bob) = (all.hash(b"ann"), all.hash(b"bob"));
        all.put(ann, Some("ann".into()), 1, now);
        all.put(bob, None, 1, now);
        assert_eq!(all.get(ann, 1, now), Some(Some("ann".into())));
        assert_eq!(all.get(bob, 1, now), Some(None));
        assert_eq!(all.get(ann, 2, now), None);
        assert_eq!(all.get(ann, 1, now + keep), None);
    }

    #[test]
    fn guesses_do_not_push_out_who_was_right() {
        let (now, keep) = (Instant::now(), Duration::from_secs(60));
        let all = Remembered::new(keep, 100).unwrap();
        let ann = all.hash(b"ann");
        all.put(ann, Some("ann".into()), 1, now);
        for n in 0..500_u32 {
            all.put(all.hash(&n.to_be_bytes()), None, 1, now);
        }
        assert!(all.known.lock().unwrap().len() <= 100);
        assert_eq!(all.get(ann, 1, now), Some(Some("ann".into())));
    }
}
