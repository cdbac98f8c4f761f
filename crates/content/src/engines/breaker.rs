//! A circuit breaker: an engine that failed several times in a row is not queried for a while, so
//! that mail is deferred at once instead of after a time-out each.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::EngineError;

/// The breaker of one engine.
#[derive(Debug)]
pub struct Breaker {
    /// Failures in a row that open it.
    failures_max: u32,
    /// How long it stays open.
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Until when nothing is queried, and why.
    open: Option<(Instant, EngineError)>,
}

impl Breaker {
    /// A closed one. `failures_max` 0 never opens.
    pub fn new(failures_max: u32, pause: Duration) -> Self {
        Breaker { failures_max, pause, state: Mutex::default() }
    }

    /// Whether the engine may be queried. After the pause one caller may try; the others see the
    /// last error until that one has reported.
    ///
    /// # Errors
    /// The error that opened it.
    pub fn admit(&self, now: Instant) -> Result<(), EngineError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.open {
            None => Ok(()),
            Some((until, why)) if now < *until => Err(why.clone()),
            Some((_, why)) => {
                let why = why.clone();
                state.open = Some((now + self.pause, why));
                Ok(())
            }
        }
    }

    /// Notes what came of asking.
    pub fn report(&self, failure: Option<&EngineError>, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => *state = State::default(),
            Some(why) => {
                state.failures = state.failures.saturating_add(1);
                if self.failures_max > 0 && state.failures >= self.failures_max {
                    state.open = Some((now + self.pause, why.clone()));
                }
            }
        }
    }

    /// Whether it is open: the last error.
    pub fn last_error(&self) -> Option<EngineError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.as_ref().map(|(_, why)| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_pauses_tries_once_and_closes() {
        let breaker = Breaker::new(2, Duration::from_secs(10));
        let (start, down) = (Instant::now(), EngineError::OutOfTime);
        let after = |seconds| start + Duration::from_secs(seconds);
        breaker.report(Some(&down), start);
        assert!(breaker.admit(start).is_ok(), "one failure may be chance");
        breaker.report(Some(&down), start);
        assert_eq!(breaker.admit(after(9)), Err(EngineError::OutOfTime));
        assert!(breaker.admit(after(11)).is_ok(), "one tries");
        assert!(breaker.admit(after(12)).is_err(), "the others wait for it");
        breaker.report(Some(&down), after(12));
        assert!(breaker.admit(after(13)).is_err());
        assert!(breaker.admit(after(23)).is_ok());
        breaker.report(None, after(23));
        assert!(breaker.admit(after(23)).is_ok());
        assert_eq!(breaker.last_error(), None);
    }

    #[test]
    fn without_a_limit_it_never_opens() {
        let breaker = Breaker::new(0, Duration::from_secs(10));
        let now = Instant::now();
        (0..100).for_each(|_| breaker.report(Some(&EngineError::OutOfTime), now));
        assert!(breaker.admit(now).is_ok());
    }
}
