//! What threads count, and how it is told: `stats` of EVE, Prometheus, the summary.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gauntlet_ids::pipeline::Load;
use gauntlet_netio::Statistics;
use serde_json::{Map, Value, json};

use crate::ips::gate::RuleCount;
use crate::ips::node::policy_metrics;

/// What one thread has counted, or all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) port: Statistics,
    pub(super) alerts: u64,
    /// Frames that were dropped, by the reason that EVE names.
    pub(super) drops: BTreeMap<&'static str, u64>,
    /// Frames that were changed (`stream.inline`).
    pub(super) replaced: u64,
    pub(super) load: Load,
    /// Of decoding, by Suricata's names.
    pub(super) decoder: BTreeMap<String, u64>,
    /// Decisions by rule for packets, of all threads.
    pub(super) policy: Vec<RuleCount>,
    /// Decisions that were to be recorded, and were too many.
    pub(super) unrecorded: u64,
    /// Senders of drops that were handed to the kernel's sets, and that were too many.
    pub(super) blocks: (u64, u64),
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.port = self.port.plus(other.port);
        self.alerts += other.alerts;
        self.replaced += other.replaced;
        self.load.flows += other.load.flows;
        self.load.bytes += other.load.bytes;
        for (cause, count) in &other.drops {
            *self.drops.entry(cause).or_default() += count;
        }
        for (name, count) in &other.decoder {
            *self.decoder.entry(name.clone()).or_default() += count;
        }
    }

    /// Frames that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// As EVE's `stats` has it.
    pub(super) fn stats(&self, uptime: Duration) -> Value {
        let mut stats = Map::new();
        for (name, count) in &self.decoder {
            put(&mut stats, name, *count);
        }
        let port = &self.port;
        for (name, count) in [
            ("uptime", uptime.as_secs()),
            ("capture.kernel_packets", port.frames + port.kernel_drops),
            ("capture.kernel_drops", port.kernel_drops),
            ("detect.alert", self.alerts),
            ("flow.active", self.load.flows as u64),
            ("memory.bytes", self.load.bytes),
            ("ips.accepted", port.sent),
            ("ips.blocked", self.dropped()),
            ("ips.replaced", self.replaced),
            ("ips.rejected", port.replies),
            ("ips.send_failures", port.send_failures),
            ("tunnel.handshakes", port.handshakes),
            ("tunnel.refused", port.refused),
            ("nft.handed", self.blocks.0),
            ("nft.lost", self.blocks.1),
        ] {
            put(&mut stats, name, count);
        }
        for (cause, count) in &self.drops {
            put(&mut stats, &format!("ips.drop_reason.{}", cause.replace(' ', "_")), *count);
        }
        if !self.policy.is_empty() {
            let rules: Vec<Value> = self.policy.iter().map(RuleCount::json).collect();
            let policy = json!({ "rules": rules, "unrecorded": self.unrecorded });
            stats.insert("policy".to_owned(), policy);
        }
        Value::Object(stats)
    }

    /// The text format of Prometheus.
    pub(super) fn prometheus(&self, lost_records: u64) -> String {
        let mut text = String::new();
        let port = &self.port;
        for (name, kind, value) in [
            ("packets_total", "counter", port.frames),
            ("bytes_total", "counter", port.bytes),
            ("kernel_drops_total", "counter", port.kernel_drops),
            ("sent_total", "counter", port.sent),
            ("send_failures_total", "counter", port.send_failures),
            ("replies_total", "counter", port.replies),
            ("replaced_total", "counter", self.replaced),
            ("tunnel_handshakes_total", "counter", port.handshakes),
            ("tunnel_refused_total", "counter", port.refused),
            ("nft_handed_total", "counter", self.blocks.0),
            ("nft_lost_total", "counter", self.blocks.1),
            ("alerts_total", "counter", self.alerts),
            ("lost_records_total", "counter", lost_records),
            ("flows", "gauge", self.load.flows as u64),
            ("memory_bytes", "gauge", self.load.bytes),
        ] {
            // Writing to a string does not fail.
            let _ =
                write!(text, "# TYPE gauntlet_ips_{name} {kind}\ngauntlet_ips_{name} {value}\n");
        }
        text.push_str("# TYPE gauntlet_ips_drops_total counter\n");
        for (cause, count) in &self.drops {
            let _ = writeln!(text, "gauntlet_ips_drops_total{{cause=\"{cause}\"}} {count}");
        }
        let rules: Vec<Value> = self.policy.iter().map(RuleCount::json).collect();
        text.push_str(&policy_metrics(&rules, self.unrecorded));
        text
    }

    /// For people.
    pub(super) fn summary(&self) -> String {
        let Statistics { frames, bytes, kernel_drops, sent, send_failures, replies, .. } =
            self.port;
        let mut text = format!(
            "{frames} packets, {bytes} bytes, {kernel_drops} dropped by the kernel, \
             {alerts} alerts\n{sent} sent on, {send_failures} could not be, {replaced} changed, \
             {dropped} dropped, {replies} rejections sent",
            alerts = self.alerts,
            replaced = self.replaced,
            dropped = self.dropped(),
        );
        for (cause, count) in &self.drops {
            let _ = write!(text, "\n  {count} dropped: {cause}");
        }
        for it in self.policy.iter().filter(|it| it.is_used()) {
            let RuleCount { rule, action, decisions, refused } = it;
            let _ = write!(text, "\n  {rule} ({action}): {decisions} flows, {refused} refused");
        }
        text
    }
}

/// Puts a number where its dotted name says.
fn put(place: &mut Map<String, Value>, name: &str, count: u64) {
    match name.split_once('.') {
        None => {
            place.insert(name.to_owned(), count.into());
        }
        Some((first, rest)) => {
            let inner = place.entry(first).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, count);
            }
        }
    }
}

/// What threads have counted, each as it told last.
pub(super) struct Board(Vec<Mutex<Counted>>);

impl Board {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    /// A thread tells its counters.
    pub(super) fn tell(&self, thread: usize, counted: Counted) {
        if let Some(place) = self.0.get(thread) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        }
    }

    /// The sum of all.
    pub(super) fn sum(&self) -> Counted {
        let mut sum = Counted::default();
        for place in &self.0 {
            sum.add(&place.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }
}
