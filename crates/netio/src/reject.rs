//! Replies of `reject`: resets of TCP (RFC 9293 section 3.10.7.1), "administratively prohibited"
//! of ICMP (RFC 792, RFC 4443) for what else IP carries.
//!
//! To the sender they come from the receiver, and the other way. The frame around is that of the
//! packet, VLAN tags included; of other encapsulations there is no reply.

use std::net::IpAddr;

use gauntlet_packet::{Icmp, Ip, IpVersion, Packet, PacketSource, Tcp, TcpFlags, Transport};

use crate::answer::{Reply, ReplyTo};
use crate::checksum;

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Hops that a reply may take.
const TTL: u8 = 64;
/// Bytes of the packet that ICMP for IPv4 repeats behind its IP header.
const QUOTED: usize = 8;
/// A packet of ICMPv6 about another one is at most as long as the least MTU (RFC 4443 2.4 (c)).
const QUOTED_V6_MAX: usize = 1_280 - 48;
/// Addresses and type of Ethernet, and a VLAN tag.
const ETHERNET_LEN: usize = 14;
const TAG_LEN: usize = 4;

/// The reply to one side, if there is to be one: none to broken packets, fragments, resets, errors
/// of ICMP, groups, and packets within others.
pub fn reply(packet: &Packet, to: ReplyTo) -> Option<Reply> {
    let ip = packet.ip.as_ref()?;
    if packet.source != PacketSource::Wire || packet.invalid || ip.is_fragment() {
        return None;
    }
    if ip.source.is_multicast() || ip.destination.is_multicast() || is_broadcast(ip.destination) {
        return None;
    }
    let mut bytes = link(packet, ip, to)?;
    let (source, destination) = match to {
        ReplyTo::Source => (ip.destination, ip.source),
        ReplyTo::Destination => (ip.source, ip.destination),
    };
    let (protocol, body) = match &packet.transport {
        Transport::Tcp(tcp) => (TCP, reset(packet, tcp, to, source, destination)?),
        Transport::Icmp(icmp) if is_error(icmp, ip.version) => return None,
        _ => unreachable(packet, ip, source, destination)?,
    };
    header(&mut bytes, source, destination, protocol, body.len())?;
    bytes.extend(body);
    Some(Reply { to, bytes })
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.is_broadcast())
}

fn is_error(icmp: &Icmp, version: IpVersion) -> bool {
    match version {
        IpVersion::V4 => matches!(icmp.kind, 3 | 4 | 5 | 11 | 12),
        IpVersion::V6 => icmp.kind < 128,
    }
}

/// What is before the IP header: nothing, or Ethernet with VLAN tags, turned if need be.
fn link(packet: &Packet, ip: &Ip, to: ReplyTo) -> Option<Vec<u8>> {
    let Some(ethernet) = &packet.ethernet else {
        return (ip.header.start == 0).then(Vec::new);
    };
    let len = ETHERNET_LEN + TAG_LEN * packet.vlan.len();
    if ethernet.start != 0 || ip.header.start != len {
        return None;
    }
    let bytes = packet.bytes.get(..len)?;
    let (addresses, rest) = bytes.split_at_checked(12)?;
    let (destination, source) = addresses.split_at_checked(6)?;
    Some(match to {
        ReplyTo::Source => [source, destination, rest].concat(),
        ReplyTo::Destination => bytes.to_vec(),
    })
}

fn header(
    bytes: &mut Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    len: usize,
) -> Option<()> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = u16::try_from(20 + len).ok()?.to_be_bytes();
            let mut header = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, TTL, protocol, 0, 0]
                .into_iter()
                .chain(source.octets())
                .chain(destination.octets())
                .collect::<Vec<u8>>();
            let sum = checksum::finish(checksum::sum(&header));
            header.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
            bytes.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(u16::try_from(len).ok()?.to_be_bytes());
            bytes.extend([protocol, TTL]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
        }
        _ => return None,
    }
    Some(())
}

fn reset(
    packet: &Packet,
    tcp: &Tcp,
    to: ReplyTo,
    source: IpAddr,
    destination: IpAddr,
) -> Option<Vec<u8>> {
    if tcp.flags.has(TcpFlags::RST) {
        return None;
    }
    let len = u32::try_from(packet.payload.len()).ok()?;
    let ends = u32::from(tcp.flags.has(TcpFlags::SYN)) + u32::from(tcp.flags.has(TcpFlags::FIN));
    let next = tcp.sequence.wrapping_add(len).wrapping_add(ends);
    let acknowledges = tcp.flags.has(TcpFlags::ACK);
    let seen = if acknowledges { tcp.acknowledgement } else { 0 };
    let (ports, sequence, acknowledgement) = match to {
        ReplyTo::Source => ([tcp.destination, tcp.source], seen, next),
        ReplyTo::Destination => ([tcp.source, tcp.destination], tcp.sequence, seen),
    };
    let mut segment = Vec::with_capacity(20);
    segment.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledgement.to_be_bytes());
    segment.extend([0x50, TcpFlags::RST | TcpFlags::ACK, 0, 0, 0, 0, 0, 0]);
    let pseudo = checksum::pseudo(source, destination, TCP, segment.len());
    let sum = checksum::finish(pseudo + checksum::sum(&segment));
    segment.get_mut(16..18)?.copy_from_slice(&sum.to_be_bytes());
    Some(segment)
}

fn unreachable(
    packet: &Packet,
    ip: &Ip,
    source: IpAddr,
    destination: IpAddr,
) -> Option<(u8, Vec<u8>)> {
    let whole = packet.bytes.get(ip.header.start..)?;
    let (protocol, kind, code, quoted) = match ip.version {
        IpVersion::V4 => (ICMP, 3, 10, ip.header.len() + QUOTED),
        IpVersion::V6 => (ICMPV6, 1, 1, QUOTED_V6_MAX),
    };
    let mut body = vec![kind, code, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(whole.get(..quoted.min(whole.len()))?);
    let pseudo = match ip.version {
        IpVersion::V4 => 0,
        IpVersion::V6 => checksum::pseudo(source, destination, ICMPV6, body.len()),
    };
    let sum = checksum::finish(pseudo + checksum::sum(&body));
    body.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    Some((protocol, body))
}
