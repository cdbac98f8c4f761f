//! Checks on packets and flows.

use std::net::IpAddr;

use gauntlet_packet::{Direction, Ip, IpVersion, Packet, PacketSource, Time, Transport};
use gauntlet_protocols::Protocol;

use super::flow_state::FlowState;
use super::host_bits::HostBitTable;
use super::reputations::Reputations;
use crate::rule::matches::{
    AppProtocolCheck, BitCommand, BitsMode, ChecksumOf, ElementIndex, Flow, FlowBits, FlowInt,
    IntCommand, IntValue, Match, NetworkProtocol, PacketCheck, PacketNumber, ProtocolOf,
    StreamSide,
};
use crate::rule::number::Compare;

/// What is known of a packet when rules look at it.
pub struct Facts<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// Its direction in its flow; none without a flow.
    pub direction: Option<Direction>,
    /// Both sides of the flow have been seen, or TCP's handshake was completed.
    pub established: bool,
    /// It is the first of its direction.
    pub is_first: bool,
    /// It belongs to an established TCP session.
    pub in_session: bool,
    /// The payload as it is sent on, if the stream engine changed it.
    pub replaced: Option<&'a [u8]>,
    /// Its payload went into the stream.
    pub added_to_stream: bool,
    /// Its payload is not to be looked at.
    pub no_payload_inspection: bool,
    /// Names of events of decoding and of the stream engine.
    pub events: Vec<&'static str>,
    /// Names of events of protocol detection.
    pub detection_events: Vec<&'static str>,
    /// Made up: at the flow's end, or before its protocol changes.
    pub is_made: bool,
    /// Made up before the protocol changes: everything is to be looked at now.
    pub is_flush: bool,
    /// The stream engine drops it.
    pub is_dropped: bool,
    /// It changed the application layer.
    pub updated: bool,
    /// The application layer of its own direction changed since the last packet of it, and is
    /// still parsed: frames are looked at.
    pub has_new_frames: bool,
    /// It was made up at the flow's end.
    pub at_end: bool,
    /// Its session is closed.
    pub is_closed: bool,
    /// Streams are inspected before they are acknowledged.
    pub is_inline: bool,
    /// Parts of the raw stream that are to be inspected, with their offsets.
    pub stream: Vec<(u64, &'a [u8])>,
    /// There is a part of the stream to inspect.
    pub has_stream: bool,
    /// Of the flow's counters.
    pub counters: Counters,
    /// Bytes of the streams so far, client's and server's; none without a session.
    pub stream_sizes: Option<[u32; 2]>,
    /// Protocols of the flow.
    pub protocols: Protocols,
}

/// Counters of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Since its first packet, in seconds.
    pub age: u64,
    /// Packets to the server and to the client.
    pub packets: [u64; 2],
    /// Bytes to the server and to the client.
    pub bytes: [u64; 2],
}

/// What is known of a flow's application protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It will not be known any more.
    Failed,
    /// It is this one.
    Is(Protocol),
}

/// Application protocols of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protocols {
    /// Of the flow.
    pub flow: Known,
    /// As each direction was recognised.
    pub sides: [Known; 2],
    /// Before a change.
    pub original: Known,
    /// A direction was decided while this packet was processed.
    pub just_decided: bool,
}

impl<'a> Facts<'a> {
    /// Of a packet without a flow.
    pub fn new(packet: &'a Packet) -> Self {
        Self {
            packet,
            direction: None,
            established: false,
            is_first: false,
            in_session: false,
            replaced: None,
            added_to_stream: false,
            no_payload_inspection: false,
            events: Vec::new(),
            detection_events: Vec::new(),
            is_made: false,
            is_flush: false,
            is_dropped: false,
            updated: false,
            has_new_frames: false,
            at_end: false,
            is_closed: false,
            is_inline: false,
            stream: Vec::new(),
            has_stream: false,
            counters: Counters::default(),
            stream_sizes: None,
            protocols: Protocols::default(),
        }
    }
}

