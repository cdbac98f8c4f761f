//! One step of the inspection of a transaction: a rule's checks on one buffer, on numbers, events,
//! files, or on the stream.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Conversation, File, FileState, Kind, Number, Protocol};

use super::grouping::STATES;
use super::packet::Facts;
use super::program::{Compiled, Engine, Look, Program};
use super::rules::{self, Scene};
use super::words;
use crate::inspect;
use crate::rule::matches::{ElementIndex, Match, ProtocolCheck, ProtocolValue};
use crate::rule::number::Compare;
use crate::rule::{BufferKey, Rule};

/// What a step says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Result {
    /// It holds.
    Match,
    /// It does not, as far as is known.
    NoMatch,
    /// It cannot hold any more.
    Never,
    /// It cannot hold for the files that are there.
    NeverFiles,
    /// It holds for a file, and others are still coming.
    MatchMoreFiles,
}

/// The most values of one buffer of a transaction that are looked at.
const VALUES_MAX: usize = 4_096;

/// A buffer's bytes with its transforms done.
struct Prepared<'a> {
    bytes: Cow<'a, [u8]>,
    offset: u64,
    begin: bool,
    end: bool,
}

/// Which buffer, with which transforms, whose.
type Which = (Buffer, BufferKey, Direction);

/// Looks into one transaction; buffers are made once for all rules.
pub(crate) struct Inspection<'a> {
    program: &'a Program,
    conversation: &'a Conversation,
    place: usize,
    /// They are few.
    prepared: Vec<(Which, Vec<Prepared<'a>>)>,
    /// Of the raw stream, which is the same for all transactions of a packet.
    stream: HashMap<u32, bool>,
}

impl<'a> Inspection<'a> {
    pub(crate) fn new(program: &'a Program, conversation: &'a Conversation, place: usize) -> Self {
        Self { program, conversation, place, prepared: Vec::new(), stream: HashMap::new() }
    }

    /// Whether rules about this protocol look at the transaction in this direction.
    pub(crate) fn concerns(&self, protocol: Protocol, direction: Direction) -> bool {
        self.conversation.concerns(self.place, protocol, direction)
    }

    /// Hands out each value of a buffer.
    pub(crate) fn each(
        &mut self,
        (buffer, key, kind): (Buffer, BufferKey, Kind),
        direction: Direction,
        visit: &mut dyn FnMut(&inspect::Buffer<'_>),
    ) {
        for value in self.prepare(buffer, key, kind, direction) {
            visit(&inspect::Buffer {
                bytes: &value.bytes,
                offset: value.offset,
                is_start: value.begin,
                is_end: value.end,
            });
        }
    }

    fn prepare(
        &mut self,
        buffer: Buffer,
        key: BufferKey,
        kind: Kind,
        direction: Direction,
    ) -> &[Prepared<'a>] {
        let which = (buffer, key, direction);
        let place = match self.prepared.iter().position(|(other, _)| *other == which) {
            Some(place) => place,
            None => {
                let values = self.values(which, kind);
                self.prepared.push((which, values));
                self.prepared.len() - 1
            }
        };
        self.prepared.get(place).map_or(&[], |(_, values)| values.as_slice())
    }

    fn values(&self, (buffer, key, direction): Which, kind: Kind) -> Vec<Prepared<'a>> {
        let (conversation, place) = (self.conversation, self.place);
        let transforms = self.program.rules.buffers.get(usize::from(key.0));
        let transforms = transforms.filter(|used| !used.transforms.is_empty());
        let most = if matches!(kind, Kind::Single | Kind::Body) { 1 } else { VALUES_MAX };
        let (mut values, mut spare) = (Vec::new(), Vec::new());
        // Behind a file that has nothing to look at others may have.
        let files = conversation.buffers(place, buffer, direction);
        for i in 0..files.unwrap_or(most) {
            let value = match conversation.buffer(place, buffer, direction, i) {
                Some(value) => value,
                None if files.is_some() => continue,
                None => break,
            };
            let mut bytes = value.data;
            if let Some(used) = transforms {
                let mut out = Vec::new();
                inspect::transform::apply_all(&used.transforms, &bytes, &mut out, &mut spare);
                bytes = Cow::Owned(out);
            }
            let (offset, begin, end) = (value.offset, value.begin, value.end);
            values.push(Prepared { bytes, offset, begin, end });
        }
        values
    }

