//! Rules on packets in groups, so that a packet is searched for the patterns of those rules alone
//! whose transport, direction, ports and application protocol it has. Groups are made when the
//! first packet needs them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use gauntlet_packet::{Direction, Packet, Transport};
use gauntlet_protocols::Protocol;

use super::compiled::Compiled;
use super::lock;
use super::packet::{Facts, Known};
use crate::inspect::prefilter::{Matcher, Scratch};
use crate::rule::header::Protocols;
use crate::rule::matches::{Match, PacketCheck};
use crate::rule::port::PortSet;
use crate::rule::{Rule, RuleKind};

/// Rules with at most so many ports are kept by port, others with those of any port.
const PORTS_MAX: usize = 64;
/// Groups that are made; packets that would need another one are searched for all rules of their
/// transport and direction.
const GROUPS_MAX: usize = 256;

const TCP: u8 = 6;
const UDP: u8 = 17;
const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// What a packet must have, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Has(u16);

impl Has {
    const PAYLOAD: u16 = 1 << 0;
    const NO_PAYLOAD: u16 = 1 << 1;
    const FLOW: u16 = 1 << 2;
    const REAL_PACKET: u16 = 1 << 3;
    const ESTABLISHED: u16 = 1 << 4;
    const NOT_ESTABLISHED: u16 = 1 << 5;
    const JUST_DECIDED: u16 = 1 << 6;
    const WRONG_CHECKSUM: u16 = 1 << 7;

    fn of_bits(bits: &[(u16, bool)]) -> Self {
        Self(bits.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (bit, _)| all | bit))
    }

    /// What the packet has. Not what rules keep with the flow: others may still set it.
    pub(crate) fn of_packet(facts: &Facts<'_>) -> Self {
        let has_payload = facts.has_payload() || facts.has_stream;
        Self::of_bits(&[
            (Self::PAYLOAD, has_payload),
            (Self::NO_PAYLOAD, !has_payload),
            (Self::FLOW, facts.direction.is_some()),
            (Self::REAL_PACKET, !facts.is_made),
            (Self::ESTABLISHED, facts.established),
            (Self::NOT_ESTABLISHED, !facts.established),
            (Self::JUST_DECIDED, facts.protocols.just_decided),
            (Self::WRONG_CHECKSUM, has_wrong_checksum(facts.packet)),
        ])
    }

    fn of_rule(rule: &Rule, made: &Compiled) -> Self {
        let flows = rule.packet.iter().filter_map(|check| match check {
            Match::Packet(PacketCheck::Flow(flow)) => Some(flow),
            _ => None,
        });
        let (mut established, mut not_established) = (false, false);
        for flow in flows {
            established |= flow.established;
            not_established |= flow.not_established && !flow.established;
        }
        Self::of_bits(&[
            (Self::PAYLOAD, made.needs.payload),
            (Self::NO_PAYLOAD, made.needs.no_payload),
            (Self::FLOW, made.needs.flow),
            (Self::REAL_PACKET, made.needs.real_packet),
            (Self::ESTABLISHED, established),
            (Self::NOT_ESTABLISHED, not_established),
            (Self::JUST_DECIDED, rule.kind == RuleKind::ProtocolDetectionOnly),
            (Self::WRONG_CHECKSUM, asks_wrong_checksum(rule)),
        ])
    }

    fn covers(self, needs: Self) -> bool {
        needs.0 & !self.0 == 0
    }
}

/// Whether some checksum is wrong. Of each layer the rules' checks ask more.
fn has_wrong_checksum(packet: &Packet) -> bool {
    let is_right = match &packet.transport {
        Transport::Tcp(tcp) => tcp.checksum_ok,
        Transport::Udp(udp) => udp.checksum_ok,
        Transport::Icmp(icmp) => icmp.checksum_ok,
        Transport::Sctp(_) | Transport::Esp(_) | Transport::None => true,
    };
    !is_right || packet.ip.as_ref().is_some_and(|ip| !ip.checksum_ok)
}

fn asks_wrong_checksum(rule: &Rule) -> bool {
    let wrong =
        |check: &Match| matches!(check, Match::Packet(PacketCheck::Checksum { valid: false, .. }));
    rule.packet.iter().any(wrong)
}

/// Rules with what was made of them.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) rules: &'a [Rule],
    pub(crate) compiled: &'a [Compiled],
}

impl<'a> Parts<'a> {
    fn of(self, member: Member) -> Option<(&'a Rule, &'a Compiled)> {
        let index = member.rule as usize;
        Some((self.rules.get(index)?, self.compiled.get(index)?))
    }
}

/// A rule that is looked for in payloads or streams, or tried on all packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) rule: u32,
    /// The pattern is looked for in payloads of packets.
    pub(crate) payload: bool,
    /// The pattern is looked for in streams.
    pub(crate) stream: bool,
}

