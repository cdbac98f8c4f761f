//! What is known of one decoded packet.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use crate::address::Time;

/// A packet and its layers. Ranges are in [`Packet::bytes`].
#[derive(Debug, Clone)]
pub struct Packet {
    /// Its number in the capture, from 1; packets within it (tunnels) have its number, made-up
    /// ones at the end of a flow have none. EVE writes `pcap_cnt` of [`PacketSource::Wire`] alone.
    pub number: Option<u64>,
    /// When it was captured.
    pub time: Time,
    /// Where it comes from.
    pub source: PacketSource,
    /// The frame (of an inner packet: its own bytes alone; of a defragmented one: header and whole
    /// payload).
    pub bytes: Arc<[u8]>,
    /// Numbers of VLANs, outermost first, at most three.
    pub vlan: Vec<u16>,
    /// The IP header, if there is a valid one.
    pub ip: Option<Ip>,
    /// Source and destination of an IPv4 header whose options are wrong, and which is no valid one
    /// for that.
    pub refused: Option<Box<[IpAddr; 2]>>,
    /// What IP carries.
    pub transport: Transport,
    /// The payload of the transport, or what follows the header of ESP. Empty of fragments and of
    /// protocols that are not decoded, as rules expect; [`Ip::payload`] has all the same.
    pub payload: Range<usize>,
    /// Decoding events by their number in `event::NAMES`, in the order they were noticed.
    pub events: Vec<u16>,
    /// Of a packet within another, or put together of fragments: the captured one around it.
    pub tunnel: Option<Box<Tunnel>>,
    /// The last Ethernet header.
    pub ethernet: Option<Range<usize>>,
    /// A valid ARP message.
    pub arp: Option<Box<Arp>>,
    /// An event says that a header is wrong. Rules still see the packet; an ICMP error is not
    /// joined to the flow that it is about.
    pub invalid: bool,
    /// The packet belongs to a flow, invalid or not: decoding came to a transport, or to IP in IP.
    pub wants_flow: bool,
    /// The payload was inspected as packets of its own (tunnel, defragmented), so rules do not
    /// look at it here.
    pub no_payload_inspection: bool,
    /// A part of an IP packet: rules with ports do not apply.
    pub fragment: bool,
}

impl Packet {
    /// A packet of which nothing is known yet.
    pub fn new(bytes: Arc<[u8]>) -> Self {
        Self {
            number: None,
            time: Time::default(),
            source: PacketSource::Wire,
            bytes,
            vlan: Vec::new(),
            ip: None,
            refused: None,
            transport: Transport::None,
            payload: 0..0,
            events: Vec::new(),
            tunnel: None,
            ethernet: None,
            arp: None,
            invalid: false,
            wants_flow: false,
            no_payload_inspection: false,
            fragment: false,
        }
    }

    /// How many packets are around this one (Suricata's recursion level); part of a flow's key
    /// unless `decoder.recursion-level.use-for-tracking` is off. A defragmented packet has that
    /// of its fragments.
    pub fn recursion_level(&self) -> u8 {
        self.tunnel.as_ref().map_or(0, |tunnel| tunnel.depth)
    }

    /// Source and destination port, 0 where the transport has none.
    pub fn ports(&self) -> (u16, u16) {
        match &self.transport {
            Transport::Tcp(tcp) => (tcp.source, tcp.destination),
            Transport::Udp(udp) => (udp.source, udp.destination),
            Transport::Sctp(sctp) => (sctp.source, sctp.destination),
            Transport::None | Transport::Icmp(_) | Transport::Esp(_) => (0, 0),
        }
    }

    /// The payload's bytes.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload.clone()).unwrap_or_default()
    }
}

/// Where a packet comes from (`pkt_src` in EVE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketSource {
    /// A capture.
    Wire,
    /// A tunnel of this kind, as EVE names it (`gre tunnel`, `teredo tunnel`, ...).
    Tunnel(&'static str),
    /// Put together of fragments.
    Defragmented,
    /// Made up when a flow ended with data that nobody had inspected.
    FlowEnd,
    /// Made up to inspect what was acknowledged before the protocol of a flow changes, or before
    /// nothing more of it is inspected.
    Flush,
}

/// The captured packet around an inner one, however deep (Suricata's root).
#[derive(Debug, Clone)]
pub struct Tunnel {
    /// Its addresses.
    pub source: IpAddr,
    /// Its addresses.
    pub destination: IpAddr,
    /// Its ports, 0 where it has none.
    pub ports: (u16, u16),
    /// Its protocol number.
    pub protocol: u8,
    /// How many packets are around the inner one; 0 of a packet that was put together of
    /// captured fragments.
    pub depth: u8,
}

