//! How long the threads for sockets work for whom.
//!
//! Sessions, services and the workers that pass messages on share these threads, so that the
//! system's CPU times cannot tell them apart. Each poll of one of these tasks is timed by two
//! readings of a clock that needs no system call; what a thread was preempted for counts with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::metrics::{Counter, Metrics};

/// Whom a task works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// SMTP sessions and the scan services.
    Receiving,
    /// Connections to next hops.
    PassingOn,
}

/// A task whose polls are timed.
#[must_use = "futures do nothing unless polled"]
pub struct Timed<F> {
    task: Pin<Box<F>>,
    metrics: Arc<Metrics>,
    work: Work,
}

impl<F: Future> Timed<F> {
    /// Times the polls of this task.
    pub fn new(task: F, work: Work, metrics: Arc<Metrics>) -> Self {
        Timed { task: Box::pin(task), metrics, work }
    }

    fn counter(&self) -> &Counter {
        match self.work {
            Work::Receiving => &self.metrics.receiving_ns,
            Work::PassingOn => &self.metrics.passing_on_ns,
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        let polled = self.task.as_mut().poll(context);
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counter().add(ns);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_work_is_counted_apart() {
        let metrics = Arc::new(Metrics::default());
        let task = async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(Timed::new(task, Work::Receiving, metrics.clone()).await, 7);
        assert!(metrics.receiving_ns.get() > 0);
        assert_eq!(metrics.passing_on_ns.get(), 0);
    }
}
