//! Turns of an open loop, shared by the threads of the client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::Context;
use mio::{Poll, Waker};

use super::{Plan, WAKER};
use crate::load::pace::Clock;

/// What has become due, and what of it was begun.
pub(super) struct Turns {
    clock: Clock,
    due: Arc<AtomicU64>,
    taken: AtomicU64,
    stop: Arc<AtomicBool>,
    pacer: JoinHandle<()>,
}

impl Turns {
    /// Begins with the warm-up, whose requests are not counted.
    pub(super) fn start(
        plan: &Plan,
        rate: f64,
        start: Instant,
        polls: &[Poll],
    ) -> anyhow::Result<Turns> {
        let begin = start.checked_sub(plan.warm_up).unwrap_or(start);
        let end = start + plan.time;
        let total = (rate * (end - begin).as_secs_f64()).round() as u64;
        let clock = Clock { start: begin, end, rate, total };
        let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), WAKER));
        let wakers = wakers.collect::<io::Result<Vec<_>>>().context("cannot make a waker")?;
        let (due, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let given = Arc::clone(&due);
        let pacer = clock.spawn(Arc::clone(&stop), move |new| {
            given.fetch_add(new as u64, Ordering::Relaxed);
            // A waker fails if its event loop has ended, and then nobody waits.
            wakers.iter().for_each(|waker| drop(waker.wake()));
        });
        Ok(Turns { clock, due, taken: AtomicU64::new(0), stop, pacer })
    }

    /// When the next request was due, if one is.
    pub(super) fn take(&self) -> Option<Instant> {
        let due = self.due.load(Ordering::Relaxed);
        if self.taken.load(Ordering::Relaxed) >= due || Instant::now() >= self.clock.end {
            return None;
        }
        let next = |taken| (taken < due).then_some(taken + 1);
        let turn = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(self.clock.due(turn))
    }

    /// Ends; requests that were due and never begun.
    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        // It looks at `stop` every few milliseconds, and cannot panic.
        let _ = self.pacer.join();
        self.clock.total.saturating_sub(self.taken.into_inner())
    }
}
