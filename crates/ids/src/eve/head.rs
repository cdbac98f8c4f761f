//! What records begin with: time, flow, packet, addresses.

use std::net::IpAddr;

use gauntlet_packet::flow::{FlowCore, icmp_counterpart};
use gauntlet_packet::{Direction, IpVersion, Packet, PacketSource, Time, Transport, Tunnel};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::line::Line;
use super::settings::Settings;
use super::{metadata, names};
use crate::bytes::base64;
use crate::pipeline::observer::{FlowView, Moment};
use crate::rule::RuleSet;

/// The version of Suricata whose records these are (`suricata-version`).
const VERSION: &str = "8.0.6";

/// TCP, UDP and SCTP: records have ports, 0 if the packet is too short for them.
const PROTOCOLS_WITH_PORTS: [u8; 3] = [6, 17, 132];

const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// Whose addresses come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The packet's source.
    Packet,
    /// The client.
    Flow,
    /// The server.
    ToClient,
}

/// Addresses, ports and protocol.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    pub(super) source: Option<String>,
    pub(super) destination: Option<String>,
    /// None of protocols without ports.
    pub(super) ports: Option<(u16, u16)>,
    pub(super) protocol: Option<String>,
}

impl Ends {
    pub(super) fn of(packet: &Packet, direction: Option<Direction>, way: Way) -> Self {
        let ends = match &packet.ip {
            Some(ip) => Self::new((ip.source, ip.destination), packet.ports(), ip.protocol),
            None => return Self::default(),
        };
        let turned = match way {
            Way::Packet => false,
            Way::Flow => direction == Some(Direction::ToClient),
            Way::ToClient => direction == Some(Direction::ToServer),
        };
        if turned { ends.turned() } else { ends }
    }

    fn new(addresses: (IpAddr, IpAddr), ports: (u16, u16), protocol: u8) -> Self {
        Self {
            source: Some(address(addresses.0)),
            destination: Some(address(addresses.1)),
            ports: PROTOCOLS_WITH_PORTS.contains(&protocol).then_some(ports),
            protocol: Some(names::protocol(protocol)),
        }
    }

    /// Of a flow, the client first.
    pub(super) fn of_flow(core: &FlowCore) -> Self {
        let (client, server) = (core.client(), core.server());
        let addresses = (client.address, server.address);
        Self::new(addresses, (client.port, server.port), core.protocol)
    }

    /// The other way round.
    pub(super) fn turned(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.map(|(source, destination)| (destination, source)),
            protocol: self.protocol,
        }
    }

    pub(super) fn write(&self, line: &mut Line) {
        line.optional("src_ip", self.source.as_deref());
        if let Some((port, _)) = self.ports {
            line.number("src_port", port);
        }
        line.optional("dest_ip", self.destination.as_deref());
        if let Some((_, port)) = self.ports {
            line.number("dest_port", port);
        }
    }
}

/// Begins the record of a packet.
pub(super) fn of_packet(
    settings: &Settings,
    rules: &RuleSet,
    moment: &Moment<'_>,
    (kind, way): (&str, Way),
    ends: Option<&Ends>,
) -> Line {
    let packet = moment.packet;
    let direction = moment.flow.map(|flow| flow.direction);
    let mut line = Line::new();
    line.string("timestamp", &timestamp(packet.time));
    if let Some(flow) = moment.flow {
        line.number("flow_id", flow.core.number);
    }
    if let Some(number) = packet.number.filter(|_| packet.source == PacketSource::Wire) {
        line.number("pcap_cnt", number);
    }
    line.string("event_type", kind);
    if !packet.vlan.is_empty() {
        line.numbers("vlan", packet.vlan.iter().map(|id| u64::from(*id)));
    }
    let own;
    let ends = match ends {
        Some(ends) => ends,
        None => {
            own = Ends::of(packet, direction, way);
            &own
        }
    };
    ends.write(&mut line);
    line.optional("proto", ends.protocol.as_deref());
    if let Some(ip) = &packet.ip {
        line.number("ip_v", version(ip.version));
    }
    if let Transport::Icmp(icmp) = &packet.transport {
        line.number("icmp_type", icmp.kind);
        line.number("icmp_code", icmp.code);
    }
    line.string("pkt_src", source(packet.source));
    options(settings, rules, moment, direction, way, &mut line);
    line
}

fn options(
    settings: &Settings,
    rules: &RuleSet,
    moment: &Moment<'_>,
    direction: Option<Direction>,
    way: Way,
    line: &mut Line,
) {
    if settings.version {
        line.string("suricata_version", VERSION);
    }
    if let Some(flow) = moment.flow.filter(|_| settings.metadata) {
        metadata::write(rules, flow.state, line);
    }
    if settings.ethernet {
        ethernet(moment.packet, direction, way, line);
    }
    if let (Some(seed), Some(FlowView { core, .. })) = (settings.community_seed, moment.flow) {
        community_id(core, seed, line);
    }
}

