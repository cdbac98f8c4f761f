//! What the threads of a worker share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gauntlet_netio::Plan;

use super::Args;
use super::blocks::Blocks;
use super::costs::Costs;
use super::counters::{Board, Counted};
use super::records::Records;
use super::rules::Ready;
use crate::ips::inspection::Judges;

/// What all threads share.
pub(super) struct Shared {
    pub(super) rules: Current,
    pub(super) records: Records,
    /// What judges what packets carry.
    pub(super) judges: Option<Judges>,
    pub(super) board: Board,
    pub(super) progress: Vec<Progress>,
    pub(super) is_inline: bool,
    /// Connections that are dropped for what they carry are reset.
    pub(super) resets: bool,
    /// What rules cost, if every so manieth packet is measured; 0: none.
    pub(super) costs: Costs,
    pub(super) profile_every: u32,
    /// Senders of drops on their way into the kernel's sets.
    pub(super) blocks: Blocks,
    stop: AtomicBool,
    /// Packets that the kernel dropped at our queues.
    queue_drops: AtomicU64,
}

/// Rules that hold now.
pub(super) struct Current {
    ready: Mutex<Arc<Ready>>,
    generation: AtomicU64,
}

impl Current {
    fn new(ready: Ready) -> Self {
        Self { ready: Mutex::new(Arc::new(ready)), generation: AtomicU64::new(0) }
    }

    /// The rules.
    pub(super) fn load(&self) -> Arc<Ready> {
        Arc::clone(&self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often they were replaced.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Other rules from now on.
    pub(super) fn replace(&self, ready: Ready) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(ready);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Shared {
    pub(super) fn new(
        ready: Ready,
        records: Records,
        judges: Option<Judges>,
        (plan, args): (&Plan, &Args),
    ) -> Self {
        Self {
            rules: Current::new(ready),
            records,
            judges,
            board: Board::new(plan.ports_len()),
            progress: (0..plan.ports_len()).map(|_| Progress::default()).collect(),
            is_inline: plan.is_inline(),
            resets: args.reset,
            costs: Costs::default(),
            profile_every: args.profile_every,
            blocks: args.blocks.blocks(),
            stop: AtomicBool::new(false),
            queue_drops: AtomicU64::new(0),
        }
    }

    /// Lets all threads end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes what the kernel says of our queues.
    pub(super) fn set_queue_drops(&self, count: u64) {
        self.queue_drops.store(count, Ordering::Relaxed);
    }

    /// Whether threads are to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What all threads have counted.
    pub(super) fn sum(&self) -> Counted {
        let mut sum = self.board.sum();
        sum.port.kernel_drops += self.queue_drops.load(Ordering::Relaxed);
        sum.blocks = self.blocks.counted();
        if let Some(gate) = &self.rules.load().gate {
            sum.policy = gate.counted();
            sum.unrecorded = gate.unrecorded();
        }
        sum
    }
}

/// How far a thread is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Turns; stands still if the thread hangs.
    turns: AtomicU64,
}

impl Progress {
    /// One more turn.
    pub(super) fn advance(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}