/// Rules that are looked for together.
#[derive(Debug, Default)]
struct Group {
    /// Rules without a pattern.
    plain: Vec<(Has, u32)>,
    payload: Matcher,
    stream: Matcher,
}

impl Group {
    fn new(members: impl Iterator<Item = Member>, rules: Parts<'_>) -> Self {
        let mut made = Self::default();
        let (mut payload, mut stream) = (Vec::new(), Vec::new());
        for member in members {
            let Some((rule, compiled)) = rules.of(member) else { continue };
            match rule.fast_pattern.as_ref().filter(|_| member.payload || member.stream) {
                None => made.plain.push((Has::of_rule(rule, compiled), member.rule)),
                Some(pattern) => {
                    if member.payload {
                        payload.push((member.rule, pattern));
                    }
                    if member.stream {
                        stream.push((member.rule, pattern));
                    }
                }
            }
        }
        made.payload = Matcher::new(&payload);
        made.stream = Matcher::new(&stream);
        made
    }

    /// Appends the rules that can match, in any order, some perhaps twice.
    fn candidates(&self, facts: &Facts<'_>, has: Has, scratch: &mut Scratch, found: &mut Vec<u32>) {
        let plain = self.plain.iter().filter(|(needs, _)| has.covers(*needs));
        found.extend(plain.map(|(_, rule)| *rule));
        if facts.no_payload_inspection {
            return;
        }
        let payload = facts.payload();
        self.payload.candidates(payload, scratch, found);
        if facts.has_stream {
            for (_, bytes) in &facts.stream {
                self.stream.candidates(bytes, scratch, found);
            }
        } else if !facts.added_to_stream {
            self.stream.candidates(payload, scratch, found);
        }
    }
}

/// Rules by port, rising.
type ByPort = Vec<(u16, Vec<Member>)>;

/// Rules on packets of one transport in one direction that name no application protocol.
#[derive(Debug, Default)]
struct Lane {
    any_port: Vec<Member>,
    by_destination: ByPort,
    by_source: ByPort,
    /// All of these, and those with an application protocol.
    all: Group,
}

/// What rules are searched together: transport, direction, ports that have rules of their own,
/// application protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    transport: usize,
    direction: Direction,
    source: Option<u16>,
    destination: Option<u16>,
    protocol: Option<Protocol>,
}

/// Groups that a thread has used, by the numbers of their keys.
#[derive(Debug, Default)]
pub(crate) struct Used(Vec<(u64, Arc<Group>)>);

impl Key {
    /// Each has another one.
    fn number(self) -> u64 {
        let port = |port: Option<u16>| port.map_or(0, |port| 1 << 16 | u64::from(port));
        let protocol = self.protocol.map_or(0, |protocol| 1 + protocol as u64);
        let direction = self.direction.index() as u64;
        let lane = (self.transport as u64) << 1 | direction;
        protocol << 40 | lane << 34 | port(self.source) << 17 | port(self.destination)
    }
}

/// All rules on packets.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// TCP, UDP, others; each to the server and to the client.
    lanes: [[Lane; 2]; 3],
    by_protocol: BTreeMap<(Protocol, Direction), Vec<Member>>,
    /// Groups that packets have asked for.
    made: Mutex<HashMap<Key, Arc<Group>>>,
    /// Some rule looks at streams.
    pub(crate) has_streams: bool,
}

impl Groups {
    /// Sorts these rules.
    pub(crate) fn new(members: &[Member], rules: Parts<'_>) -> Self {
        let has_streams = members.iter().any(|member| member.stream);
        let mut made = Self { has_streams, ..Self::default() };
        for (transport, lanes) in made.lanes.iter_mut().enumerate() {
            for direction in BOTH {
                if let Some(lane) = lanes.get_mut(direction.index()) {
                    *lane = Lane::new(members, rules, transport, direction);
                }
            }
        }
        for protocol in Protocol::all() {
            for direction in BOTH {
                let own = members.iter().filter(|member| {
                    rules.of(**member).is_some_and(|(rule, compiled)| {
                        compiled.protocols.is_some_and(|set| set.has(protocol))
                            && looks(rule, direction)
                    })
                });
                let own: Vec<Member> = own.copied().collect();
                if !own.is_empty() {
                    made.by_protocol.insert((protocol, direction), own);
                }
            }
        }
        made
    }