/// 4 or 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// An IP header.
#[derive(Debug, Clone)]
pub struct Ip {
    /// Which.
    pub version: IpVersion,
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// Protocol number behind all extension headers.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Identification; 0 of IPv6 without a fragment header.
    pub id: u32,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Do not fragment.
    pub dont_fragment: bool,
    /// The reserved bit.
    pub reserved: bool,
    /// Offset of the fragment, in bytes. (`fragoffset` compares units of 8 bytes on IPv4, bytes on
    /// IPv6, and does not match IPv6 without a fragment header.)
    pub fragment_offset: u32,
    /// The header with options; of IPv6 the fixed header alone.
    pub header: Range<usize>,
    /// Options of IPv4 by their kinds, in order; only those that are valid and known, each once.
    pub options: Vec<u8>,
    /// Length of IPv6's extension headers before the transport, in bytes (`ipv6.hdr`).
    pub extensions: usize,
    /// The payload by the header's length field, extension headers of IPv6 included.
    pub payload: Range<usize>,
    /// Whether IPv4's header checksum is right; `true` of IPv6.
    pub checksum_ok: bool,
}

impl Ip {
    /// Part of a datagram.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset > 0
    }
}

/// What IP carries.
#[derive(Debug, Clone, Default)]
pub enum Transport {
    /// Nothing that is decoded: a fragment, another protocol, no IP at all.
    #[default]
    None,
    /// RFC 9293.
    Tcp(Tcp),
    /// RFC 768.
    Udp(Udp),
    /// RFC 792 or, on IPv6, RFC 4443.
    Icmp(Icmp),
    /// RFC 9260.
    Sctp(Sctp),
    /// RFC 4303; has a flow.
    Esp(Esp),
}

/// Flags of TCP, as in the header: FIN 0x01 to CWR 0x80.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Sequence numbers begin.
    pub const SYN: u8 = 0x02;
    /// The connection is reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;

    /// Whether all of these are set.
    pub fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// A TCP header.
#[derive(Debug, Clone, Default)]
pub struct Tcp {
    /// Port.
    pub source: u16,
    /// Port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// Window, as in the header.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// The header with options.
    pub header: Range<usize>,
    /// Maximum segment size, if the option is there.
    pub mss: Option<u16>,
    /// Window scale, if the option is there.
    pub window_scale: Option<u8>,
    /// SACK is permitted.
    pub sack_permitted: bool,
    /// Records of SACK, left and right edge.
    pub sack: Vec<(u32, u32)>,
    /// Value and echo of the timestamp option.
    pub timestamp: Option<(u32, u32)>,
    /// TCP fast open is there: the length of its cookie.
    pub fast_open: Option<u8>,
    /// The option of RFC 2385 (MD5) is there.
    pub md5: bool,
    /// The option of RFC 5925 (authentication) is there.
    pub ao: bool,
    /// Whether the checksum is right.
    pub checksum_ok: bool,
}

/// A UDP header.
#[derive(Debug, Clone, Default)]
pub struct Udp {
    /// Port.
    pub source: u16,
    /// Port.
    pub destination: u16,
    /// The header.
    pub header: Range<usize>,
    /// Whether the checksum is right, or absent over IPv4.
    pub checksum_ok: bool,
    /// There is none (0): `udpv4-csum` matches neither `valid` nor `invalid`.
    pub checksum_absent: bool,
}

/// An ICMP header.
#[derive(Debug, Clone, Default)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Identifier, of types that have one.
    pub id: Option<u16>,
    /// Sequence number, of types that have one.
    pub sequence: Option<u16>,
    /// MTU of ICMPv6 "packet too big".
    pub mtu: Option<u32>,
    /// The header.
    pub header: Range<usize>,
    /// The IP packet that an error message carries: protocol, addresses and ports, for its flow.
    pub embedded: Option<Box<Embedded>>,
    /// Whether the checksum is right.
    pub checksum_ok: bool,
}

/// The packet that an ICMP error is about.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// Source of the packet that was not delivered.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Its protocol number.
    pub protocol: u8,
    /// Its ports, 0 where it has none.
    pub ports: (u16, u16),
}

/// An SCTP header.
#[derive(Debug, Clone, Default)]
pub struct Sctp {
    /// Port.
    pub source: u16,
    /// Port.
    pub destination: u16,
    /// The header.
    pub header: Range<usize>,
}

/// An ESP header.
#[derive(Debug, Clone, Default)]
pub struct Esp {
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
    /// The header.
    pub header: Range<usize>,
}

/// An ARP message for IPv4 over Ethernet (RFC 826).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// 1 request, 2 reply, 3 and 4 of RARP.
    pub operation: u16,
    /// Hardware address of the sender.
    pub sender_mac: [u8; 6],
    /// Address of the sender.
    pub sender: Ipv4Addr,
    /// Hardware address of the target.
    pub target_mac: [u8; 6],
    /// Address of the target.
    pub target: Ipv4Addr,
}
