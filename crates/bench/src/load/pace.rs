//! When the next message is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Plan;

/// Longest sleep of the pacer, so that it sees a stop.
const NAP_MAX: Duration = Duration::from_millis(20);

/// Gives every message its turn.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the run that is counted begins.
    pub(super) start: Instant,
    end: Instant,
    /// Messages in all; no more are begun.
    total: u64,
    open: Option<Arc<Open>>,
}

/// The clock of an open loop: messages become due whether or not others were answered.
#[derive(Debug)]
struct Open {
    rate: f64,
    /// One for every message that is due and not begun.
    due: Semaphore,
    connections: usize,
}

impl Pace {
    /// The pace of the plan, whose time begins at `start`.
    pub(super) fn new(start: Instant, plan: &Plan) -> Self {
        let limit = if plan.messages == 0 { u64::MAX } else { plan.messages };
        let total = match plan.rate {
            Some(rate) => limit.min((rate * plan.time.as_secs_f64()).round() as u64),
            None => limit,
        };
        let open = plan.rate.map(|rate| {
            Arc::new(Open { rate, due: Semaphore::new(0), connections: plan.connections })
        });
        Pace { start, end: start + plan.time, total, open }
    }

    /// The next message's number, and when it was due in open loop. None at the end.
    pub(super) async fn next(&self, counter: &AtomicU64) -> Option<(u64, Option<Instant>)> {
        if let Some(open) = &self.open {
            open.due.acquire().await.ok()?.forget();
        }
        if Instant::now() >= self.end {
            return None;
        }
        let turn = counter.fetch_add(1, Ordering::Relaxed);
        if turn >= self.total {
            return None;
        }
        Some((turn, self.open.as_ref().map(|open| self.due(open.rate, turn))))
    }

    fn due(&self, rate: f64, turn: u64) -> Instant {
        self.start + Duration::from_secs_f64(turn as f64 / rate)
    }

    /// Messages that were due and not begun when the time was over; `begun` is how many were.
    pub(super) fn unsent(&self, begun: u64) -> u64 {
        if self.open.is_some() { self.total.saturating_sub(begun) } else { 0 }
    }

    /// Starts the thread that makes messages due, for an open loop. A thread of its own: the
    /// system wakes it within some 60 microseconds, the runtime's timers tick in milliseconds.
    pub(super) fn spawn(&self, stop: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
        let open = self.open.clone()?;
        let (start, end, total) = (self.start, self.end, self.total);
        Some(std::thread::spawn(move || {
            let mut given = 0;
            while given < total && Instant::now() < end && !stop.load(Ordering::Relaxed) {
                let now = Instant::now();
                let elapsed = now.saturating_duration_since(start).as_secs_f64();
                let begun = now >= start;
                let due = if begun { total.min((elapsed * open.rate) as u64 + 1) } else { 0 };
                let new = usize::try_from(due.saturating_sub(given)).unwrap_or(0);
                open.due.add_permits(new.min(1 << 20));
                given += new.min(1 << 20) as u64;
                let next = start + Duration::from_secs_f64(given as f64 / open.rate);
                std::thread::sleep(next.saturating_duration_since(Instant::now()).min(NAP_MAX));
            }
            // Those who wait for a turn that will not come are to see that the time is over.
            while !stop.load(Ordering::Relaxed) && given < total && Instant::now() < end {
                std::thread::sleep(NAP_MAX);
            }
            open.due.add_permits(open.connections);
        }))
    }
}
