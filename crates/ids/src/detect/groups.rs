//! Rules on packets in groups, so that a packet is searched for the patterns of those rules alone
//! whose transport, direction, ports and application protocol it has.

use std::collections::BTreeMap;

use gauntlet_packet::{Direction, Packet};
use gauntlet_protocols::Protocol;

use super::packet::{Facts, Known};
use super::program::{Compiled, Program};
use crate::inspect::prefilter::{Matcher, Scratch};
use crate::rule::header::Protocols;
use crate::rule::matches::{Match, PacketCheck};
use crate::rule::port::PortSet;
use crate::rule::{FastPattern, Rule, RuleKind};

/// Rules with at most so many ports are kept by port, others with those of any port.
const PORTS_MAX: usize = 64;
/// Rules of one port from this number on are searched together with those of any port: one search
/// instead of two, for more memory.
const MERGED_MIN: usize = 64;

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
    const VARIABLES: u16 = 1 << 4;
    const ESTABLISHED: u16 = 1 << 5;
    const NOT_ESTABLISHED: u16 = 1 << 6;
    const JUST_DECIDED: u16 = 1 << 7;

    fn of_bits(bits: &[(u16, bool)]) -> Self {
        Self(bits.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (bit, _)| all | bit))
    }

    /// What the packet has; `has_variables`: rules have kept something with the flow.
    pub(crate) fn of_packet(facts: &Facts<'_>, has_variables: bool) -> Self {
        let has_payload = facts.has_payload() || facts.has_stream;
        Self::of_bits(&[
            (Self::PAYLOAD, has_payload),
            (Self::NO_PAYLOAD, !has_payload),
            (Self::FLOW, facts.direction.is_some()),
            (Self::REAL_PACKET, !facts.is_made),
            (Self::VARIABLES, has_variables),
            (Self::ESTABLISHED, facts.established),
            (Self::NOT_ESTABLISHED, !facts.established),
            (Self::JUST_DECIDED, facts.protocols.just_decided),
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
            (Self::VARIABLES, made.needs.flow_variable),
            (Self::ESTABLISHED, established),
            (Self::NOT_ESTABLISHED, not_established),
            (Self::JUST_DECIDED, rule.kind == RuleKind::ProtocolDetectionOnly),
        ])
    }

    fn covers(self, needs: Self) -> bool {
        needs.0 & !self.0 == 0
    }
}

/// A rule that is looked for in payloads or streams, or tried on all packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) rule: u32,
    pub(crate) pattern: Option<&'a FastPattern>,
    /// The pattern is looked for in payloads of packets.
    pub(crate) payload: bool,
    /// The pattern is looked for in streams.
    pub(crate) stream: bool,
}

/// Some of the rules.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Rules without a pattern.
    plain: Vec<(Has, u32)>,
    payload: Matcher,
    stream: Matcher,
    /// Those of any port are in it.
    is_merged: bool,
}

