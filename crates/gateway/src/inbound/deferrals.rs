//! Attempts that the policy defers, in the message log: the reference code that the client was
//! given leads to them.
//!
//! A client that is deferred comes again, for days, and each of its attempts is a message with a
//! reference of its own. So that this does not fill the log, only so many attempts a minute are
//! logged; the text log has all of them.

use std::sync::{Mutex, PoisonError};

use gauntlet_store::{Event, LogRecord};

/// Deferred attempts that the message log takes in a minute.
const DEFERRALS_PER_MINUTE_MAX: u32 = 600;
const MINUTE_MS: i64 = 60_000;

/// Counts deferred attempts of the minute.
#[derive(Debug, Default)]
pub struct DeferralsLogged(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    number: i64,
    count: u32,
}

/// What becomes of a deferred attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    Yes,
    /// The first one of its minute that is over the limit.
    FirstOver,
    Over,
}

impl DeferralsLogged {
    /// What the message log says of an attempt that was deferred with this reply, at this Unix time
    /// in milliseconds; none if it has taken enough of them.
    pub fn event(&self, record: &LogRecord, reply: &str, now_ms: i64) -> Option<Event> {
        match self.count(now_ms) {
            Logged::Yes => Some(Event {
                id: record.id.clone(),
                received_ms: record.received_ms,
                at_ms: now_ms,
                kind: "deferred".to_owned(),
                recipient: String::new(),
                detail: format!("{reply}; the client keeps the message and tries again"),
            }),
            Logged::FirstOver => {
                let per_minute = DEFERRALS_PER_MINUTE_MAX;
                tracing::warn!(
                    per_minute,
                    "further attempts that the policy defers are not in the message log"
                );
                None
            }
            Logged::Over => None,
        }
    }

    /// Counts an attempt at this Unix time in milliseconds.
    fn count(&self, now_ms: i64) -> Logged {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = now_ms.div_euclid(MINUTE_MS);
        if minute.number != number {
            *minute = Minute { number, count: 0 };
        }
        minute.count = minute.count.saturating_add(1);
        match minute.count {
            n if n <= DEFERRALS_PER_MINUTE_MAX => Logged::Yes,
            n if n == DEFERRALS_PER_MINUTE_MAX + 1 => Logged::FirstOver,
            _ => Logged::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_minute_are_logged_and_one_warning_is_said() {
        let logged = DeferralsLogged::default();
        let of = |now_ms: i64| -> Vec<Logged> {
            (0..DEFERRALS_PER_MINUTE_MAX + 3).map(|_| logged.count(now_ms)).collect()
        };
        for minute in [7, 8] {
            let all = of(minute * MINUTE_MS + 1);
            let (yes, over) = all.split_at(DEFERRALS_PER_MINUTE_MAX as usize);
            assert!(yes.iter().all(|l| *l == Logged::Yes));
            assert_eq!(over, [Logged::FirstOver, Logged::Over, Logged::Over]);
        }
    }
}
