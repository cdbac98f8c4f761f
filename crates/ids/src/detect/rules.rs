//! Rules on packets and their streams, and what all kinds of rules share.

use gauntlet_packet::{Direction, Packet, Transport};
use gauntlet_protocols::ProtocolSet;

use super::alert::Alert;
use super::datasets::Datasets;
use super::flow_state::FlowState;
use super::groups::Used;
use super::header;
use super::host_bits::HostBitTable;
use super::packet::{self, Changes, Facts, Known};
use super::packet_buffers;
use super::profile::{Profile, Searched};
use super::program::{Needs, Program};
use super::reputations::Reputations;
use crate::inspect::prefilter::Scratch;
use crate::inspect::transform::{Transform, apply_all};
use crate::inspect::{Buffer, Capture, Context, Inspector};
use crate::rule::header::Hook;
use crate::rule::matches::{DataReputation, Dataset, Match};
use crate::rule::{Action, BufferMatches, Rule, RuleKind};

/// Everything that the inspection of one packet reads and changes.
pub(crate) struct Scene<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) inspector: &'a mut Inspector,
    pub(crate) search: &'a mut Scratch,
    pub(crate) groups: &'a mut Used,
    pub(crate) host_bits: &'a mut HostBitTable,
    pub(crate) datasets: &'a mut Datasets,
    pub(crate) reputations: &'a Reputations,
    pub(crate) flow: Option<&'a mut FlowState>,
    /// Whether the numbers of the DCE/RPC call at hand are little-endian.
    pub(crate) dce: Option<bool>,
    /// What rules cost, if this packet is measured.
    pub(crate) profile: Option<&'a mut Profile>,
}

impl Scene<'_> {
    /// When something begins whose cost is counted.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.profile.as_ref().map(|profile| profile.now())
    }

    /// A rule was tried since then.
    pub(crate) fn tried(&mut self, rule: u32, since: Option<u64>, matched: bool) {
        if let (Some(profile), Some(since)) = (&mut self.profile, since) {
            profile.tried(rule, since, matched);
        }
    }

    /// Rules were searched for since then.
    pub(crate) fn searched(&mut self, what: Searched, since: Option<u64>, named: usize) {
        if let (Some(profile), Some(since)) = (&mut self.profile, since) {
            profile.searched(what, since, named);
        }
    }
}

/// How a rule matched a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matched {
    No,
    Packet,
    Stream,
}

/// Rules of addresses alone: once for each direction of a flow, and for packets without one.
pub(crate) fn inspect_addresses(program: &Program, scene: &mut Scene<'_>, queue: &mut Vec<Alert>) {
    if scene.facts.direction.is_some() && !scene.facts.is_first {
        return;
    }
    for number in &program.prefilter.ip_only {
        let Some(rule) = program.rules.rules.get(*number as usize) else { continue };
        let begun = scene.begin();
        let matched = header::holds_for_addresses(&rule.header, scene.facts.packet)
            && checks_hold(rule, scene);
        scene.tried(*number, begun, matched);
        if matched {
            after_match(program, *number, scene);
            queue.push(alert(program, *number, Matched::Packet));
        }
    }
}

/// Rules of packets and streams. Returns the rules of transactions that this packet's payload
/// names. `has_events`: transactions of the flow have events.
pub(crate) fn inspect_packet(
    program: &Program,
    scene: &mut Scene<'_>,
    has_events: bool,
    queue: &mut Vec<Alert>,
) -> Vec<u32> {
    let mut of_transactions = Vec::new();
    let begun = scene.begin();
    let found = candidates(program, scene, has_events);
    scene.searched(Searched::Packet, begun, found.len());
    for &number in &found {
        let Some(made) = program.compiled.get(number as usize) else { continue };
        if !made.engines.is_empty() {
            of_transactions.push(number);
            continue;
        }
        let begun = scene.begin();
        let matched = packet_rule(program, number, scene, has_events);
        scene.tried(number, begun, matched != Matched::No);
        if matched != Matched::No {
            after_match(program, number, scene);
            queue.push(alert(program, number, matched));
        }
    }
    scene.search.room = found;
    of_transactions
}

fn alert(program: &Program, number: u32, matched: Matched) -> Alert {
    Alert {
        rule: number,
        action: action(program, number),
        transaction: None,
        names_transaction: false,
        of_state: false,
        of_stream: matched == Matched::Stream,
        is_rate_filtered: false,
    }
}

/// What a rule does.
pub(crate) fn action(program: &Program, number: u32) -> Action {
    program.rules.rules.get(number as usize).map_or(Action::Alert, |rule| rule.action)
}

