//! When the next message or request is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Plan;

/// Longest sleep of the pacer, so that it sees a stop.
const NAP_MAX: Duration = Duration::from_millis(20);

/// The clock of an open loop: turn n is due at n / rate, whether or not others were answered.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// Turns a second.
    pub(crate) rate: f64,
    /// Turns in all.
    pub(crate) total: u64,
}

impl Clock {
    /// When this turn is due.
    pub(crate) fn due(&self, turn: u64) -> Instant {
        self.start + Duration::from_secs_f64(turn as f64 / self.rate)
    }

    /// Starts a thread that calls `give` with how many turns have become due, until the end or
    /// `stop`. A thread of its own: the system wakes it within some 60 microseconds, a runtime's
    /// timers and epoll tick in milliseconds.
    pub(crate) fn spawn(
        &self,
        stop: Arc<AtomicBool>,
        give: impl Fn(usize) + Send + 'static,
    ) -> JoinHandle<()> {
        let clock = self.clone();
        std::thread::spawn(move || {
            let mut given = 0;
            let goes_on = || Instant::now() < clock.end && !stop.load(Ordering::Relaxed);
            while given < clock.total && goes_on() {
                let now = Instant::now();
                let elapsed = now.saturating_duration_since(clock.start).as_secs_f64();
                let begun = now >= clock.start;
                let due =
                    if begun { clock.total.min((elapsed * clock.rate) as u64 + 1) } else { 0 };
                let new = usize::try_from(due.saturating_sub(given)).unwrap_or(0).min(1 << 20);
                give(new);
                given += new as u64;
                let next = clock.due(given).saturating_duration_since(Instant::now());
                std::thread::sleep(next.min(NAP_MAX));
            }
        })
    }
}

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

/// An open loop: messages become due whether or not others were answered.
#[derive(Debug)]
struct Open {
    clock: Clock,
    /// One for every message that is due and not begun.
    due: Semaphore,
    connections: usize,
}

impl Pace {
    /// The pace of the plan, whose time begins at `start`.
    pub(super) fn new(start: Instant, plan: &Plan) -> Self {
        let limit = if plan.messages == 0 { u64::MAX } else { plan.messages };
        let end = start + plan.time;
        let total = match plan.rate {
            Some(rate) => limit.min((rate * plan.time.as_secs_f64()).round() as u64),
            None => limit,
        };
        let open = plan.rate.map(|rate| {
            let clock = Clock { start, end, rate, total };
            Arc::new(Open { clock, due: Semaphore::new(0), connections: plan.connections })
        });
        Pace { start, end, total, open }
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
        Some((turn, self.open.as_ref().map(|open| open.clock.due(turn))))
    }

    /// Messages that were due and not begun when the time was over; `begun` is how many were.
    pub(super) fn unsent(&self, begun: u64) -> u64 {
        if self.open.is_some() { self.total.saturating_sub(begun) } else { 0 }
    }

    /// Starts the thread that makes messages due, for an open loop.
    pub(super) fn spawn(&self, stop: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
        let open = self.open.clone()?;
        let pacer = Arc::clone(&open);
        let clock = open.clock.spawn(stop, move |new| pacer.due.add_permits(new));
        Some(std::thread::spawn(move || {
            // It cannot panic. Those who wait for a turn that will not come are to see that the
            // time is over.
            let _ = clock.join();
            open.due.add_permits(open.connections);
        }))
    }
}
