//! The first half of a rule: protocols, addresses, ports.

use gauntlet_packet::{IpVersion, Packet, Transport};

use crate::rule::header::{Header, Link};

/// Whether the header of a rule holds for a packet.
pub(crate) fn holds(header: &Header, packet: &Packet) -> bool {
    protocols_hold(header, packet) && ports_hold(header, packet) && addresses_hold(header, packet)
}

/// Whether the header of a rule on addresses alone holds. Of a packet whose IP options are wrong
/// the addresses are known and nothing else: neither protocol nor version, and it has no ports.
pub(crate) fn holds_for_addresses(header: &Header, packet: &Packet) -> bool {
    match (&packet.ip, &packet.refused) {
        (Some(_), _) => holds(header, packet),
        (None, Some(ends)) => {
            let [source, destination] = **ends;
            protocols_hold(header, packet)
                && ports_hold(header, packet)
                && (header.destination_is_any || header.destination.contains(destination))
                && (header.source_is_any || header.source.contains(source))
        }
        (None, None) => false,
    }
}

fn protocols_hold(header: &Header, packet: &Packet) -> bool {
    let protocols = &header.protocols;
    let version = packet.ip.as_ref().map(|ip| ip.version);
    if protocols.only_v4 && version != Some(IpVersion::V4)
        || protocols.only_v6 && version != Some(IpVersion::V6)
    {
        return false;
    }
    match protocols.link {
        Some(Link::Ethernet) => return true,
        Some(Link::Arp) => return packet.arp.is_some(),
        None => {}
    }
    protocols.contains(packet.ip.as_ref().map_or(0, |ip| ip.protocol))
}

fn ports_hold(header: &Header, packet: &Packet) -> bool {
    if header.source_ports_any && header.destination_ports_any {
        return true;
    }
    let (source, destination) = match &packet.transport {
        Transport::Tcp(tcp) => (tcp.source, tcp.destination),
        Transport::Udp(udp) => (udp.source, udp.destination),
        Transport::Sctp(sctp) => (sctp.source, sctp.destination),
        Transport::Icmp(_) | Transport::Esp(_) | Transport::None => return false,
    };
    (header.destination_ports_any || header.destination_ports.contains(destination))
        && (header.source_ports_any || header.source_ports.contains(source))
}

fn addresses_hold(header: &Header, packet: &Packet) -> bool {
    let Some(ip) = &packet.ip else { return true };
    (header.destination_is_any || header.destination.contains(ip.destination))
        && (header.source_is_any || header.source.contains(ip.source))
}