    /// Appends the rules that can match a packet, in any order, some perhaps twice.
    pub(crate) fn candidates(
        &self,
        rules: Parts<'_>,
        facts: &Facts<'_>,
        (used, scratch): (&mut Used, &mut Scratch),
        found: &mut Vec<u32>,
    ) {
        let has = Has::of_packet(facts);
        let direction = facts.direction.unwrap_or(Direction::ToServer);
        let transport = transport(facts.packet);
        let lane = self.lanes.get(transport).and_then(|lanes| lanes.get(direction.index()));
        let Some(lane) = lane else { return };
        let (source, destination) = facts.packet.ports();
        let protocol = match facts.protocols.flow {
            Known::Is(protocol) => Some(protocol),
            _ => None,
        };
        let key = Key {
            transport,
            direction,
            source: own(&lane.by_source, source).map(|_| source),
            destination: own(&lane.by_destination, destination).map(|_| destination),
            protocol: protocol.filter(|p| self.by_protocol.contains_key(&(*p, direction))),
        };
        match used.0.binary_search_by_key(&key.number(), |(number, _)| *number) {
            Ok(place) => {
                if let Some((_, group)) = used.0.get(place) {
                    group.candidates(facts, has, scratch, found);
                }
            }
            Err(place) => match self.group(key, lane, rules) {
                Some(group) => {
                    group.candidates(facts, has, scratch, found);
                    used.0.insert(place, (key.number(), group));
                }
                None => lane.all.candidates(facts, has, scratch, found),
            },
        }
    }

    /// The group of a key, which is made if it is asked for the first time; none if there are
    /// many already.
    fn group(&self, key: Key, lane: &Lane, rules: Parts<'_>) -> Option<Arc<Group>> {
        let mut made = lock(&self.made);
        if let Some(group) = made.get(&key) {
            return Some(Arc::clone(group));
        }
        if made.len() >= GROUPS_MAX {
            return None;
        }
        let by_source = key.source.and_then(|port| own(&lane.by_source, port));
        let by_destination = key.destination.and_then(|port| own(&lane.by_destination, port));
        let by_protocol = key.protocol.and_then(|p| self.by_protocol.get(&(p, key.direction)));
        let parts = [by_source, by_destination, by_protocol.map(Vec::as_slice)];
        let parts = parts.into_iter().flatten().flatten().chain(&lane.any_port);
        let group = Arc::new(Group::new(parts.copied(), rules));
        made.insert(key, Arc::clone(&group));
        Some(group)
    }
}

/// The rules of a port.
fn own(ports: &ByPort, port: u16) -> Option<&[Member]> {
    let place = ports.binary_search_by_key(&port, |(port, _)| *port).ok()?;
    ports.get(place).map(|(_, own)| own.as_slice())
}

fn looks(rule: &Rule, direction: Direction) -> bool {
    match direction {
        Direction::ToServer => rule.towards.server,
        Direction::ToClient => rule.towards.client,
    }
}

/// The place of a packet's transport among the lanes.
fn transport(packet: &Packet) -> usize {
    match packet.ip.as_ref().map(|ip| ip.protocol) {
        Some(TCP) => 0,
        Some(UDP) => 1,
        _ => 2,
    }
}

/// Whether the header names the transport of a lane.
fn has_transport(protocols: &Protocols, transport: usize) -> bool {
    if protocols.is_any || protocols.link.is_some() {
        return true;
    }
    match transport {
        0 => protocols.contains(TCP),
        1 => protocols.contains(UDP),
        _ => {
            (0..=u8::MAX).any(|number| ![TCP, UDP].contains(&number) && protocols.contains(number))
        }
    }
}

/// The ports, if they are few.
fn few(ports: &PortSet, is_any: bool) -> Option<Vec<u16>> {
    let count: usize =
        ports.intervals.iter().map(|(low, high)| usize::from(high.saturating_sub(*low)) + 1).sum();
    let all = || ports.intervals.iter().flat_map(|(low, high)| *low..=*high).collect();
    (!is_any && count <= PORTS_MAX).then(all)
}

impl Lane {
    fn new(members: &[Member], rules: Parts<'_>, transport: usize, direction: Direction) -> Self {
        let mut lane = Self::default();
        let (mut by_destination, mut by_source) = (BTreeMap::new(), BTreeMap::new());
        let mut all = Vec::new();
        for member in members {
            let Some((rule, compiled)) = rules.of(*member) else { continue };
            let header = &rule.header;
            if !looks(rule, direction) || !has_transport(&header.protocols, transport) {
                continue;
            }
            all.push(*member);
            if compiled.protocols.is_some() {
                continue;
            }
            let is_link = header.protocols.link.is_some();
            let few = |ports: &PortSet, is_any: bool| few(ports, is_any || is_link);
            let (by_port, ports) =
                match few(&header.destination_ports, header.destination_ports_any) {
                    Some(ports) => (&mut by_destination, Some(ports)),
                    None => (&mut by_source, few(&header.source_ports, header.source_ports_any)),
                };
            let Some(ports) = ports else {
                lane.any_port.push(*member);
                continue;
            };
            for port in ports {
                by_port.entry(port).or_insert_with(Vec::new).push(*member);
            }
        }
        lane.by_destination = by_destination.into_iter().collect();
        lane.by_source = by_source.into_iter().collect();
        lane.all = Group::new(all.into_iter(), rules);
        lane
    }
}
