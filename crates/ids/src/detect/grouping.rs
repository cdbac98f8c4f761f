//! Which rules can match: fast patterns of all rules, gathered by what they are looked for in.

use std::collections::BTreeMap;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Kind, Number, Protocol};

use super::groups::{Groups, Member};
use super::program::{
    Candidates, Compiled, Engine, FrameRule, Look, PacketBuffer, Prefilter, Program,
    TransactionFilter, is_ip_only,
};
use super::words;
use crate::inspect::prefilter::Matcher;
use crate::rule::buffers::{self, BufferKind};
use crate::rule::matches::{Match, ProtocolValue};
use crate::rule::port::PortSet;
use crate::rule::{BufferKey, BufferMatches, FastPattern, Rule};

/// List of checks for events of transactions.
const EVENTS: &str = "app-layer-events";
/// List of checks on the progress of transactions.
pub(crate) const STATES: &str = "app-layer-state";
/// List of checks for files.
const FILES: &str = "files";

/// Where a list of checks is looked at, and how: protocol, direction, progress.
pub(crate) fn looks(
    name: &str,
    list: &BufferMatches,
    made: &mut Compiled,
) -> Vec<(Option<Protocol>, Direction, u8, Look)> {
    if name == EVENTS || name == STATES {
        note_events(list, made);
        made.asks_progress |= name == STATES;
        let both = [Direction::ToServer, Direction::ToClient];
        return both.map(|direction| (None, direction, 0, Look::List)).into();
    }
    if name == FILES {
        let Some(buffer) = Buffer::of_keyword("file.name") else { return Vec::new() };
        let engines = buffer.spec().engines.iter();
        return engines.map(|e| (Some(e.protocol), e.direction, e.progress, Look::Files)).collect();
    }
    let has_bytes = buffers::buffer(name).is_some_and(|it| it.kind != BufferKind::Generic);
    if let (true, Some(buffer)) = (has_bytes, buffer_of(name)) {
        let spec = buffer.spec();
        let look = Look::Buffer { buffer, key: list.key, kind: spec.kind };
        let engines = spec.engines.iter();
        return engines
            .map(|e| (Some(e.protocol), e.direction, e.progress, look.clone()))
            .collect();
    }
    numbers(list, made)
}

/// The protocols' buffer. They know it by its keyword, which is not always its own name.
fn buffer_of(name: &str) -> Option<Buffer> {
    let chooses = |keyword: &&str| buffers::sticky(keyword).is_some_and(|it| it.buffer == name);
    Buffer::of_keyword(name)
        .or_else(|| buffers::sticky_keywords().filter(chooses).find_map(Buffer::of_keyword))
}

fn note_events(list: &BufferMatches, made: &mut Compiled) {
    for check in &list.matches {
        if let Match::AppEvent { protocol: Some(protocol), event } = check {
            let name = format!("{protocol}.{event}");
            match gauntlet_protocols::Event::of_name(&name) {
                Some(found) => made.events.push((name, found)),
                None => made.unsupported = Some(format!("app-layer-event:{name}")),
            }
        }
    }
}

/// Checks that compare numbers: all of a list are looked at where the first is.
fn numbers(
    list: &BufferMatches,
    made: &mut Compiled,
) -> Vec<(Option<Protocol>, Direction, u8, Look)> {
    let mut engines = Vec::new();
    for check in &list.matches {
        let Match::Protocol(check) = check else { continue };
        let is_words = matches!(check.value, ProtocolValue::Words(_));
        let subject = match check.value {
            ProtocolValue::Words(_) => words::subject(check.keyword),
            ProtocolValue::Present => words::subject(check.keyword).or(Some(check.keyword)),
            _ => Some(check.keyword),
        };
        if let Some(buffer) = subject.filter(|_| is_words).and_then(Buffer::of_keyword) {
            if engines.is_empty() {
                let found = buffer.spec().engines.iter();
                engines = found
                    .map(|e| (Some(e.protocol), e.direction, e.progress, Look::List))
                    .collect();
            }
            continue;
        }
        let Some(number) = subject.and_then(Number::of_keyword) else {
            made.unsupported = Some(check.keyword.to_owned());
            continue;
        };
        made.numbers.insert(check.keyword, number);
        if engines.is_empty() {
            let found = number.spec().engines.iter();
            engines =
                found.map(|e| (Some(e.protocol), e.direction, e.progress, Look::List)).collect();
        }
    }
    engines
}

/// Fast patterns with the places of their rules.
type Patterns<'a> = Vec<(u32, &'a FastPattern)>;