impl Facts<'_> {
    /// Sender and receiver.
    pub(crate) fn addresses(&self) -> (Option<IpAddr>, Option<IpAddr>) {
        match &self.packet.ip {
            Some(ip) => (Some(ip.source), Some(ip.destination)),
            None => (None, None),
        }
    }

    pub(crate) fn time(&self) -> Time {
        self.packet.time
    }

    /// The payload that rules look at.
    pub(crate) fn payload(&self) -> &[u8] {
        self.replaced.unwrap_or(self.packet.payload())
    }

    pub(crate) fn has_payload(&self) -> bool {
        !self.no_payload_inspection && !self.payload().is_empty()
    }
}

/// State that checks read and change.
pub(crate) struct Changes<'a> {
    pub(crate) flow: Option<&'a mut FlowState>,
    pub(crate) host_bits: &'a mut HostBitTable,
    pub(crate) reputations: &'a Reputations,
}

/// Whether a check holds; checks that change something do so.
pub(crate) fn holds(check: &Match, facts: &Facts<'_>, changes: &mut Changes<'_>) -> bool {
    match check {
        Match::Number(number, compare) => number_holds(*number, compare, facts),
        Match::Packet(PacketCheck::Reputation { side, category, test }) => {
            changes.reputations.holds(*side, category, test, facts.addresses())
        }
        Match::Packet(PacketCheck::GeoIp(check)) => {
            let countries = changes.reputations.countries.as_ref();
            countries.is_some_and(|countries| countries.holds(check, facts.addresses()))
        }
        Match::Packet(check) => packet_holds(check, facts),
        Match::FlowBits(bits) => flow_bits(bits, changes.flow.as_deref_mut()),
        Match::FlowInt(number) => flow_int(number, changes.flow.as_deref_mut()),
        Match::HostBits(bits) => {
            let (source, destination) = facts.addresses();
            changes.host_bits.apply(bits, facts.time(), source, destination)
        }
        Match::Variable(check) => {
            let flow = changes.flow.as_deref();
            let value = flow.and_then(|flow| flow.variable(check.variable));
            value.is_some_and(|value| memchr::memmem::find(value, &check.bytes).is_some())
        }
        Match::AppProtocol(check) => protocol_holds(check, facts),
        Match::EngineEvent(name) => facts.events.contains(&name.as_str()),
        Match::AppEvent { protocol: None, event } => {
            facts.detection_events.contains(&event.as_str())
        }
        Match::Bypass => {
            if let Some(flow) = changes.flow.as_deref_mut() {
                flow.bypassed = true;
            }
            true
        }
        // What is done after a match, here only to be carried out.
        Match::FileStore { .. }
        | Match::Config(_)
        | Match::TlsStore
        | Match::Replace
        | Match::Mark { .. } => true,
        _ => false,
    }
}

fn number_holds(number: PacketNumber, compare: &Compare, facts: &Facts<'_>) -> bool {
    let value = match number {
        PacketNumber::FlowPacketsEither => {
            return facts.direction.is_some()
                && facts.counters.packets.iter().any(|n| compare.holds(*n));
        }
        PacketNumber::FlowBytesEither => {
            return facts.direction.is_some()
                && facts.counters.bytes.iter().any(|n| compare.holds(*n));
        }
        _ => number_of(number, facts),
    };
    value.is_some_and(|value| compare.holds(value))
}

