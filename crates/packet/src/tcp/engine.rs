//! What all sessions share: settings, counters, memory in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::settings::Settings;

/// Counters, as in the `tcp` part of Suricata's statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// `tcp.sessions`.
    pub sessions: u64,
    /// `tcp.ssn_memcap_drop`.
    pub session_memory_drops: u64,
    /// `tcp.pseudo`: packets made up to flush detection (`flow::flush_packets`).
    pub pseudo: u64,
    /// `tcp.invalid_checksum`.
    pub invalid_checksum: u64,
    /// `tcp.midstream_pickups`.
    pub midstream_pickups: u64,
    /// `tcp.ack_unseen_data`.
    pub ack_unseen_data: u64,
    /// `tcp.segment_memcap_drop`.
    pub segment_memory_drops: u64,
    /// `tcp.stream_depth_reached`.
    pub stream_depth_reached: u64,
    /// `tcp.reassembly_gap`.
    pub reassembly_gap: u64,
    /// `tcp.overlap`.
    pub overlap: u64,
    /// `tcp.overlap_diff_data`.
    pub overlap_different: u64,
    /// `tcp.insert_data_normal_fail`.
    pub insert_fail: u64,
    /// `tcp.insert_data_overlap_fail`.
    pub insert_overlap_fail: u64,
    /// `tcp.urgent_oob_data`.
    pub urgent: u64,
}

/// Bytes in use by all sessions that share it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    sessions: AtomicU64,
    reassembly: AtomicU64,
}

impl Memory {
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(crate) fn reassembly(&self) -> u64 {
        self.reassembly.load(Ordering::Relaxed)
    }

    pub(crate) fn add_session_bytes(&self, bytes: u64) {
        self.sessions.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_session_bytes(&self, bytes: u64) {
        self.sessions.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What a stream used before and uses now. All who change it are of one thread, so that it need
    /// not be changed in one step, which every packet would wait for.
    pub(crate) fn update_reassembly(&self, before: u64, now: u64) {
        if now != before {
            let all = self.reassembly();
            let all = if now >= before {
                all.saturating_add(now - before)
            } else {
                all.saturating_sub(before - now)
            };
            self.reassembly.store(all, Ordering::Relaxed);
        }
    }
}

/// The stream engine: what all sessions of a thread share.
#[derive(Debug, Default)]
pub struct Engine {
    /// Settings.
    pub settings: Settings,
    /// Counters.
    pub counters: Counters,
    pub(crate) memory: Arc<Memory>,
}

impl Engine {
    /// An engine with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Bytes that sessions use (`tcp.memuse`).
    pub fn session_bytes(&self) -> u64 {
        self.memory.sessions()
    }

    /// Bytes that streams use (`tcp.reassembly_memuse`).
    pub fn reassembly_bytes(&self) -> u64 {
        self.memory.reassembly()
    }

    /// Whether sessions or their data use more than an eighth of what they may: then flows whose
    /// time is over are worth looking for.
    pub fn is_filling(&self) -> bool {
        let fills = |used: u64, max: u64| max != 0 && used > max / 8;
        fills(self.memory.reassembly(), self.settings.reassembly_bytes_max)
            || fills(self.memory.sessions(), self.settings.session_bytes_max)
    }

    pub(crate) fn has_session_room(&self, bytes: u64) -> bool {
        let max = self.settings.session_bytes_max;
        max == 0 || self.memory.sessions().saturating_add(bytes) <= max
    }

    pub(crate) fn has_reassembly_room(&self, bytes: u64) -> bool {
        let max = self.settings.reassembly_bytes_max;
        max == 0 || self.memory.reassembly().saturating_add(bytes) <= max
    }
}