impl Group {
    fn new(members: &[Member<'_>], program: &Program) -> Self {
        let mut made = Self::default();
        let (mut payload, mut stream) = (Vec::new(), Vec::new());
        for member in members {
            let index = member.rule as usize;
            let (Some(rule), Some(compiled)) =
                (program.rules.rules.get(index), program.compiled.get(index))
            else {
                continue;
            };
            match member.pattern {
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

/// Groups of packets of one transport in one direction.
#[derive(Debug, Default)]
struct Lane {
    any_port: usize,
    /// By port, rising.
    by_destination: Vec<(u16, usize)>,
    by_source: Vec<(u16, usize)>,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// TCP, UDP, others; each to the server and to the client.
    lanes: [[Lane; 2]; 3],
    by_protocol: BTreeMap<(Protocol, Direction), usize>,
    /// Some rule looks at streams.
    pub(crate) has_streams: bool,
}

/// Members by the ports that they are kept by.
#[derive(Default)]
struct Sorted<'a> {
    any_port: Vec<Member<'a>>,
    by_destination: BTreeMap<u16, Vec<Member<'a>>>,
    by_source: BTreeMap<u16, Vec<Member<'a>>>,
}

impl Groups {
    /// Groups of these rules.
    pub(crate) fn new(members: &[Member<'_>], program: &Program) -> Self {
        let mut made =
            Self { has_streams: members.iter().any(|member| member.stream), ..Self::default() };
        let mut known = BTreeMap::new();
        for transport in 0..made.lanes.len() {
            for direction in BOTH {
                let sorted = sort(members, program, transport, direction);
                let any_port = made.add(&sorted.any_port, program, &mut known);
                let mut by_port = |ports: &BTreeMap<u16, Vec<Member<'_>>>| -> Vec<(u16, usize)> {
                    let group = |(port, own): (&u16, &Vec<Member<'_>>)| {
                        let is_merged = own.len() >= MERGED_MIN;
                        let mut all = own.clone();
                        if is_merged {
                            all.extend_from_slice(&sorted.any_port);
                        }
                        let group = made.add(&all, program, &mut known);
                        if let Some(group) = made.groups.get_mut(group) {
                            group.is_merged = is_merged;
                        }
                        (*port, group)
                    };
                    ports.iter().map(group).collect()
                };
                let by_destination = by_port(&sorted.by_destination);
                let by_source = by_port(&sorted.by_source);
                let lane = Lane { any_port, by_destination, by_source };
                if let Some(place) =
                    made.lanes.get_mut(transport).and_then(|l| l.get_mut(direction.index()))
                {
                    *place = lane;
                }
            }
        }
        for protocol in Protocol::all() {
            for direction in BOTH {
                let own = members.iter().filter(|member| {
                    parts(program, member).is_some_and(|(rule, compiled)| {
                        compiled.protocols.is_some_and(|set| set.has(protocol))
                            && looks(rule, direction)
                    })
                });
                let own: Vec<Member<'_>> = own.copied().collect();
                if !own.is_empty() {
                    let group = made.add(&own, program, &mut known);
                    made.by_protocol.insert((protocol, direction), group);
                }
            }
        }
        made
    }

    /// The group of these rules, which is made if there is none yet.
    fn add(
        &mut self,
        members: &[Member<'_>],
        program: &Program,
        known: &mut BTreeMap<Vec<u32>, usize>,
    ) -> usize {
        let mut rules: Vec<u32> = members.iter().map(|member| member.rule).collect();
        rules.sort_unstable();
        *known.entry(rules).or_insert_with(|| {
            self.groups.push(Group::new(members, program));
            self.groups.len() - 1
        })
    }

    /// Appends the rules that can match a packet, in any order, some perhaps twice.
    pub(crate) fn candidates(
        &self,
        facts: &Facts<'_>,
        has_variables: bool,
        scratch: &mut Scratch,
        found: &mut Vec<u32>,
    ) {
        let has = Has::of_packet(facts, has_variables);
        let direction = facts.direction.unwrap_or(Direction::ToServer);
        let transport = transport(facts.packet);
        let lane = self.lanes.get(transport).and_then(|lanes| lanes.get(direction.index()));
        let Some(lane) = lane else { return };
        let (source, destination) = facts.packet.ports();
        let own = [(&lane.by_source, source), (&lane.by_destination, destination)];
        let own = own.map(|(ports, port)| {
            let place = ports.binary_search_by_key(&port, |(port, _)| *port).ok()?;
            ports.get(place).map(|(_, group)| *group)
        });
        let by_protocol = match facts.protocols.flow {
            Known::Is(protocol) => self.by_protocol.get(&(protocol, direction)).copied(),
            _ => None,
        };
        let mut is_merged = false;
        let all = own.into_iter().chain([by_protocol]).flatten();
        for group in all.filter_map(|group| self.groups.get(group)) {
            is_merged |= group.is_merged;
            group.candidates(facts, has, scratch, found);
        }
        if !is_merged && let Some(group) = self.groups.get(lane.any_port) {
            group.candidates(facts, has, scratch, found);
        }
    }
}

fn parts<'a>(program: &'a Program, member: &Member<'_>) -> Option<(&'a Rule, &'a Compiled)> {
    let index = member.rule as usize;
    Some((program.rules.rules.get(index)?, program.compiled.get(index)?))
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

/// Rules without an application protocol, for one lane.
fn sort<'a>(
    members: &[Member<'a>],
    program: &Program,
    transport: usize,
    direction: Direction,
) -> Sorted<'a> {
    let mut sorted = Sorted::default();
    for member in members {
        let Some((rule, compiled)) = parts(program, member) else { continue };
        let header = &rule.header;
        if compiled.protocols.is_some()
            || !looks(rule, direction)
            || !has_transport(&header.protocols, transport)
        {
            continue;
        }
        let destination = few(&header.destination_ports, header.destination_ports_any);
        let source = || few(&header.source_ports, header.source_ports_any);
        let (by_port, ports) = match (destination, header.protocols.link.is_some()) {
            (_, true) => (None, Vec::new()),
            (Some(ports), _) => (Some(&mut sorted.by_destination), ports),
            (None, _) => match source() {
                Some(ports) => (Some(&mut sorted.by_source), ports),
                None => (None, Vec::new()),
            },
        };
        match by_port {
            Some(by_port) => {
                for port in ports {
                    by_port.entry(port).or_default().push(*member);
                }
            }
            None => sorted.any_port.push(*member),
        }
    }
    sorted
}