fn number_of(number: PacketNumber, facts: &Facts<'_>) -> Option<u64> {
    let packet = facts.packet;
    let ip = packet.ip.as_ref();
    let tcp = match &packet.transport {
        Transport::Tcp(tcp) => Some(tcp),
        _ => None,
    };
    let icmp = match &packet.transport {
        Transport::Icmp(icmp) => Some(icmp),
        _ => None,
    };
    let is_v4 = |ip: &&Ip| ip.version == IpVersion::V4;
    let of_flow = |value: u64| facts.direction.is_some().then_some(value);
    match number {
        PacketNumber::Ttl => Some(ip?.ttl.into()),
        PacketNumber::Tos => Some(ip.filter(is_v4)?.tos.into()),
        PacketNumber::IpId => Some(ip.filter(is_v4)?.id.into()),
        // In units of eight bytes, and of IPv6 in bytes, if it has a fragment header.
        PacketNumber::FragmentOffset if ip.is_some_and(|ip| is_v4(&ip)) => {
            Some(u64::from(ip?.fragment_offset) / 8)
        }
        PacketNumber::FragmentOffset => {
            ip.filter(|ip| ip.is_fragment()).map(|ip| ip.fragment_offset.into())
        }
        PacketNumber::IpProtocol => Some(ip?.protocol.into()),
        PacketNumber::Sequence => Some(tcp?.sequence.into()),
        PacketNumber::Acknowledgement => Some(tcp?.acknowledgement.into()),
        PacketNumber::Window => Some(tcp?.window.into()),
        PacketNumber::TcpMss => tcp?.mss.map(u64::from),
        PacketNumber::TcpWindowScale => tcp?.window_scale.map(u64::from),
        PacketNumber::IcmpType => Some(icmp?.kind.into()),
        PacketNumber::IcmpCode => Some(icmp?.code.into()),
        PacketNumber::IcmpId => icmp?.id.map(u64::from),
        PacketNumber::IcmpSequence => icmp?.sequence.map(u64::from),
        PacketNumber::Icmpv6Mtu => icmp?.mtu.map(u64::from),
        PacketNumber::PayloadSize => (!facts.is_made).then(|| facts.payload().len() as u64),
        PacketNumber::FlowAge => of_flow(facts.counters.age),
        PacketNumber::FlowPacketsToServer => of_flow(facts.counters.packets[0]),
        PacketNumber::FlowPacketsToClient => of_flow(facts.counters.packets[1]),
        PacketNumber::FlowBytesToServer => of_flow(facts.counters.bytes[0]),
        PacketNumber::FlowBytesToClient => of_flow(facts.counters.bytes[1]),
        PacketNumber::VlanLayers => Some(packet.vlan.len() as u64),
        PacketNumber::FlowPacketsEither | PacketNumber::FlowBytesEither => None,
    }
}

fn packet_holds(check: &PacketCheck, facts: &Facts<'_>) -> bool {
    let packet = facts.packet;
    match check {
        PacketCheck::Flow(flow) => flow_holds(flow, facts),
        PacketCheck::TcpFlags { flags, mask, mode } => match &packet.transport {
            Transport::Tcp(tcp) => tcp_flags(tcp.flags.0, *flags, *mask, *mode),
            _ => false,
        },
        PacketCheck::FragmentBits { bits, mode } => fragment_bits(packet, *bits, *mode),
        PacketCheck::IpOption(kind) => packet.ip.as_ref().is_some_and(|ip| {
            ip.version == IpVersion::V4
                && kind.map_or(!ip.options.is_empty(), |kind| ip.options.contains(&kind))
        }),
        PacketCheck::SameIp => packet.ip.as_ref().is_some_and(|ip| ip.source == ip.destination),
        PacketCheck::NetworkProtocol(wanted) => packet.ip.as_ref().is_some_and(|ip| {
            matches!(
                (wanted, ip.version),
                (NetworkProtocol::V4, IpVersion::V4) | (NetworkProtocol::V6, IpVersion::V6)
            )
        }),
        PacketCheck::Checksum { of, valid } => checksum(packet, *of) == Some(*valid),
        PacketCheck::StreamSize { side, compare } => {
            let Some([client, server]) = facts.stream_sizes else { return false };
            let (client, server) = (compare.holds(client.into()), compare.holds(server.into()));
            match side {
                StreamSide::Client => client,
                StreamSide::Server => server,
                StreamSide::Both => client && server,
                StreamSide::Either => client || server,
            }
        }
        PacketCheck::VlanId { layer, compare } => vlan(&packet.vlan, *layer, compare),
        PacketCheck::Rpc { program, version, procedure } => {
            rpc(packet, *program, *version, *procedure)
        }
        // These are asked of what is known of addresses.
        PacketCheck::GeoIp(_) | PacketCheck::Reputation { .. } => false,
    }
}

fn flow_holds(flow: &Flow, facts: &Facts<'_>) -> bool {
    let is_rebuilt = facts.packet.source == PacketSource::Defragmented;
    if flow.no_fragment && is_rebuilt || flow.only_fragment && !is_rebuilt {
        return false;
    }
    if let Some(direction) = flow.direction
        && facts.direction != Some(direction.into())
    {
        return false;
    }
    if flow.established {
        return facts.established;
    }
    !flow.not_established || !facts.established
}

