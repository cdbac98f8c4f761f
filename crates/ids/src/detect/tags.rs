//! `tag`: packets that follow an alert are logged, too, by flow or by host.

use std::collections::HashMap;
use std::net::IpAddr;

use gauntlet_packet::Packet;

use super::alert::Verdict;
use super::flow_state::FlowState;
use super::program::Program;
use super::tag::{Entry, add, pass};

/// Hosts that have tags; no more are added.
const HOSTS_MAX: usize = 65_536;

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
            (None, _, Some(flow)) => add(flow.tags_to_add_to(), id, tag, packet),
            _ => {}
        }
    }
    let mut is_tagged = false;
    if let Some(tags) = flow.and_then(FlowState::tags) {
        is_tagged |= pass(tags, packet);
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