    /// Inspects one engine of a rule.
    pub(crate) fn engine(
        &mut self,
        engine: &Engine,
        number: u32,
        progress: u8,
        scene: &mut Scene<'_>,
    ) -> Result {
        let index = number as usize;
        let (Some(rule), Some(made)) =
            (self.program.rules.rules.get(index), self.program.compiled.get(index))
        else {
            return Result::Never;
        };
        // Asked by name, hence only where there can be an answer.
        let is_rpc = matches!(self.conversation.protocol(), Some(Protocol::Dcerpc | Protocol::Smb));
        scene.dce = None;
        if is_rpc {
            let about = About { inspection: self, direction: engine.direction };
            let little = words::Source::number(&about, "dcerpc.little_endian", 0);
            scene.dce = little.map(|little| little != 0);
        }
        match engine.look {
            Look::Progress => Result::Match,
            Look::Stream => self.stream(rule, number, scene),
            Look::Buffer { buffer, key, kind } => {
                self.buffer(engine, rule, (buffer, key, kind), progress, scene)
            }
            Look::List => self.list(engine, rule, (made, progress), scene),
            Look::Files => self.files(engine, rule),
        }
    }

    fn buffer(
        &mut self,
        engine: &Engine,
        rule: &Rule,
        (buffer, key, kind): (Buffer, BufferKey, Kind),
        progress: u8,
        scene: &mut Scene<'_>,
    ) -> Result {
        let Some(list) = engine.list.and_then(|list| rule.buffers.get(list)) else {
            return Result::Never;
        };
        let complete = progress > engine.progress;
        let is_file = matches!(kind, Kind::Bodies);
        let values = self.prepare(buffer, key, kind, engine.direction);
        if values.is_empty() {
            return match (complete, engine.matches_absent) {
                (true, true) => Result::Match,
                (true, false) if !is_file => Result::Never,
                _ => Result::NoMatch,
            };
        }
        for value in values {
            let bytes = inspect::Buffer {
                bytes: &value.bytes,
                offset: value.offset,
                is_start: value.offset == 0,
                is_end: value.end || (complete && !is_file),
            };
            if rules::bytes_match(rule, &list.matches, &bytes, scene) {
                return Result::Match;
            }
        }
        if complete && !is_file { Result::Never } else { Result::NoMatch }
    }

    fn stream(&mut self, rule: &Rule, number: u32, scene: &mut Scene<'_>) -> Result {
        let matched = match self.stream.get(&number) {
            Some(known) => *known,
            None => {
                let found = rules::stream_matches(rule, scene);
                self.stream.insert(number, found);
                found
            }
        };
        if matched { Result::Match } else { Result::NoMatch }
    }

    /// Numbers, events and progress: all must hold.
    fn list(
        &self,
        engine: &Engine,
        rule: &Rule,
        (made, progress): (&Compiled, u8),
        scene: &Scene<'_>,
    ) -> Result {
        let Some(list) = engine.list.and_then(|list| rule.buffers.get(list)) else {
            return Result::Never;
        };
        let mut events = made.events.iter();
        let holds = list.matches.iter().all(|check| match check {
            Match::AppEvent { .. } => events.next().is_some_and(|(_, event)| {
                let state = self.conversation.state(self.place);
                self.conversation.protocol() == Some(event.protocol)
                    && state.is_some_and(|state| state.events.contains(&event.number))
            }),
            Match::Protocol(ProtocolCheck { keyword: STATES, value }) => {
                matches!(value, ProtocolValue::Number(wanted) if wanted.holds(progress.into()))
            }
            Match::Protocol(check) => self.number(engine.direction, check, made, scene.facts),
            _ => false,
        });
        if holds { Result::Match } else { Result::NoMatch }
    }