impl From<crate::rule::header::Direction> for Direction {
    fn from(direction: crate::rule::header::Direction) -> Self {
        match direction {
            crate::rule::header::Direction::ToServer => Direction::ToServer,
            crate::rule::header::Direction::ToClient => Direction::ToClient,
        }
    }
}

fn tcp_flags(found: u8, wanted: u8, mask: u8, mode: BitsMode) -> bool {
    if wanted == 0 && found != 0 {
        return mode == BitsMode::Not;
    }
    bits(found & mask, wanted, mode)
}

fn bits(found: u8, wanted: u8, mode: BitsMode) -> bool {
    match mode {
        BitsMode::Exactly => found == wanted,
        BitsMode::All => found & wanted == wanted,
        BitsMode::Any => found & wanted != 0,
        BitsMode::Not => found & wanted != wanted,
    }
}

fn fragment_bits(packet: &Packet, wanted: u8, mode: BitsMode) -> bool {
    let Some(ip) = packet.ip.as_ref().filter(|ip| ip.version == IpVersion::V4) else {
        return false;
    };
    let found =
        u8::from(ip.reserved) | u8::from(ip.dont_fragment) << 1 | u8::from(ip.more_fragments) << 2;
    // Unlike with TCP's flags, `+` wants others besides.
    bits(found, wanted, mode) && !(mode == BitsMode::All && found == wanted)
}

fn checksum(packet: &Packet, of: ChecksumOf) -> Option<bool> {
    let ip = packet.ip.as_ref()?;
    let version = match of {
        ChecksumOf::Ipv4 | ChecksumOf::TcpV4 | ChecksumOf::UdpV4 | ChecksumOf::IcmpV4 => {
            IpVersion::V4
        }
        ChecksumOf::TcpV6 | ChecksumOf::UdpV6 | ChecksumOf::IcmpV6 => IpVersion::V6,
    };
    if ip.version != version {
        return None;
    }
    match (of, &packet.transport) {
        (ChecksumOf::Ipv4, _) => Some(ip.checksum_ok),
        (ChecksumOf::TcpV4 | ChecksumOf::TcpV6, Transport::Tcp(tcp)) => Some(tcp.checksum_ok),
        (ChecksumOf::UdpV4, Transport::Udp(udp)) => {
            (!udp.checksum_absent).then_some(udp.checksum_ok)
        }
        // Without a checksum it is wrong there (RFC 8200, section 8.1).
        (ChecksumOf::UdpV6, Transport::Udp(udp)) => Some(udp.checksum_ok),
        (ChecksumOf::IcmpV4 | ChecksumOf::IcmpV6, Transport::Icmp(icmp)) => Some(icmp.checksum_ok),
        _ => None,
    }
}

/// As Suricata 8.0.6 reads them: nothing holds for a packet without tags, and the place behind the
/// innermost tag has the id 0.
fn vlan(ids: &[u16], layer: ElementIndex, compare: &Compare) -> bool {
    let holds = |id: &u16| compare.holds(u64::from(*id));
    if ids.is_empty() {
        return false;
    }
    match layer {
        ElementIndex::Any => ids.iter().any(holds),
        ElementIndex::All => ids.iter().all(holds),
        ElementIndex::AllOne => ids.iter().all(holds),
        ElementIndex::Count(wanted) => {
            wanted.holds(ids.iter().filter(|id| holds(id)).count() as u64)
        }
        ElementIndex::At(place) if usize::try_from(place) == Ok(ids.len()) => compare.holds(0),
        ElementIndex::At(place) => {
            let from = if place < 0 { ids.len() as i64 } else { 0 };
            let place = usize::try_from(from + i64::from(place)).ok();
            place.and_then(|place| ids.get(place)).is_some_and(holds)
        }
    }
}