fn candidates(program: &Program, scene: &mut Scene<'_>, has_events: bool) -> Vec<u32> {
    let filter = &program.prefilter;
    let facts = scene.facts;
    let mut found = std::mem::take(&mut scene.search.room);
    found.clear();
    let memory = (&mut *scene.groups, &mut *scene.search);
    filter.groups.candidates(program.parts(), facts, memory, &mut found);
    if has_events || !facts.events.is_empty() || !facts.detection_events.is_empty() {
        found.extend(filter.events.iter().filter(|number| {
            let made = program.compiled.get(**number as usize);
            made.is_some_and(|made| {
                meets(&made.needs, facts, has_events)
                    && made.protocols.is_none_or(|wanted| has_protocol(wanted, facts))
            })
        }));
    }
    for (buffer, _, matcher) in &filter.packet_buffers {
        if let Some(bytes) = packet_buffers::bytes(facts.packet, *buffer) {
            matcher.candidates(&bytes, scene.search, &mut found);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether the packet has what the rule needs.
fn meets(needs: &Needs, facts: &Facts<'_>, has_events: bool) -> bool {
    let has_payload = facts.has_payload() || facts.has_stream;
    let has_event = has_events || !facts.events.is_empty() || !facts.detection_events.is_empty();
    (!needs.payload || has_payload)
        && (!needs.no_payload || !has_payload)
        && (!needs.flow || facts.direction.is_some())
        && (!needs.event || has_event)
        && (!needs.real_packet || !facts.is_made)
        && has_flag_of(needs.tcp_begin_or_end, facts)
        && has_flag_of(needs.tcp_unusual, facts)
}

/// Whether a flag of TCP of this set is set. As in Suricata a rule whose `flags` name SYN, RST or
/// FIN is only tried on packets with one of the three, also if it asks for packets without them
/// (`!`), and so with URG, ECE and CWR.
fn has_flag_of(flags: u8, facts: &Facts<'_>) -> bool {
    flags == 0 || matches!(&facts.packet.transport, Transport::Tcp(tcp) if tcp.flags.0 & flags != 0)
}

fn packet_rule(program: &Program, number: u32, scene: &mut Scene<'_>, has_events: bool) -> Matched {
    let (Some(rule), Some(made)) =
        (program.rules.rules.get(number as usize), program.compiled.get(number as usize))
    else {
        return Matched::No;
    };
    let facts = scene.facts;
    // Rules of packets see those that are made up before a protocol changes, not those at the end.
    if facts.at_end && rule.kind == RuleKind::Packet {
        return Matched::No;
    }
    if !meets(&made.needs, facts, has_events) || !dsize_fits(rule, facts) {
        return Matched::No;
    }
    if made.protocols.is_some_and(|wanted| !has_protocol(wanted, facts)) {
        return Matched::No;
    }
    if rule.kind == RuleKind::ProtocolDetectionOnly && !facts.protocols.just_decided {
        return Matched::No;
    }
    matches(program, number, scene, false)
}

fn has_protocol(wanted: ProtocolSet, facts: &Facts<'_>) -> bool {
    let may_have = match &facts.packet.transport {
        Transport::Tcp(_) => facts.in_session,
        Transport::Udp(_) => true,
        Transport::Sctp(_) => facts.established,
        _ => false,
    };
    may_have && matches!(facts.protocols.flow, Known::Is(protocol) if wanted.has(protocol))
}

fn dsize_fits(rule: &Rule, facts: &Facts<'_>) -> bool {
    if facts.is_made || facts.has_stream && !rule.needs_packet {
        return true;
    }
    let size = facts.payload().len() as u64;
    rule.dsize.is_none_or(|dsize| dsize.0.holds(size))
}

/// Header, buffers of the packet, payload, checks. Of a rule of transactions the payload is looked
/// at with the transaction.
pub(crate) fn packet_matches(
    program: &Program,
    number: u32,
    scene: &mut Scene<'_>,
    of_transaction: bool,
) -> bool {
    matches(program, number, scene, of_transaction) != Matched::No
}

/// Whether a rule looks at such a packet at all: without an IP header (ARP, LLDP, what cannot be
/// decoded) only rules of events and of link layers do. Others would find no address that differs
/// from theirs, and an inline one would cut the network off.
fn sees(rule: &Rule, packet: &Packet) -> bool {
    packet.ip.is_some()
        || rule.kind == RuleKind::DecodeEventOnly
        || rule.header.protocols.link.is_some()
}

fn matches(program: &Program, number: u32, scene: &mut Scene<'_>, of_transaction: bool) -> Matched {
    let (Some(rule), Some(made)) =
        (program.rules.rules.get(number as usize), program.compiled.get(number as usize))
    else {
        return Matched::No;
    };
    let has_variables = scene.flow.as_deref().is_none_or(|flow| flow.has_variables);
    if made.needs.flow_variable && !has_variables
        || !faces(rule, scene.facts)
        || !sees(rule, scene.facts.packet)
        || !header::holds(&rule.header, scene.facts.packet)
    {
        return Matched::No;
    }
    if !of_transaction {
        scene.inspector.begin();
    }
    for (place, buffer) in &made.packet_buffers {
        let Some(list) = rule.buffers.get(*place) else { return Matched::No };
        let Some(bytes) = packet_buffers::bytes(scene.facts.packet, *buffer) else {
            return Matched::No;
        };
        let steps = program.rules.buffers.get(usize::from(list.key.0));
        let steps = steps.map_or(&[][..], |used| used.transforms.as_slice());
        if !transformed_match(rule, list, steps, &Buffer::whole(&bytes), scene) {
            return Matched::No;
        }
    }
    let mut matched = Matched::Packet;
    if !of_transaction && !rule.payload.is_empty() {
        matched = payload_matches(rule, scene);
        if matched == Matched::No {
            return matched;
        }
    }
    if checks_hold(rule, scene) { matched } else { Matched::No }
}

/// Whether the rule looks at packets of this direction. Those without a flow count as going to the
/// server.
pub(crate) fn faces(rule: &Rule, facts: &Facts<'_>) -> bool {
    let direction = facts.direction.unwrap_or(Direction::ToServer);
    let towards = rule.towards;
    let is_wanted = match direction {
        Direction::ToServer => towards.server,
        Direction::ToClient => towards.client,
    };
    is_wanted && (rule.hook != Some(Hook::FlowStart) || facts.is_first)
}

fn payload_matches(rule: &Rule, scene: &mut Scene<'_>) -> Matched {
    let facts = scene.facts;
    if rule.needs_stream {
        if facts.has_stream && stream_matches(rule, scene) {
            return Matched::Stream;
        }
        let only_stream = rule.flow.only_stream;
        if only_stream || (!rule.needs_packet && facts.added_to_stream) {
            return Matched::No;
        }
    }
    let whole = Buffer::whole(facts.payload());
    if bytes_match(rule, &rule.payload, &whole, scene) { Matched::Packet } else { Matched::No }
}

/// Whether the payload checks hold on the raw stream, or on the payload where there is none.
pub(crate) fn stream_matches(rule: &Rule, scene: &mut Scene<'_>) -> bool {
    let facts = scene.facts;
    if let Transport::Udp(_) = facts.packet.transport {
        let whole = Buffer::whole(facts.payload());
        return bytes_match(rule, &rule.payload, &whole, scene);
    }
    // Places count from the beginning of what is looked at, not from that of the stream.
    facts.stream.iter().any(|(_, bytes)| {
        let part = Buffer { bytes, offset: 0, is_start: false, is_end: false };
        bytes_match(rule, &rule.payload, &part, scene)
    })
}

fn checks_hold(rule: &Rule, scene: &mut Scene<'_>) -> bool {
    let mut changes = Changes {
        flow: scene.flow.as_deref_mut(),
        host_bits: scene.host_bits,
        reputations: scene.reputations,
    };
    rule.packet.iter().all(|check| packet::holds(check, scene.facts, &mut changes))
}

/// What a rule does to the state of flows and hosts when it has matched.
pub(crate) fn after_match(program: &Program, number: u32, scene: &mut Scene<'_>) {
    let Some(rule) = program.rules.rules.get(number as usize) else { return };
    let mut changes = Changes {
        flow: scene.flow.as_deref_mut(),
        host_bits: scene.host_bits,
        reputations: scene.reputations,
    };
    for change in &rule.post {
        packet::holds(change, scene.facts, &mut changes);
    }
}

/// Whether a list of checks holds on these bytes, once they are transformed.
pub(crate) fn transformed_match(
    rule: &Rule,
    list: &BufferMatches,
    steps: &[Transform],
    bytes: &Buffer<'_>,
    scene: &mut Scene<'_>,
) -> bool {
    if steps.is_empty() {
        return bytes_match(rule, &list.matches, bytes, scene);
    }
    let (mut out, mut spare) = (Vec::new(), Vec::new());
    apply_all(steps, bytes.bytes, &mut out, &mut spare);
    bytes_match(rule, &list.matches, &Buffer { bytes: &out, ..*bytes }, scene)
}

/// Whether a list of checks holds on these bytes.
pub(crate) fn bytes_match(
    rule: &Rule,
    checks: &[Match],
    bytes: &Buffer<'_>,
    scene: &mut Scene<'_>,
) -> bool {
    let mut hooks = Hooks { datasets: scene.datasets, captures: Vec::new(), dce: scene.dce };
    let matched = scene.inspector.inspect(checks, &rule.base64, bytes, &mut hooks);
    let captures = hooks.captures;
    if let Some(flow) = scene.flow.as_deref_mut() {
        for (capture, value) in captures {
            if let Capture::Flow(variable) = capture {
                flow.set_variable(variable, &value);
            }
        }
    }
    matched
}

struct Hooks<'a> {
    datasets: &'a mut Datasets,
    captures: Vec<(Capture, Vec<u8>)>,
    dce: Option<bool>,
}

impl Context for Hooks<'_> {
    fn dataset(&mut self, check: &Dataset, value: &[u8]) -> bool {
        self.datasets.check(check, value)
    }

    fn reputation(&mut self, check: &DataReputation, value: &[u8]) -> bool {
        self.datasets.reputation(check, value)
    }

    fn capture(&mut self, capture: Capture, value: &[u8]) {
        self.captures.push((capture, value.to_vec()));
    }

    fn dce_little_endian(&self) -> Option<bool> {
        self.dce
    }
}
