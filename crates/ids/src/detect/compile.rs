//! Rules are compiled: which engines inspect which of their buffers, and in which order.

use std::collections::BTreeMap;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Protocol, ProtocolSet};

use super::grouping;
use super::program::{
    Compiled, Engine, FILES_BIT, FIRST_BIT, Limits, Look, Needs, PacketBuffer, Prefilter, Program,
    Settings,
};
use crate::rule::header::Hook;
use crate::rule::matches::Match;
use crate::rule::{BufferMatches, Rule, RuleSet};

impl Program {
    /// Makes rules ready. Rules that ask for more than detection does are moved to
    /// [`RuleSet::problems`].
    pub fn new(rules: RuleSet, settings: Settings, limits: BTreeMap<u32, Limits>) -> Self {
        let mut program = Self {
            compiled: Vec::new(),
            limits,
            no_limits: Limits::default(),
            prefilter: Prefilter::default(),
            frames: Vec::new(),
            rules,
            settings,
            generation: 0,
        };
        program.compiled = program.rules.rules.iter().map(|r| program.compile(r)).collect();
        program.frames = grouping::frames(&program);
        program.prefilter = grouping::prefilter(&program);
        program
    }

    fn compile(&self, rule: &Rule) -> Compiled {
        let mut made = Compiled { needs: needs(rule), ..Compiled::default() };
        if !rule.app_protocols.is_empty() {
            let sets = rule.app_protocols.iter().filter_map(|name| ProtocolSet::of_name(name));
            made.protocols = Some(sets.fold(ProtocolSet::default(), ProtocolSet::union));
        }
        for check in &rule.post {
            if let Match::FileStore { scope, .. } = check {
                made.stores = Some(*scope);
            }
        }
        for (place, list) in rule.buffers.iter().enumerate() {
            let Some(used) = self.rules.buffers.get(usize::from(list.key.0)) else { continue };
            if let Some(buffer) = PacketBuffer::of_name(used.name) {
                made.packet_buffers.push((place, buffer));
            } else if used.frame.is_some() {
                made.is_frame = true;
            } else {
                self.engines(rule, place, list, used.name, &mut made);
            }
        }
        if let (Some(Hook::Transaction { direction, progress }), true) =
            (&rule.hook, rule.buffers.is_empty())
        {
            let protocol = rule.app_protocols.first().and_then(|name| hooked(name));
            let engine = Engine {
                protocol,
                direction: (*direction).into(),
                progress: *progress,
                look: Look::Progress,
                list: None,
                bit: 0,
                is_prefilter: false,
                matches_absent: false,
            };
            insert(&mut made.engines, engine);
        }
        if !made.engines.is_empty() {
            stream_engines(rule, &mut made);
        }
        made
    }

    /// Adds the inspection of one buffer, for each protocol and direction that has it.
    fn engines(
        &self,
        rule: &Rule,
        place: usize,
        list: &BufferMatches,
        name: &str,
        made: &mut Compiled,
    ) {
        let prefilter = rule.fast_pattern.as_ref().and_then(|pattern| pattern.key);
        let found = grouping::looks(name, list, made);
        if found.is_empty() {
            made.unsupported.get_or_insert_with(|| name.to_owned());
        }
        for (protocol, direction, progress, look) in found {
            if let (Some(wanted), Some(protocol)) = (made.protocols, protocol)
                && !has(wanted, protocol)
            {
                continue;
            }
            if rule.towards.server != rule.towards.client {
                let towards_server = direction == Direction::ToServer;
                if rule.towards.server != towards_server {
                    continue;
                }
            } else if rule.is_bidirectional
                && list.only.is_some_and(|only| Direction::from(only) != direction)
            {
                continue;
            }
            let is_files = matches!(look, Look::Files);
            let engine = Engine {
                protocol,
                direction,
                progress,
                look,
                list: Some(place),
                bit: if is_files { FILES_BIT } else { 0 },
                is_prefilter: prefilter == Some(list.key),
                matches_absent: list.matches.iter().any(|m| matches!(m, Match::Absent { .. })),
            };
            insert(&mut made.engines, engine);
        }
    }
}