/// A call of ONC RPC (RFC 5531) at the beginning of the payload, behind the record mark of TCP.
fn rpc(packet: &Packet, program: u32, version: Option<u32>, procedure: Option<u32>) -> bool {
    let skip = match &packet.transport {
        Transport::Tcp(_) => 4,
        Transport::Udp(_) => 0,
        _ => return false,
    };
    let word = |i: usize| {
        let bytes = packet.payload().get(skip + 4 * i..skip + 4 * i + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    };
    // Transaction id, type (0 is a call), version of RPC, program, version, procedure.
    word(1) == Some(0)
        && word(2) == Some(2)
        && word(3) == Some(program)
        && version.is_none_or(|wanted| word(4) == Some(wanted))
        && procedure.is_none_or(|wanted| word(5) == Some(wanted))
}

fn flow_bits(check: &FlowBits, flow: Option<&mut FlowState>) -> bool {
    let Some(flow) = flow else { return false };
    match check.command {
        BitCommand::IsSet => check.bits.iter().any(|bit| flow.bit(*bit)),
        BitCommand::IsNotSet => check.bits.iter().any(|bit| !flow.bit(*bit)),
        BitCommand::Set => {
            check.bits.iter().for_each(|bit| flow.set_bit(*bit));
            true
        }
        BitCommand::Unset => {
            check.bits.iter().for_each(|bit| flow.clear_bit(*bit));
            true
        }
        BitCommand::Toggle => {
            for bit in &check.bits {
                if flow.bit(*bit) {
                    flow.clear_bit(*bit);
                } else {
                    flow.set_bit(*bit);
                }
            }
            true
        }
    }
}

fn flow_int(check: &FlowInt, flow: Option<&mut FlowState>) -> bool {
    let Some(flow) = flow else { return false };
    let right = match check.value {
        IntValue::None => 0,
        IntValue::Number(number) => number,
        IntValue::Variable(variable) => flow.number(variable).unwrap_or_default(),
    };
    let left = flow.number(check.variable);
    let compared = |test: fn(&u32, &u32) -> bool| left.is_some_and(|left| test(&left, &right));
    match check.command {
        IntCommand::Set => flow.set_number(check.variable, right),
        // A variable that is not there is 0.
        IntCommand::Add => {
            flow.set_number(check.variable, left.unwrap_or_default().wrapping_add(right));
        }
        IntCommand::Subtract => {
            let Some(left) = left else { return false };
            flow.set_number(check.variable, left.wrapping_sub(right));
        }
        IntCommand::IsSet => return left.is_some(),
        IntCommand::IsNotSet => return left.is_none(),
        IntCommand::Less => return compared(u32::lt),
        IntCommand::AtMost => return compared(u32::le),
        IntCommand::Equal => return compared(u32::eq),
        IntCommand::NotEqual => return compared(u32::ne),
        IntCommand::AtLeast => return compared(u32::ge),
        IntCommand::More => return compared(u32::gt),
    }
    true
}

fn protocol_holds(check: &AppProtocolCheck, facts: &Facts<'_>) -> bool {
    let Some(direction) = facts.direction else { return false };
    let protocols = &facts.protocols;
    let [server, client] = protocols.sides;
    let found: &[Known] = match check.of {
        ProtocolOf::Direction if direction == Direction::ToServer => &[server],
        ProtocolOf::Direction => &[client],
        ProtocolOf::Final => &[protocols.flow],
        ProtocolOf::Either => &[server, client],
        ProtocolOf::ToServer => &[server],
        ProtocolOf::ToClient => &[client],
        ProtocolOf::Original => &[protocols.original],
    };
    // What is not known yet is not something else.
    if check.negated && found.iter().all(|known| *known == Known::Unknown) {
        return false;
    }
    let holds = found.iter().any(|known| match *known {
        Known::Is(protocol) => is_called(protocol, &check.protocol),
        Known::Failed => check.protocol == "failed",
        Known::Unknown => check.protocol == "unknown",
    });
    holds != check.negated
}

/// Whether a protocol has this name in rules: `http` is HTTP of any version.
fn is_called(protocol: Protocol, name: &str) -> bool {
    gauntlet_protocols::ProtocolSet::of_name(name).is_some_and(|set| set.has(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_behind_the_innermost_tag_has_the_id_0() {
        let (other, less) = (Compare::NotEqual(200), Compare::Less(400));
        let at = ElementIndex::At;
        assert!(vlan(&[6], at(1), &other) && vlan(&[6], at(1), &less));
        assert!(!vlan(&[6], at(2), &other) && !vlan(&[], at(0), &other));
        assert!(vlan(&[6, 200], at(-2), &other) && !vlan(&[6, 200], at(1), &other));
        assert!(!vlan(&[], ElementIndex::All, &other) && vlan(&[6, 7], ElementIndex::All, &other));
    }
}
