//! Facts of packets and flows.

use super::ElementIndex;
use crate::rule::header::Direction;
use crate::rule::number::Compare;

/// Numbers of packets and flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketNumber {
    /// `ttl` (hop limit).
    Ttl,
    /// `tos`.
    Tos,
    /// `id` of IPv4.
    IpId,
    /// `fragoffset`, in units of 8 bytes.
    FragmentOffset,
    /// `ip_proto`.
    IpProtocol,
    /// `seq`.
    Sequence,
    /// `ack`.
    Acknowledgement,
    /// `window`.
    Window,
    /// `tcp.mss`; packets without the option never match.
    TcpMss,
    /// `tcp.wscale`.
    TcpWindowScale,
    /// `itype`.
    IcmpType,
    /// `icode`.
    IcmpCode,
    /// `icmp_id`.
    IcmpId,
    /// `icmp_seq`.
    IcmpSequence,
    /// `icmpv6.mtu`.
    Icmpv6Mtu,
    /// `dsize`.
    PayloadSize,
    /// `flow.age`, seconds.
    FlowAge,
    /// `flow.pkts`: of either direction.
    FlowPacketsEither,
    /// `flow.pkts_toserver`.
    FlowPacketsToServer,
    /// `flow.pkts_toclient`.
    FlowPacketsToClient,
    /// `flow.bytes`: of either direction.
    FlowBytesEither,
    /// `flow.bytes_toserver`.
    FlowBytesToServer,
    /// `flow.bytes_toclient`.
    FlowBytesToClient,
    /// `vlan.layers`.
    VlanLayers,
}

/// Facts about packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketCheck {
    /// `flow` (also in [`super::Rule::flow`]).
    Flow(Flow),
    /// `flags`/`tcp.flags`.
    TcpFlags {
        /// Wanted.
        flags: u8,
        /// Bits that count.
        mask: u8,
        /// How.
        mode: BitsMode,
    },
    /// `fragbits`: 1 reserved, 2 do not fragment, 4 more fragments.
    FragmentBits {
        /// Wanted.
        bits: u8,
        /// How.
        mode: BitsMode,
    },
    /// `ipopts`: 0 to 255 an option's kind, or any.
    IpOption(Option<u8>),
    /// `sameip`.
    SameIp,
    /// `l3_proto`: 4, 6 or ARP.
    NetworkProtocol(NetworkProtocol),
    /// `geoip`: countries of addresses.
    GeoIp(GeoIp),
    /// `*-csum`.
    Checksum {
        /// Which.
        of: ChecksumOf,
        /// It must be right.
        valid: bool,
    },
    /// `stream_size`.
    StreamSize {
        /// Whose bytes.
        side: StreamSide,
        /// How many.
        compare: Compare,
    },
    /// `vlan.id`: of a layer (0 to 2, -1 to -3 from the innermost), or of any.
    VlanId {
        /// The layer: 0 is the outermost, -1 the innermost.
        layer: ElementIndex,
        /// The id.
        compare: Compare,
    },
    /// `iprep`.
    Reputation {
        /// Whose.
        side: ReputationSide,
        /// Category as its file numbers it.
        category: String,
        /// The value; addresses without one never match unless `isnotset`.
        test: ReputationTest,
    },
    /// `rpc`: numbers of program, version, procedure.
    Rpc {
        /// Program.
        program: u32,
        /// Version, if it counts.
        version: Option<u32>,
        /// Procedure, if it counts.
        procedure: Option<u32>,
    },
}

/// Layers that `l3_proto` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkProtocol {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// How bits are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitsMode {
    /// Exactly these.
    Exactly,
    /// All of these (`+`).
    All,
    /// Any of these (`*`).
    Any,
    /// Not all of these (`!`).
    Not,
}

/// Checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChecksumOf {
    Ipv4,
    TcpV4,
    TcpV6,
    UdpV4,
    UdpV6,
    IcmpV4,
    IcmpV6,
}

/// Whose bytes `stream_size` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSide {
    /// The server's.
    Server,
    /// The client's.
    Client,
    /// Both must do.
    Both,
    /// One of them.
    Either,
}

/// Whose reputation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReputationSide {
    /// Source or destination.
    Any,
    /// Source.
    Source,
    /// Destination.
    Destination,
    /// Both.
    Both,
}

/// What `iprep` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReputationTest {
    /// It has one.
    IsSet,
    /// It has none.
    IsNotSet,
    /// It is so.
    Value(Compare),
}

/// `flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// `to_server`/`to_client` was written.
    pub direction: Option<Direction>,
    /// `established`.
    pub established: bool,
    /// `not_established`.
    pub not_established: bool,
    /// `stateless`.
    pub stateless: bool,
    /// `only_stream`.
    pub only_stream: bool,
    /// `no_stream`.
    pub no_stream: bool,
    /// `only_frag`.
    pub only_fragment: bool,
    /// `no_frag`.
    pub no_fragment: bool,
}

/// `dsize` that can match, from all of a rule's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dsize(pub Compare);

/// `geoip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoIp {
    /// Whose address.
    pub side: ReputationSide,
    /// It is in none of them.
    pub negated: bool,
    /// Countries (ISO 3166-1, two letters).
    pub countries: Vec<String>,
}
