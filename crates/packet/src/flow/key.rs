//! Which packets are of one flow.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use crate::packet::{Icmp, Ip, IpVersion, Packet, Transport};

use super::settings::Settings;

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ESP: u8 = 50;
const ICMPV6: u8 = 58;

/// One end of a flow: address, and port, or what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// Address.
    pub address: IpAddr,
    /// Port; of ICMP the type that goes this way.
    pub port: u16,
}

/// What all packets of a flow have in common; the same for both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    ends: [End; 2],
    protocol: u8,
    depth: u8,
    vlan: [u16; 3],
    /// ESP: the security parameter index.
    index: u32,
}

/// In one piece: hashers take long over many small ones.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [first, second] = &self.ends;
        let mut bytes = [0; 16];
        let numbers = [first.port, second.port, self.vlan[0], self.vlan[1], self.vlan[2]];
        let numbers = numbers.map(u16::to_ne_bytes);
        let rest = numbers.as_flattened().iter().copied().chain([self.protocol, self.depth]);
        for (place, byte) in bytes.iter_mut().zip(rest.chain(self.index.to_ne_bytes())) {
            *place = byte;
        }
        match (first.address, second.address) {
            (IpAddr::V4(first), IpAddr::V4(second)) => {
                let ends = [first.octets(), second.octets()];
                state.write(ends.as_flattened());
            }
            (first, second) => {
                for address in [first, second] {
                    match address {
                        IpAddr::V4(address) => state.write(&address.octets()),
                        IpAddr::V6(address) => state.write(&address.octets()),
                    }
                }
            }
        }
        state.write(&bytes);
    }
}

impl Key {
    /// Of a flow between two ends, whoever began it; ESP's go one way.
    pub(crate) fn new(ends: [End; 2], flow: Common, settings: &Settings) -> Self {
        let [first, second] = ends;
        let turned = flow.protocol != ESP && first > second;
        Self {
            ends: if turned { [second, first] } else { ends },
            protocol: flow.protocol,
            depth: if settings.depth { flow.depth } else { 0 },
            vlan: if settings.vlan { flow.vlan } else { [0; 3] },
            index: flow.index,
        }
    }
}

/// What a key has beside the ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    pub(crate) protocol: u8,
    pub(crate) depth: u8,
    pub(crate) vlan: [u16; 3],
    pub(crate) index: u32,
}

/// What a packet says of its flow.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) source: End,
    pub(crate) destination: End,
    pub(crate) common: Common,
    /// An error about another flow: it begins none.
    pub(crate) existing_only: bool,
}

/// The flow that a packet belongs to; `None` of packets that have none (fragments, ARP, protocols
/// without flows).
pub(crate) fn wanted(packet: &Packet, settings: &Settings) -> Option<Wanted> {
    let ip = packet.ip.as_ref().filter(|_| packet.wants_flow)?;
    let mut existing_only = false;
    let mut index = 0;
    let mut about = None;
    let (ports, protocol) = match &packet.transport {
        Transport::Tcp(tcp) => ((tcp.source, tcp.destination), TCP),
        Transport::Udp(udp) => ((udp.source, udp.destination), UDP),
        Transport::Sctp(sctp) => ((sctp.source, sctp.destination), ip.protocol),
        Transport::Icmp(icmp) => {
            existing_only = is_error(ip, icmp);
            about = if packet.invalid { None } else { embedded(ip, icmp) };
            (icmp_ports(ip, icmp), ip.protocol)
        }
        Transport::Esp(esp) => {
            index = esp.spi;
            ((0, 0), ESP)
        }
        Transport::None => ((0, 0), ip.protocol),
    };
    let source = End { address: ip.source, port: ports.0 };
    let destination = End { address: ip.destination, port: ports.1 };
    let depth = packet.recursion_level();
    let mut vlan = [0; 3];
    for (place, &id) in vlan.iter_mut().zip(&packet.vlan) {
        *place = id;
    }
    let common = Common { protocol, depth, vlan, index };
    let (first, second, protocol) = about.unwrap_or((source, destination, protocol));
    let key = Key::new([first, second], Common { protocol, ..common }, settings);
    Some(Wanted { key, source, destination, common, existing_only })
}

/// The key of a flow between these ends, with a packet's VLANs and depth.
pub(crate) fn key_between(
    packet: &Packet,
    ends: [End; 2],
    protocol: u8,
    settings: &Settings,
) -> Key {
    let mut vlan = [0; 3];
    for (place, &id) in vlan.iter_mut().zip(&packet.vlan) {
        *place = id;
    }
    let common = Common { protocol, depth: packet.recursion_level(), vlan, index: 0 };
    Key::new(ends, common, settings)
}

/// ICMP of IPv4: an error about another packet.
pub(crate) fn is_error(ip: &Ip, icmp: &Icmp) -> bool {
    ip.version == IpVersion::V4 && matches!(icmp.kind, 3 | 4 | 5 | 11 | 12)
}

/// "Destination unreachable" belongs to the flow of the packet that it is about.
fn embedded(ip: &Ip, icmp: &Icmp) -> Option<(End, End, u8)> {
    const UNREACHABLE: u8 = 3;
    let about = icmp.embedded.as_ref()?;
    let is = ip.version == IpVersion::V4
        && icmp.kind == UNREACHABLE
        && matches!(about.protocol, TCP | UDP)
        && about.ports != (0, 0);
    is.then_some((
        End { address: about.source, port: about.ports.0 },
        End { address: about.destination, port: about.ports.1 },
        about.protocol,
    ))
}

/// What stands in the place of ports: the type, and that of its answer. Codes count over IPv6.
fn icmp_ports(ip: &Ip, icmp: &Icmp) -> (u16, u16) {
    let kind = u16::from(icmp.kind);
    let is_v6 = ip.protocol == ICMPV6 || ip.version == IpVersion::V6;
    let answer = u16::from(icmp_counterpart(is_v6, icmp.kind).unwrap_or(0));
    if is_v6 { (kind | u16::from(icmp.code) << 8, answer) } else { (kind, answer) }
}

/// The type of the ICMP message that answers one of this type, or asks for it (RFC 792, 950, 1256;
/// IANA's list of ICMPv6 types).
pub fn icmp_counterpart(is_v6: bool, kind: u8) -> Option<u8> {
    const V4: &[(u8, u8)] = &[(8, 0), (13, 14), (15, 16), (10, 9), (17, 18)];
    const V6: &[(u8, u8)] = &[
        (128, 129),
        (135, 136),
        (133, 134),
        (130, 131),
        (139, 140),
        (144, 145),
        (146, 147),
        (148, 149),
        (151, 152),
        (157, 158),
    ];
    pair(if is_v6 { V6 } else { V4 }, kind)
}

fn pair(pairs: &[(u8, u8)], kind: u8) -> Option<u8> {
    pairs.iter().find_map(|&(ask, answer)| match kind {
        kind if kind == ask => Some(answer),
        kind if kind == answer => Some(ask),
        _ => None,
    })
}
