//! Answers of engines by content: a file that goes to a thousand recipients is looked at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Answer;

type Key = [u8; 32];

/// A bounded map. Two generations stand for "least recently used": what is looked up again moves to
/// the young one; when that is full, the old one is dropped.
#[derive(Debug)]
pub struct Cache {
    entries_max: usize,
    age_max: Duration,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Key, (Answer, Instant)>,
    old: HashMap<Key, (Answer, Instant)>,
}

impl Cache {
    /// Keeps at most so many answers, each at most so long. No entries: nothing is kept.
    pub fn new(entries_max: usize, age_max: Duration) -> Self {
        Cache { entries_max, age_max, generations: Mutex::default() }
    }

    /// The answer of this version of this engine about this content, if it is not too old.
    pub fn get(&self, engine: &str, version: &str, sha256: &str, now: Instant) -> Option<Answer> {
        let key = key(engine, version, sha256);
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, at) = match generations.young.get(&key) {
            Some(entry) => entry.clone(),
            None => {
                let entry = generations.old.remove(&key)?;
                self.insert(&mut generations, key, entry.clone());
                entry
            }
        };
        (now.saturating_duration_since(at) < self.age_max).then_some(answer)
    }

    /// Stores an answer, which ages from `now`; at half of the limit the old generation goes.
    pub fn put(&self, engine: &str, version: &str, sha256: &str, answer: Answer, now: Instant) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut generations, key(engine, version, sha256), (answer, now));
    }

    fn insert(&self, generations: &mut Generations, key: Key, entry: (Answer, Instant)) {
        if self.entries_max == 0 {
            return;
        }
        if generations.young.len() >= self.entries_max.div_ceil(2) {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(key, entry);
    }
}

/// Parts have their lengths before them, so that no two triples are one key.
fn key(engine: &str, version: &str, sha256: &str) -> Key {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [engine, version, sha256] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_by_engine_version_and_content() {
        let cache = Cache::new(100, Duration::from_secs(60));
        let now = Instant::now();
        cache.put("clamav", "1", "aa", Answer::Clean, now);
        assert_eq!(cache.get("clamav", "1", "aa", now), Some(Answer::Clean));
        assert_eq!(cache.get("clamav", "2", "aa", now), None, "new signatures");
        assert_eq!(cache.get("clamav", "1a", "a", now), None);
        assert_eq!(cache.get("clamav", "1", "aa", now + Duration::from_secs(61)), None);
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_asked() {
        let cache = Cache::new(10, Duration::from_secs(60));
        let now = Instant::now();
        cache.put("e", "1", "wanted", Answer::Clean, now);
        for n in 0..1_000 {
            cache.put("e", "1", &n.to_string(), Answer::Clean, now);
            assert!(cache.get("e", "1", "wanted", now).is_some(), "after {n}");
        }
        let generations = cache.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 10);
        drop(generations);
        let none = Cache::new(0, Duration::from_secs(60));
        none.put("e", "1", "x", Answer::Clean, now);
        assert_eq!(none.get("e", "1", "x", now), None);
    }
}
