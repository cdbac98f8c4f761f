//! Headers that decoding leaves alone, since Suricata does: what the first fragment of a packet
//! begins with, and what an ICMP error is about.

use gauntlet_packet::flow::End;
use gauntlet_packet::{IpVersion, Packet, Transport};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Extension headers of a first fragment at most.
const HEADERS_MAX: usize = 8;

/// What a first fragment says of its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) protocol: u8,
    pub(super) ports: (u16, u16),
    pub(super) icmp: Option<(u8, u8)>,
}

/// Reads the transport's first bytes of a fragment at offset 0. None if they are not all there: no
/// honest sender makes fragments so short (RFC 1858, RFC 7112).
pub(super) fn beginning(packet: &Packet) -> Option<Beginning> {
    let ip = packet.ip.as_ref()?;
    let (protocol, at) = match ip.version {
        IpVersion::V4 => (ip.protocol, ip.header.end),
        IpVersion::V6 => behind_extensions(&packet.bytes, ip.header.clone())?,
    };
    let transport = packet.bytes.get(at..ip.payload.end.min(packet.bytes.len()))?;
    /// Bytes of each protocol's header that have to be there: of TCP its flags, too.
    const LEAST: &[(u8, usize)] = &[(6, 20), (17, 8), (132, 12), (ICMP, 8), (ICMPV6, 8)];
    let least = LEAST.iter().find(|(known, _)| *known == protocol).map_or(0, |(_, least)| *least);
    if transport.len() < least {
        return None;
    }
    let word = |at: usize| match transport.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    Some(match protocol {
        6 | 17 | 132 => Beginning { protocol, ports: (word(0), word(2)), icmp: None },
        ICMP | ICMPV6 => {
            let [kind, code] = word(0).to_be_bytes();
            Beginning { protocol, ports: (0, 0), icmp: Some((kind, code)) }
        }
        _ => Beginning { protocol, ports: (0, 0), icmp: None },
    })
}

/// The protocol behind IPv6's extension headers, and where it begins.
fn behind_extensions(bytes: &[u8], header: std::ops::Range<usize>) -> Option<(u8, usize)> {
    let mut protocol = *bytes.get(header.start + 6)?;
    let mut at = header.end;
    for _ in 0..HEADERS_MAX {
        let len = match protocol {
            0 | 43 | 60 | 135 | 139 | 140 => 8 + usize::from(*bytes.get(at + 1)?) * 8,
            44 => 8,
            51 => 8 + usize::from(*bytes.get(at + 1)?) * 4,
            _ => return Some((protocol, at)),
        };
        protocol = *bytes.get(at)?;
        at += len;
    }
    None
}

/// Whether a packet is an ICMP error. The flow table may join it to the flow that it is about,
/// which must not take over what is decided about the error.
pub(super) fn is_error(packet: &Packet) -> bool {
    let (Some(ip), Transport::Icmp(icmp)) = (&packet.ip, &packet.transport) else { return false };
    match ip.version {
        IpVersion::V4 => matches!(icmp.kind, 3 | 4 | 5 | 11 | 12),
        IpVersion::V6 => (1..=4).contains(&icmp.kind),
    }
}

/// The ends and the protocol of the flow that an ICMP error is about. The error goes to who sent
/// the packet that it is about; others are forged.
pub(super) fn about(packet: &Packet) -> Option<([End; 2], u8)> {
    let (ip, Transport::Icmp(icmp)) = (packet.ip.as_ref()?, &packet.transport) else {
        return None;
    };
    // A redirect changes routes: rules decide about it.
    let is_redirect = ip.version == IpVersion::V4 && icmp.kind == 5;
    let about = icmp.embedded.as_ref().filter(|_| is_error(packet) && !is_redirect)?;
    if about.source != ip.destination {
        return None;
    }
    let ports = match about.protocol {
        // Of ICMP, echo requests alone.
        ICMP => (8, 0),
        ICMPV6 => (128, 129),
        _ => about.ports,
    };
    let ends = [
        End { address: about.source, port: ports.0 },
        End { address: about.destination, port: ports.1 },
    ];
    Some((ends, about.protocol))
}