    fn number(
        &self,
        direction: Direction,
        check: &ProtocolCheck,
        made: &Compiled,
        facts: &Facts<'_>,
    ) -> bool {
        if let ProtocolValue::Words(list) = &check.value {
            let about = About { inspection: self, direction };
            return words::holds(check.keyword, list, &about).unwrap_or(false);
        }
        let Some(number) = made.numbers.get(check.keyword).copied() else { return false };
        let value = |i: usize| {
            let found = self.conversation.number(self.place, number, direction, i)?;
            u64::try_from(found).ok()
        };
        let all = || (0..VALUES_MAX).map_while(value);
        match &check.value {
            ProtocolValue::Number(compare) => all().any(|found| compare.holds(found)),
            // A PORT command that names another than its sender.
            ProtocolValue::Present if check.keyword == "ftpbounce" => {
                let (source, _) = facts.addresses();
                let sender = match source {
                    Some(IpAddr::V4(address)) => Some(u64::from(u32::from(address))),
                    _ => None,
                };
                value(0).is_some_and(|named| Some(named) != sender)
            }
            // Until when a certificate is valid.
            ProtocolValue::Present if check.keyword.starts_with("tls_cert_") => {
                let now = u64::try_from(facts.time().seconds).unwrap_or_default();
                let is_expired = check.keyword == "tls_cert_expired";
                value(0).is_some_and(|end| end != 0 && (now > end) == is_expired)
            }
            ProtocolValue::Present => value(0).is_some(),
            ProtocolValue::Element(which, compare) => match *which {
                ElementIndex::Any => all().any(|found| compare.holds(found)),
                ElementIndex::All => all().all(|found| compare.holds(found)),
                ElementIndex::AllOne => {
                    value(0).is_some() && all().all(|found| compare.holds(found))
                }
                ElementIndex::At(place) => {
                    let count = i64::try_from(all().count()).unwrap_or_default();
                    let place = i64::from(place);
                    let place = if place < 0 { count + place } else { place };
                    let found = usize::try_from(place).ok().and_then(value);
                    found.is_some_and(|found| compare.holds(found))
                }
                ElementIndex::Count(wanted) => {
                    wanted.holds(all().filter(|found| compare.holds(*found)).count() as u64)
                }
            },
            ProtocolValue::Words(_) | ProtocolValue::Hashes { .. } => false,
        }
    }

    fn files(&self, engine: &Engine, rule: &Rule) -> Result {
        let Some(list) = engine.list.and_then(|list| rule.buffers.get(list)) else {
            return Result::Never;
        };
        let Some(state) = self.conversation.state(self.place) else { return Result::NeverFiles };
        let mut matched = false;
        let mut last = Result::NoMatch;
        for file in state.files(engine.direction).iter().filter(|file| !file.passed) {
            last = file_holds(&list.matches, file);
            matched |= last == Result::Match;
        }
        match (matched, last) {
            (true, Result::NoMatch) => Result::MatchMoreFiles,
            (true, _) => Result::Match,
            (false, last) => last,
        }
    }
}

/// Seconds of the epoch.
/// A transaction in one direction, for checks of words.
struct About<'a, 'b> {
    inspection: &'a Inspection<'b>,
    direction: Direction,
}

impl words::Source for About<'_, '_> {
    fn number(&self, name: &str, i: usize) -> Option<i64> {
        let number = Number::of_keyword(name)?;
        self.inspection.conversation.number(self.inspection.place, number, self.direction, i)
    }

    fn bytes(&self, name: &str, i: usize) -> Option<Vec<u8>> {
        let buffer = Buffer::of_keyword(name)?;
        let inspection = self.inspection;
        let found = inspection.conversation.buffer(inspection.place, buffer, self.direction, i)?;
        Some(found.data.into_owned())
    }
}

/// Whether all checks on files hold for this one.
fn file_holds(checks: &[Match], file: &File) -> Result {
    let is_whole = file.state != FileState::Open;
    for check in checks {
        let Match::Protocol(check) = check else { continue };
        let holds = match &check.value {
            ProtocolValue::Number(compare) if check.keyword == "filesize" => {
                if !is_whole {
                    return Result::NoMatch;
                }
                // Of what is cut short only the least size is known.
                let least = matches!(compare, Compare::More(_) | Compare::AtLeast(_));
                (least || file.state == FileState::Closed) && compare.holds(file.size)
            }
            ProtocolValue::Hashes { hashes, negated, .. } => {
                let hash: &[u8] = match check.keyword {
                    "filemd5" => file.md5.as_ref().map_or(&[], |hash| hash),
                    "filesha1" => file.sha1.as_ref().map_or(&[], |hash| hash),
                    _ => file.sha256.as_ref().map_or(&[], |hash| hash),
                };
                if hash.is_empty() {
                    return Result::NoMatch;
                }
                hashes.binary_search_by(|other| other.as_slice().cmp(hash)).is_ok() != *negated
            }
            _ => true,
        };
        if !holds {
            return Result::NeverFiles;
        }
    }
    Result::Match
}