#[derive(Default)]
struct Gathered<'a> {
    packet: Vec<Member>,
    packet_buffers: BTreeMap<(u16, u8), (PacketBuffer, Patterns<'a>)>,
    transactions: BTreeMap<FilterKey, (Kind, Patterns<'a>)>,
    always: BTreeMap<(Option<Protocol>, Direction, u8), Vec<u32>>,
}

type FilterKey = (Option<Protocol>, Direction, u8, Buffer, BufferKey);

/// Rules that look at frames.
pub(crate) fn frames(program: &Program) -> Vec<FrameRule> {
    let mut found = Vec::new();
    for (number, rule) in (0u32..).zip(&program.rules.rules) {
        for (list, matches) in rule.buffers.iter().enumerate() {
            let used = program.rules.buffers.get(usize::from(matches.key.0));
            let Some(frame) = used.and_then(|used| used.frame.as_deref()) else { continue };
            let (protocol, name) = frame.split_once('.').unwrap_or(("", frame));
            let frame = (protocol.to_owned(), name.to_owned());
            found.push(FrameRule { number, list, frame });
        }
    }
    found
}

/// Gathers all rules of a program by their fast patterns.
pub(crate) fn prefilter(program: &Program) -> Prefilter {
    let mut made = Prefilter::default();
    let mut gathered = Gathered::default();
    for (number, (rule, compiled)) in
        (0u32..).zip(program.rules.rules.iter().zip(&program.compiled))
    {
        if compiled.unsupported.is_some() || compiled.is_frame {
            continue;
        }
        if is_ip_only(rule) {
            made.ip_only.push(number);
            continue;
        }
        match &rule.fast_pattern {
            Some(pattern) if !pattern.negated => {
                gather(number, rule, compiled, pattern, &mut gathered);
            }
            _ => without_pattern(number, compiled, &mut gathered, &mut made),
        }
    }
    made.stream_ports = stream_ports(program);
    made.groups = Groups::new(&gathered.packet, program.parts());
    for ((key, _), (buffer, patterns)) in gathered.packet_buffers {
        made.packet_buffers.push((buffer, BufferKey(key), Matcher::new(&patterns)));
    }
    for ((protocol, direction, progress, buffer, key), (kind, patterns)) in gathered.transactions {
        let matcher = Matcher::new(&patterns);
        let what = Candidates::Buffer { buffer, key, kind, matcher: Box::new(matcher) };
        made.transactions.push(filter(protocol, direction, progress, what));
    }
    for ((protocol, direction, progress), rules) in gathered.always {
        made.transactions.push(filter(protocol, direction, progress, Candidates::Always(rules)));
    }
    made.transactions.sort_by_key(|f| (f.protocol, f.direction, f.progress));
    mark_last(&mut made.transactions);
    made
}

/// The number of TCP among protocols of IP.
const TCP: u8 = 6;

/// Ports of the rules on streams, as far as they look at a direction.
fn stream_ports(program: &Program) -> [PortSet; 2] {
    let looks = |rule: &&Rule| {
        rule.needs_stream && !rule.payload.is_empty() && rule.header.protocols.contains(TCP)
    };
    let rules = || program.rules.rules.iter().filter(looks);
    let to_server = rules().filter(|rule| rule.towards.server);
    let to_client = rules().filter(|rule| rule.towards.client);
    [
        PortSet::union(to_server.map(|rule| &rule.header.destination_ports)),
        PortSet::union(to_client.map(|rule| &rule.header.source_ports)),
    ]
}

fn filter(
    protocol: Option<Protocol>,
    direction: Direction,
    progress: u8,
    what: Candidates,
) -> TransactionFilter {
    TransactionFilter { protocol, direction, progress, what, is_last_of_progress: false }
}

fn mark_last(filters: &mut [TransactionFilter]) {
    for i in 0..filters.len() {
        let (before, after) = filters.split_at_mut(i + 1);
        let (Some(this), next) = (before.last_mut(), after.first()) else { continue };
        this.is_last_of_progress = next.is_none_or(|next| {
            (next.protocol, next.direction, next.progress)
                != (this.protocol, this.direction, this.progress)
        });
    }
}

fn gather<'a>(
    number: u32,
    rule: &'a Rule,
    compiled: &Compiled,
    pattern: &'a FastPattern,
    gathered: &mut Gathered<'a>,
) {
    let Some(key) = pattern.key else {
        gathered.packet.push(Member {
            rule: number,
            payload: rule.needs_packet || !rule.needs_stream,
            stream: rule.needs_stream || !rule.needs_packet,
        });
        return;
    };
    for (place, buffer) in &compiled.packet_buffers {
        if rule.buffers.get(*place).is_some_and(|list| list.key == key) {
            let slot = gathered.packet_buffers.entry((key.0, *buffer as u8));
            slot.or_insert_with(|| (*buffer, Vec::new())).1.push((number, pattern));
        }
    }
    for engine in compiled.engines.iter().filter(|engine| engine.is_prefilter) {
        if let Look::Buffer { buffer, key, kind } = engine.look {
            let at = |protocol| gauntlet_protocols::Engine {
                protocol,
                direction: engine.direction,
                progress: engine.progress,
            };
            let own = || vec![(buffer, engine.progress)];
            let searches =
                engine.protocol.map_or_else(own, |protocol| buffer.searches(&at(protocol)));
            for (buffer, progress) in searches {
                let slot = (engine.protocol, engine.direction, progress, buffer, key);
                let slot = gathered.transactions.entry(slot).or_insert_with(|| (kind, Vec::new()));
                slot.1.push((number, pattern));
            }
        }
    }
}

fn without_pattern(
    number: u32,
    compiled: &Compiled,
    gathered: &mut Gathered<'_>,
    made: &mut Prefilter,
) {
    let mut found = false;
    for engine in &compiled.engines {
        // Events may come at any progress: these rules are tried whenever there is one.
        let is_event = engine.protocol.is_none();
        if is_event {
            continue;
        }
        found = true;
        let slot = (engine.protocol, engine.direction, engine.progress);
        let rules = gathered.always.entry(slot).or_default();
        if rules.last() != Some(&number) {
            rules.push(number);
        }
    }
    if found && compiled.packet_buffers.is_empty() {
        return;
    }
    // What asks of transactions for events alone cannot match where none has any.
    let is_event = |engine: &Engine| engine.protocol.is_none() && matches!(engine.look, Look::List);
    let asks_events = !compiled.asks_progress && compiled.engines.iter().any(is_event);
    if compiled.needs.event || (!found && asks_events) {
        made.events.push(number);
    } else {
        let member = Member { rule: number, payload: false, stream: false };
        gathered.packet.push(member);
    }
}
