//! `tag`: packets that follow an alert are logged, too, by flow or by host.

use std::collections::HashMap;
use std::net::IpAddr;

use gauntlet_packet::Packet;

use super::alert::Verdict;
use super::flow_state::FlowState;
use super::program::Program;
use crate::rule::matches::{Tag, TagUnit};

/// Tags of one flow or host; no more are added.
const TAGS_MAX: usize = 50;
/// An alert that comes so often does not begin a tag anew.
const RENEWALS_MAX: u32 = 10;
/// Hosts that have tags; no more are added.
const HOSTS_MAX: usize = 65_536;

/// A tag of a flow or host.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    rule: (u32, u32),
    unit: TagUnit,
    count: u32,
    /// Time of the alert, in seconds.
    first: i64,
    packets: u32,
    bytes: u64,
    renewals: u32,
    /// The packet of the alert was seen.
    has_begun: bool,
}

/// Tags by host.
pub(crate) type Hosts = HashMap<IpAddr, Vec<Entry>>;

/// Sets the tags of rules that alerted on a packet; whether the packet is to be logged because of
/// earlier ones.
pub(crate) fn handle(
    program: &Program,
    verdict: &Verdict,
    packet: &Packet,
    flow: Option<&mut FlowState>,
    hosts: &mut Hosts,
) -> bool {
    let mut flow = flow;
    for alert in &verdict.alerts {
        let Some(rule) = program.rules.rules.get(alert.rule as usize) else { continue };
        let Some(tag) = &rule.tag else { continue };
        let id = (rule.gid, rule.sid);
        match (tag.of_host, &packet.ip, flow.as_deref_mut()) {
            (Some(side), Some(ip), _) => {
                let is_source = side == crate::rule::header::Direction::ToServer;
                let host = if is_source { ip.source } else { ip.destination };
                if hosts.len() < HOSTS_MAX || hosts.contains_key(&host) {
                    add(hosts.entry(host).or_default(), id, tag, packet);
                }
            }
            (None, _, Some(flow)) => add(&mut flow.tags, id, tag, packet),
            _ => {}
        }
    }
    let mut is_tagged = false;
    if let Some(flow) = flow.filter(|flow| !flow.tags.is_empty()) {
        is_tagged |= pass(&mut flow.tags, packet);
    }
    if let Some(ip) = packet.ip.as_ref().filter(|_| !hosts.is_empty()) {
        for host in [ip.source, ip.destination] {
            if let Some(tags) = hosts.get_mut(&host) {
                is_tagged |= pass(tags, packet);
                if tags.is_empty() {
                    hosts.remove(&host);
                }
            }
        }
    }
    is_tagged
}

fn add(tags: &mut Vec<Entry>, rule: (u32, u32), tag: &Tag, packet: &Packet) {
    let first = packet.time.seconds;
    if let Some(known) = tags.iter_mut().find(|known| known.rule == rule) {
        known.renewals += 1;
        if known.renewals < RENEWALS_MAX {
            (known.first, known.packets, known.bytes) = (first, 0, 0);
        }
    } else if tags.len() < TAGS_MAX {
        tags.push(Entry {
            rule,
            unit: tag.unit,
            count: tag.count,
            first,
            packets: 0,
            bytes: 0,
            renewals: 0,
            has_begun: false,
        });
    }
}

/// Counts a packet; whether one of the tags holds. Those that are over go.
fn pass(tags: &mut Vec<Entry>, packet: &Packet) -> bool {
    let mut is_tagged = false;
    tags.retain_mut(|tag| {
        tag.packets = tag.packets.saturating_add(1);
        tag.bytes = tag.bytes.saturating_add(packet.bytes.len() as u64);
        // The alert shows its own packet.
        if !std::mem::replace(&mut tag.has_begun, true) {
            return true;
        }
        let elapsed = packet.time.seconds.saturating_sub(tag.first);
        let holds = match tag.unit {
            TagUnit::Packets => tag.packets <= tag.count,
            TagUnit::Bytes => tag.bytes <= u64::from(tag.count),
            TagUnit::Seconds => elapsed <= i64::from(tag.count),
        };
        is_tagged |= holds;
        holds
    });
    is_tagged
}
