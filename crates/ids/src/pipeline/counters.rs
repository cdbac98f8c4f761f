//! Counters of all layers, by the names of Suricata's statistics.

use std::collections::BTreeMap;

use gauntlet_packet::flow::{Flow, FlowTable};
use gauntlet_packet::tcp;
use gauntlet_protocols::{Carrier, Protocol};

use super::Upper;

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name (`decoder.pkts`).
    pub name: String,
    /// What it counted.
    pub value: u64,
}

/// Protocols that both streams and datagrams carry: their counters say which.
const BOTH: &[Protocol] = &[
    Protocol::Dns,
    Protocol::Dcerpc,
    Protocol::Krb5,
    Protocol::Sip,
    Protocol::Ldap,
    Protocol::Nfs,
    Protocol::Enip,
];

/// What is counted above flows.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Alerts, those beyond the packet's limit, those that limits kept.
    pub(super) alerts: [u64; 3],
    /// Packets that are dropped, by reason.
    pub(super) drops: BTreeMap<&'static str, u64>,
    /// Packets that rules reject.
    pub(super) rejected: u64,
    /// Captured packets.
    pub(super) packets: u64,
    flows: BTreeMap<String, u64>,
    transactions: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts a flow that ended.
    pub(super) fn flow(&mut self, flow: &Flow<Upper>) {
        let carrier = if flow.core.protocol == 6 { Carrier::Tcp } else { Carrier::Udp };
        let suffix = if carrier == Carrier::Tcp { "tcp" } else { "udp" };
        let Some(conversation) = &flow.upper.conversation else { return };
        let name = match conversation.protocol() {
            Some(protocol) if BOTH.contains(&protocol) => {
                format!("{}_{suffix}", protocol.eve_name())
            }
            Some(protocol) => protocol.eve_name().to_owned(),
            None => {
                if conversation.is_unknown() {
                    *self.flows.entry(format!("failed_{suffix}")).or_default() += 1;
                }
                return;
            }
        };
        *self.flows.entry(name.clone()).or_default() += 1;
        *self.transactions.entry(name).or_default() += flow.upper.transactions;
    }

    fn add(&self, inline: bool, add: &mut dyn FnMut(String, u64)) {
        let names = ["alert", "alert_queue_overflow", "alerts_suppressed"];
        for (name, value) in names.into_iter().zip(self.alerts) {
            add(format!("detect.{name}"), value);
        }
        for (kind, counts) in [("flow", &self.flows), ("tx", &self.transactions)] {
            for (name, value) in counts {
                add(format!("app_layer.{kind}.{name}"), *value);
            }
        }
        if inline {
            let blocked: u64 = self.drops.values().sum();
            add("ips.accepted".to_owned(), self.packets.saturating_sub(blocked));
            add("ips.blocked".to_owned(), blocked.saturating_sub(self.rejected));
            add("ips.rejected".to_owned(), self.rejected);
            for (reason, value) in &self.drops {
                add(format!("ips.drop_reason.{}", reason.replace(' ', "_")), *value);
            }
        }
    }
}

/// All counters.
pub(super) fn all(
    decoder: &gauntlet_packet::Counters,
    flows: &FlowTable<Upper>,
    streams: &tcp::Engine,
    (tally, inline): (&Tally, bool),
) -> Vec<Counter> {
    let mut out = Vec::new();
    let mut add = |name: String, value: u64| out.push(Counter { name, value });
    for (name, value) in decoder.iter() {
        add(name, value);
    }
    let counts = &flows.counters;
    for (name, value) in [
        ("flow.total", counts.total),
        ("flow.tcp", counts.tcp),
        ("flow.udp", counts.udp),
        ("flow.icmpv4", counts.icmpv4),
        ("flow.icmpv6", counts.icmpv6),
        ("flow.tcp_reuse", counts.tcp_reuse),
        ("flow.memcap", counts.refused),
        ("flow.get_used", counts.evicted),
        ("flow.emerg_mode_entered", counts.emergencies),
    ] {
        add(name.to_owned(), value);
    }
    let counts = &streams.counters;
    for (name, value) in [
        ("tcp.sessions", counts.sessions),
        ("tcp.ssn_memcap_drop", counts.session_memory_drops),
        ("tcp.pseudo", counts.pseudo),
        ("tcp.invalid_checksum", counts.invalid_checksum),
        ("tcp.midstream_pickups", counts.midstream_pickups),
        ("tcp.ack_unseen_data", counts.ack_unseen_data),
        ("tcp.segment_memcap_drop", counts.segment_memory_drops),
        ("tcp.stream_depth_reached", counts.stream_depth_reached),
        ("tcp.reassembly_gap", counts.reassembly_gap),
        ("tcp.overlap", counts.overlap),
        ("tcp.overlap_diff_data", counts.overlap_different),
        ("tcp.insert_data_normal_fail", counts.insert_fail),
        ("tcp.insert_data_overlap_fail", counts.insert_overlap_fail),
        ("tcp.urgent_oob_data", counts.urgent),
        ("tcp.memuse", streams.session_bytes()),
        ("tcp.reassembly_memuse", streams.reassembly_bytes()),
    ] {
        add(name.to_owned(), value);
    }
    tally.add(inline, &mut add);
    out
}