/// Begins the record of a flow, which has the client first.
pub(super) fn of_flow(core: &FlowCore, kind: &str, now: Time, is_turned: bool) -> Line {
    let mut line = Line::new();
    line.string("timestamp", &timestamp(now));
    line.number("flow_id", core.number);
    line.string("event_type", kind);
    if core.vlan.first().is_some_and(|id| *id != 0) {
        let ids = core.vlan.iter().take_while(|id| **id != 0);
        line.numbers("vlan", ids.map(|id| u64::from(*id)));
    }
    let ends = Ends::of_flow(core);
    let ends = if is_turned { ends.turned() } else { ends };
    ends.write(&mut line);
    line.number("ip_v", version(core.version));
    line.optional("proto", ends.protocol.as_deref());
    if let (ICMP | ICMP6, Some((kind, code))) = (core.protocol, core.icmp) {
        line.number("icmp_type", kind);
        line.number("icmp_code", code);
        if core.packets.get(1).is_some_and(|count| *count > 0) {
            line.number("response_icmp_type", icmp_answer(core.protocol, kind));
            line.number("response_icmp_code", 0);
        }
    }
    if core.protocol == 50 {
        line.number("spi", core.index);
    }
    line
}

/// Options that all records have, behind the rest of a flow's.
pub(super) fn flow_options(
    settings: &Settings,
    rules: &RuleSet,
    state: &crate::detect::FlowState,
    core: &FlowCore,
    line: &mut Line,
) {
    if settings.version {
        line.string("suricata_version", VERSION);
    }
    if settings.metadata {
        metadata::write(rules, state, line);
    }
    if let Some(seed) = settings.community_seed {
        community_id(core, seed, line);
    }
}

fn version(version: IpVersion) -> u8 {
    if version == IpVersion::V4 { 4 } else { 6 }
}

pub(super) fn tunnel(tunnel: &Tunnel, number: Option<u64>, line: &mut Line) {
    line.object("tunnel", |line| {
        let addresses = (tunnel.source, tunnel.destination);
        let ends = Ends::new(addresses, tunnel.ports, tunnel.protocol);
        Ends { ports: Some(ends.ports.unwrap_or_default()), ..ends.clone() }.write(line);
        line.optional("proto", ends.protocol.as_deref());
        line.number("depth", tunnel.depth);
        if let Some(number) = number {
            line.number("pcap_cnt", number);
        }
        line.string("pkt_src", source(PacketSource::Wire));
    });
}

pub(super) fn source(source: PacketSource) -> &'static str {
    match source {
        PacketSource::Wire => "wire/pcap",
        PacketSource::Tunnel(kind) => kind,
        PacketSource::Defragmented => "defrag",
        PacketSource::FlowEnd => "stream (flow timeout)",
        PacketSource::Flush => "stream (detect/log)",
    }
}

/// The Ethernet header, the side first whose address is first.
fn ethernet(packet: &Packet, direction: Option<Direction>, way: Way, line: &mut Line) {
    let Some(header) = packet.ethernet.clone().and_then(|range| packet.bytes.get(range)) else {
        return;
    };
    let (Some(to), Some(from), Some(kind)) =
        (header.get(..6), header.get(6..12), header.get(12..14))
    else {
        return;
    };
    let turned = match way {
        Way::Packet => false,
        Way::Flow => direction == Some(Direction::ToClient),
        Way::ToClient => direction == Some(Direction::ToServer),
    };
    let (from, to) = if turned { (to, from) } else { (from, to) };
    let text = |address: &[u8]| {
        let parts: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
        parts.join(":")
    };
    line.object("ether", |line| {
        line.number("ether_type", kind.iter().fold(0_u16, |n, byte| n << 8 | u16::from(*byte)));
        line.string("src_mac", &text(from));
        line.string("dest_mac", &text(to));
    });
}

/// A hash of what both directions of a flow have in common (Corelight's Community ID, version 1).
pub(super) fn community_id(core: &FlowCore, seed: u16, line: &mut Line) {
    let (source, destination) = (core.source, core.destination);
    let mut ends = [(source.address, source.port), (destination.address, destination.port)];
    if let (ICMP | ICMP6, Some((kind, _))) = (core.protocol, core.icmp) {
        ends = [
            (source.address, u16::from(kind)),
            (destination.address, u16::from(icmp_answer(core.protocol, kind))),
        ];
    }
    ends.sort();
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&seed.to_be_bytes());
    for (address, _) in ends {
        match address {
            IpAddr::V4(address) => hash.update(&address.octets()),
            IpAddr::V6(address) => hash.update(&address.octets()),
        }
    }
    hash.update(&[core.protocol, 0]);
    for (_, port) in ends {
        hash.update(&port.to_be_bytes());
    }
    line.string("community_id", &format!("1:{}", base64::encode(hash.finish().as_ref())));
}

/// The type of the ICMP message that answers one of this type, or asks for it; 0 without one.
fn icmp_answer(protocol: u8, kind: u8) -> u8 {
    icmp_counterpart(protocol != ICMP, kind).unwrap_or_default()
}

/// Addresses of IPv6 are written in full, as EVE does.
fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let groups = address.segments().map(|group| format!("{group:04x}"));
            groups.join(":")
        }
    }
}

/// In UTC, with microseconds.
pub fn timestamp(time: Time) -> String {
    let days = time.seconds.div_euclid(86_400);
    let second = time.seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let micros = time.micros;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar: years are
/// counted from March, so that leap days come last (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