/// Whether rules of these protocols have the engines of this one: DNS over HTTP/2 has those of
/// both.
fn has(wanted: ProtocolSet, protocol: Protocol) -> bool {
    let is_carried = matches!(protocol, Protocol::Http2 | Protocol::Dns);
    wanted.has(protocol) || (is_carried && wanted.has(Protocol::Doh2))
}

/// The one protocol that a hook is of: `http` is HTTP/1 there.
fn hooked(name: &str) -> Option<Protocol> {
    Protocol::of_name(if name == "http" { "http1" } else { name })
}

/// Puts an engine in its place: that of the fast pattern first, the others by progress.
fn insert(engines: &mut Vec<Engine>, mut engine: Engine) {
    if engine.bit == 0 {
        let used = engines.iter().filter(|other| other.bit != FILES_BIT).count();
        engine.bit = 1 << (FIRST_BIT + u32::try_from(used).unwrap_or(28)).min(28);
    }
    let head_is_prefilter = engines.first().is_some_and(|first| first.is_prefilter);
    let Some(first) = engines.first() else {
        engines.push(engine);
        return;
    };
    if engine.is_prefilter || (!head_is_prefilter && first.progress > engine.progress) {
        engines.insert(0, engine);
        return;
    }
    let behind = engines.iter().skip(1).position(|other| other.progress > engine.progress);
    let place = behind.map_or(engines.len(), |place| place + 1);
    engines.insert(place, engine);
}

/// Payload checks of a rule of transactions look at the stream.
fn stream_engines(rule: &Rule, made: &mut Compiled) {
    if rule.payload.is_empty() {
        return;
    }
    let mut bit = made.engines.iter().map(|engine| engine.bit).max().unwrap_or(FILES_BIT) << 1;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let wanted = match (rule.towards.server, rule.towards.client) {
            (true, false) => direction == Direction::ToServer,
            (false, true) => direction == Direction::ToClient,
            _ => true,
        };
        if wanted {
            made.engines.push(Engine {
                protocol: None,
                direction,
                progress: 0,
                look: Look::Stream,
                list: None,
                bit,
                is_prefilter: false,
                matches_absent: false,
            });
            bit <<= 1;
        }
    }
}

/// FIN, SYN and RST.
const TCP_BEGIN_OR_END: u8 = 0x07;
/// URG, ECE and CWR.
const TCP_UNUSUAL: u8 = 0xe0;

fn needs(rule: &Rule) -> Needs {
    use crate::rule::matches::{BitCommand, PacketNumber};
    use crate::rule::number::Compare;
    let mut needs = Needs {
        payload: !rule.payload.is_empty(),
        real_packet: rule.needs_packet && !rule.needs_stream,
        // A direction alone needs no flow: packets without one count as going to the server.
        flow: rule.needs.flow || !rule.app_protocols.is_empty(),
        tcp_begin_or_end: if rule.needs.tcp_begin_or_end { TCP_BEGIN_OR_END } else { 0 },
        tcp_unusual: if rule.needs.tcp_unusual { TCP_UNUSUAL } else { 0 },
        ..Needs::default()
    };
    for check in &rule.packet {
        match check {
            Match::FlowBits(bits) => {
                needs.flow = true;
                needs.flow_variable |= bits.command == BitCommand::IsSet;
            }
            Match::FlowInt(_) => needs.flow = true,
            Match::EngineEvent(_) | Match::AppEvent { .. } => needs.event = true,
            Match::Number(PacketNumber::PayloadSize, compare) => match compare {
                Compare::Equal(0) => needs.no_payload = true,
                Compare::Equal(_)
                | Compare::NotEqual(_)
                | Compare::More(_)
                | Compare::AtLeast(_)
                | Compare::Between(..) => needs.payload = true,
                _ => {}
            },
            _ => {}
        }
    }
    needs
}
