//! What is made of a rule for detection.

use std::collections::BTreeMap;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Event, Kind, Number, Protocol, ProtocolSet};

use crate::rule::BufferKey;
use crate::rule::matches::FileScope;

/// Where the inspection of a transaction looks.
#[derive(Debug, Clone)]
pub(crate) enum Look {
    /// A buffer's bytes: the buffer, with its transforms the key.
    Buffer { buffer: Buffer, key: BufferKey, kind: Kind },
    /// Numbers, events and the like.
    List,
    /// Files: names, sizes, hashes.
    Files,
    /// The raw stream.
    Stream,
    /// Nothing: that the transaction is so far is enough.
    Progress,
}

/// One step of a rule's inspection of transactions.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    /// In transactions of this protocol; any if none.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) direction: Direction,
    /// Not before this progress.
    pub(crate) progress: u8,
    pub(crate) look: Look,
    /// Its place in [`crate::rule::Rule::buffers`]; the stream's has none.
    pub(crate) list: Option<usize>,
    /// Its bit in the rule's state.
    pub(crate) bit: u32,
    /// The buffer of the rule's fast pattern.
    pub(crate) is_prefilter: bool,
    /// The rule matches if there is no such buffer (`absent`).
    pub(crate) matches_absent: bool,
}

/// Bit of the inspection of files in a rule's state.
pub(crate) const FILES_BIT: u32 = 1 << 2;
/// The first bit of other inspections.
pub(crate) const FIRST_BIT: u32 = 3;

/// A rule made ready.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// It asks how far transactions are, whatever they have.
    pub(crate) asks_progress: bool,
    /// Inspection of transactions, in order; empty: the rule looks at packets alone.
    pub(crate) engines: Vec<Engine>,
    /// Places in [`crate::rule::Rule::buffers`] of buffers of packets (`tcp.hdr`), each with its
    /// kind.
    pub(crate) packet_buffers: Vec<(usize, PacketBuffer)>,
    /// Protocols that the flow must have; none: any.
    pub(crate) protocols: Option<ProtocolSet>,
    pub(crate) needs: Needs,
    /// Needs more than the detection does: never tried, and reported.
    pub(crate) unsupported: Option<String>,
    /// Looks at frames.
    pub(crate) is_frame: bool,
    /// Files are kept.
    pub(crate) stores: Option<FileScope>,
    /// Events of transactions that the rule asks for, by place in the list of its checks.
    pub(crate) events: Vec<(String, Event)>,
    pub(crate) numbers: BTreeMap<&'static str, Number>,
}

/// What a packet must have for a rule to be tried.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) payload: bool,
    pub(crate) no_payload: bool,
    pub(crate) flow: bool,
    pub(crate) event: bool,
    pub(crate) real_packet: bool,
    pub(crate) flow_variable: bool,
    /// Flags of TCP, any of which must be set; 0: none.
    pub(crate) tcp_begin_or_end: u8,
    /// The same for flags that are seldom set.
    pub(crate) tcp_unusual: u8,
}

/// Buffers of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketBuffer {
    Ipv4Header,
    Ipv6Header,
    TcpHeader,
    UdpHeader,
    Icmpv4Header,
    Icmpv6Header,
    IpSource,
    IpDestination,
    SourceMac,
    DestinationMac,
}

impl PacketBuffer {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "ipv4.hdr" => Self::Ipv4Header,
            "ipv6.hdr" => Self::Ipv6Header,
            "tcp.hdr" => Self::TcpHeader,
            "udp.hdr" => Self::UdpHeader,
            "icmpv4.hdr" => Self::Icmpv4Header,
            "icmpv6.hdr" => Self::Icmpv6Header,
            "ip.src" => Self::IpSource,
            "ip.dst" => Self::IpDestination,
            "ether.src" | "ether.hdr.src" => Self::SourceMac,
            "ether.dst" | "ether.hdr.dst" => Self::DestinationMac,
            _ => return None,
        })
    }
}
