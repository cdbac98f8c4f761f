//! Bytes of packets that rules look at by name (`tcp.hdr`, `ip.src`).

use std::borrow::Cow;
use std::net::IpAddr;

use gauntlet_packet::{IpVersion, Packet, Transport};

use super::program::PacketBuffer;

/// The buffer's bytes, if the packet has it.
pub(crate) fn bytes(packet: &Packet, buffer: PacketBuffer) -> Option<Cow<'_, [u8]>> {
    let ip = packet.ip.as_ref();
    let is_v4 = ip.is_some_and(|ip| ip.version == IpVersion::V4);
    let range = match (buffer, &packet.transport) {
        (PacketBuffer::IpSource, _) => return Some(address(ip?.source)),
        (PacketBuffer::IpDestination, _) => return Some(address(ip?.destination)),
        (PacketBuffer::Ipv4Header, _) if is_v4 => ip?.header.clone(),
        (PacketBuffer::Ipv6Header, _) if !is_v4 => {
            let ip = ip?;
            ip.header.start..ip.header.end + ip.extensions
        }
        (PacketBuffer::TcpHeader, Transport::Tcp(tcp)) => tcp.header.clone(),
        (PacketBuffer::UdpHeader, Transport::Udp(udp)) => udp.header.clone(),
        (PacketBuffer::Icmpv4Header, Transport::Icmp(icmp)) if is_v4 => icmp.header.clone(),
        (PacketBuffer::Icmpv6Header, Transport::Icmp(icmp)) if !is_v4 => icmp.header.clone(),
        (PacketBuffer::DestinationMac, _) => {
            let start = packet.ethernet.as_ref()?.start;
            start..start + 6
        }
        (PacketBuffer::SourceMac, _) => {
            let start = packet.ethernet.as_ref()?.start;
            start + 6..start + 12
        }
        _ => return None,
    };
    packet.bytes.get(range).map(Cow::Borrowed)
}

fn address(address: IpAddr) -> Cow<'static, [u8]> {
    match address {
        IpAddr::V4(address) => Cow::Owned(address.octets().to_vec()),
        IpAddr::V6(address) => Cow::Owned(address.octets().to_vec()),
    }
}
