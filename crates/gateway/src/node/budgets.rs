//! What a node shares out: sessions, descriptors, memory and disk for bodies.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::config::Config;
use crate::inbound::admission::SessionLimits;
use crate::inbound::receiver::OverflowArea;
use crate::limits;
use crate::memory::{BudgetLimits, MemoryBudget};

/// Descriptors kept for spool, log, quarantine and the resolver.
const DESCRIPTORS_RESERVED: usize = 256;
/// Connections that a listener has accepted and not yet counted.
const ACCEPTED_AT_ONCE: usize = 1;

/// Memory and disk for bodies that are being received.
pub(super) struct Budgets {
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) disk: Arc<MemoryBudget>,
    files: Arc<MemoryBudget>,
    /// Where bodies are that are too large to wait in memory.
    pub(super) overflow: Arc<OverflowArea>,
}

impl Budgets {
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let [memory, disk, files] =
            budget_limits(config).map(|limits| Arc::new(MemoryBudget::new(limits)));
        let folder = config.node.inside("receiving".as_ref());
        let free = config.spool.free_bytes_min;
        let overflow = OverflowArea::open(&folder, disk.clone(), files.clone(), free);
        let overflow = Arc::new(overflow.with_context(|| folder.display().to_string())?);
        Ok(Budgets { memory, disk, files, overflow })
    }

    pub(super) fn set_limits(&self, config: &Config) {
        let [memory, disk, files] = budget_limits(config);
        self.memory.set_limits(memory);
        self.disk.set_limits(disk);
        self.files.set_limits(files);
        self.overflow.set_free_bytes_min(config.spool.free_bytes_min);
    }
}

/// Of memory, disk and files.
fn budget_limits(config: &Config) -> [BudgetLimits; 3] {
    let r = &config.receiver;
    let of = |max: u64| BudgetLimits {
        percent_per_client_max: r.memory_percent_per_client_max,
        percent_per_network_max: r.memory_percent_per_network_max,
        // A message with room for its trace field and the growth of its buffer.
        whole_max: r.message_bytes_max.saturating_mul(2).min(max),
        ..BudgetLimits::of(max)
    };
    [of(r.memory_bytes_max), of(r.disk_bytes_max), of(r.disk_bodies_max)]
}

/// Descriptors that are not for sessions: each of the others has a budget of its own, and none can
/// take those of another.
fn descriptors_beside_sessions(config: &Config) -> usize {
    let disk_bodies = usize::try_from(config.receiver.disk_bodies_max).unwrap_or(usize::MAX);
    let services = config.service.iter().map(|s| s.connections_max + ACCEPTED_AT_ONCE);
    let console = match config.console.address.is_empty() {
        true => 0,
        false => config.console.connections_max + ACCEPTED_AT_ONCE,
    };
    let proofs = match config.acme.is_on() {
        true => config.acme.connections_max + ACCEPTED_AT_ONCE,
        false => 0,
    };
    let web = config.web_listeners().count() * config.web_connections().descriptors();
    [config.sender.connections_max, disk_bodies, console, proofs, web, config.listener.len()]
        .into_iter()
        .chain(services)
        .fold(DESCRIPTORS_RESERVED, usize::saturating_add)
}

/// How many sessions there may be: as set, but no more than there are descriptors for beside those
/// of everything else.
pub(super) fn session_limits(config: &Config) -> SessionLimits {
    let r = &config.receiver;
    let reserve = descriptors_beside_sessions(config);
    let open = limits::descriptors();
    let room = usize::try_from(open).unwrap_or(usize::MAX).saturating_sub(reserve).max(1);
    if open > 0 && room < r.sessions_max {
        let (sessions_max, wanted) = (room, r.sessions_max);
        tracing::warn!(open, sessions_max, wanted, "too few open files for receiver.sessions_max");
    }
    let open_max = if open > 0 { room } else { usize::MAX };
    let from = |percent: u32| {
        let (most, percent) = (r.sessions_max.min(open_max), percent as usize);
        (most / 100 * percent + most % 100 * percent / 100).max(1)
    };
    SessionLimits {
        sessions_max: r.sessions_max,
        per_client_max: r.sessions_per_client_max,
        per_network_max: r.sessions_per_network_max,
        shed_from: from(r.shed_percent),
        stress_from: from(config.stress.percent),
        idle_min: Duration::from_secs(config.stress.idle_seconds_min),
        open_max,
    }
}
