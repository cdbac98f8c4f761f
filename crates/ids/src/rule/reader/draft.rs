//! A rule while it is read: its lists of matches, the buffer that the next keyword applies to, and
//! what other keywords must know.

use std::path::Path;

use super::shared::Shared;
use crate::bytes::transform::Transform;
use crate::rule::buffers::{self, BufferKind};
use crate::rule::header::{Direction, Header, Hook};
use crate::rule::matches::{Flow, Match, Tag, Threshold};
use crate::rule::{Action, BufferKey, Class, Scope, Target, Towards, protocol};

/// Most buffers of one rule, as in Suricata.
const BUFFERS_MAX: usize = 64;
/// Most transforms of one buffer.
const TRANSFORMS_MAX: usize = 16;

/// Why a rule is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is wrong.
    Error(String),
    /// It does not apply here (`requires`, a feature that is off).
    Skip(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Refusal::Error(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Refusal::Error(reason.to_owned())
    }
}

/// What a keyword's reader returns.
pub(crate) type Outcome<T = ()> = Result<T, Refusal>;

/// One of a rule's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// Facts of packet and flow.
    Packet,
    /// The payload.
    Payload,
    /// What `base64_decode` made.
    Base64,
    /// Acts after a match.
    Post,
    /// A buffer.
    Buffer(BufferKey),
}

/// A match and its place among all of the rule.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) index: u16,
    pub(crate) item: Match,
}

/// The matches on one buffer.
#[derive(Debug, Clone)]
pub(crate) struct DraftBuffer {
    pub(crate) key: BufferKey,
    pub(crate) only: Option<Direction>,
    pub(crate) is_multi: bool,
    /// It was made by a keyword that brings its buffer along (`urilen`).
    is_implied: bool,
    pub(crate) entries: Vec<Entry>,
}

/// Where a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    list: Slot,
    at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Builtin(List),
    Buffer(usize),
}

/// A rule while it is read.
pub(crate) struct Draft<'a> {
    pub(crate) shared: &'a mut Shared,
    /// Where the lists are that it names.
    pub(crate) directory: &'a Path,
    pub(crate) action: Action,
    pub(crate) scope: Scope,
    pub(crate) no_alert: bool,
    pub(crate) sid: u32,
    pub(crate) gid: u32,
    pub(crate) rev: u32,
    pub(crate) message: String,
    pub(crate) class: Option<std::sync::Arc<Class>>,
    pub(crate) priority: Option<i32>,
    pub(crate) has_own_priority: bool,
    pub(crate) references: Vec<(String, String)>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) target: Option<Target>,
    pub(crate) header: Header,
    pub(crate) hook: Option<Hook>,
    /// The one application protocol.
    pub(crate) protocol: Option<&'static str>,
    /// Several, one of which it must be.
    pub(crate) protocols: Vec<&'static str>,
    /// A keyword asked for an application layer, even if the protocol is open.
    pub(crate) is_app_layer: bool,
    pub(crate) towards: Towards,
    pub(crate) flow: Flow,
    /// `flow` says more than a direction.
    pub(crate) has_flow: bool,
    pub(crate) is_bidirectional: bool,
    pub(crate) needs_packet: bool,
    pub(crate) needs_stream: bool,
    pub(crate) uses_file_data: bool,
    pub(crate) uses_file_name: bool,
    pub(crate) stores_files: bool,
    pub(crate) has_negated_addresses: bool,
    pub(crate) ip_protocols: Vec<(char, u8)>,
    pub(crate) packet: Vec<Entry>,
    pub(crate) payload: Vec<Entry>,
    pub(crate) base64: Vec<Entry>,
    pub(crate) post: Vec<Entry>,
    pub(crate) buffers: Vec<DraftBuffer>,
    pub(crate) tag: Option<Tag>,
    pub(crate) threshold: Option<Threshold>,
    /// The entry that `prefilter` named.
    pub(crate) prefilter: Option<Spot>,
    /// The value of the present keyword begins with `!`.
    pub(crate) is_negated: bool,
    /// The value of the present keyword asks for one direction.
    pub(crate) forced: Option<Direction>,
    /// Byte variables by name: number and list.
    pub(crate) variables: Vec<(String, u8, List, VariableMaker)>,
    active: Option<List>,
    /// A sticky buffer was named and nothing used yet: transforms may follow.
    is_fresh: bool,
    transforms: Vec<Transform>,
    current: Option<usize>,
    count: u16,
}

/// Which keyword made a byte variable; each counts its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableMaker {
    Extract,
    Math,
}

impl<'a> Draft<'a> {
    /// A rule with this header.
    pub(crate) fn new(shared: &'a mut Shared, directory: &'a Path, header: Header) -> Self {
        Self {
            shared,
            directory,
            header,
            action: Action::Alert,
            scope: Scope::Automatic,
            no_alert: false,
            sid: 0,
            gid: 1,
            rev: 0,
            message: String::new(),
            class: None,
            priority: None,
            has_own_priority: false,
            references: Vec::new(),
            metadata: Vec::new(),
            target: None,
            hook: None,
            protocol: None,
            protocols: Vec::new(),
            is_app_layer: false,
            towards: Towards::default(),
            flow: Flow::default(),
            has_flow: false,
            is_bidirectional: false,
            needs_packet: false,
            needs_stream: false,
            uses_file_data: false,
            uses_file_name: false,
            stores_files: false,
            has_negated_addresses: false,
            ip_protocols: Vec::new(),
            packet: Vec::new(),
            payload: Vec::new(),
            base64: Vec::new(),
            post: Vec::new(),
            buffers: Vec::new(),
            tag: None,
            threshold: None,
            prefilter: None,
            is_negated: false,
            forced: None,
            variables: Vec::new(),
            active: None,
            is_fresh: false,
            transforms: Vec::new(),
            current: None,
            count: 0,
        }
    }

    /// The list that contents go to; `None` is the payload.
    pub(crate) fn active(&self) -> Option<List> {
        self.active
    }

    /// The buffer that is being filled.
    pub(crate) fn current(&self) -> Option<&DraftBuffer> {
        self.current.and_then(|at| self.buffers.get(at))
    }

    /// `pkt_data`: contents go to the payload again.
    pub(crate) fn reset_active(&mut self) -> Outcome {
        if !self.transforms.is_empty() {
            return Err("transforms before pkt_data are not used by anything".into());
        }
        self.active = None;
        Ok(())
    }

    /// `base64_data`.
    pub(crate) fn activate_base64(&mut self) {
        self.active = Some(List::Base64);
    }

    /// A sticky buffer begins.
    pub(crate) fn activate(&mut self, name: &'static str, frame: Option<String>) -> Outcome {
        if self.active == Some(List::Base64) {
            return Err("a buffer cannot follow base64_data".into());
        }
        if !self.transforms.is_empty() {
            return Err("no match follows the transforms".into());
        }
        let key = self.shared.intern(name, Vec::new(), frame);
        let is_multi = buffers::buffer(name).is_some_and(|info| info.is_multi);
        self.active = Some(List::Buffer(key));
        self.is_fresh = true;
        if self.current().is_some_and(|buffer| buffer.entries.is_empty()) {
            return Err("the sticky buffer before it has no matches".into());
        }
        let forced = self.forced;
        for (at, buffer) in self.buffers.iter_mut().enumerate() {
            if buffer.key != key {
                continue;
            }
            if buffer.is_implied {
                buffer.is_implied = false;
                self.current = Some(at);
                return Ok(());
            }
            let differs = forced.is_some() && buffer.only != forced;
            if !is_multi && !differs {
                self.current = Some(at);
                return Ok(());
            }
        }
        self.push_buffer(key, is_multi, false)
    }

    fn push_buffer(&mut self, key: BufferKey, is_multi: bool, is_implied: bool) -> Outcome {
        if self.buffers.len() >= BUFFERS_MAX {
            return Err(format!("more than {BUFFERS_MAX} buffers in one rule").into());
        }
        self.current = Some(self.buffers.len());
        let entries = Vec::new();
        self.buffers.push(DraftBuffer { key, only: self.forced, is_multi, is_implied, entries });
        Ok(())
    }

    /// A transform of the sticky buffer just named.
    pub(crate) fn add_transform(&mut self, transform: Transform) -> Outcome {
        if self.active.is_none() || !self.is_fresh {
            return Err("transforms must directly follow a sticky buffer".into());
        }
        if self.transforms.len() >= TRANSFORMS_MAX {
            return Err(format!("more than {TRANSFORMS_MAX} transforms of one buffer").into());
        }
        self.transforms.push(transform);
        Ok(())
    }

    /// The list for a match on bytes, once the transforms of a sticky buffer are known.
    pub(crate) fn settle(&mut self) -> Outcome<Option<List>> {
        if self.transforms.is_empty() {
            return Ok(self.active);
        }
        let Some(List::Buffer(base)) = self.active else {
            return Err("transforms are not used by anything".into());
        };
        let used = self.shared.buffer_use(base);
        let (name, frame) = used.map(|used| (used.name, used.frame.clone())).unwrap_or_default();
        let transforms = std::mem::take(&mut self.transforms);
        let key = self.shared.intern(name, transforms, frame);
        self.active = Some(List::Buffer(key));
        self.is_fresh = false;
        let is_multi = buffers::buffer(name).is_some_and(|info| info.is_multi);
        if self.current().is_some_and(|buffer| !buffer.entries.is_empty()) {
            self.push_buffer(key, is_multi, false)?;
        }
        let current = self.current.and_then(|at| self.buffers.get_mut(at));
        current.ok_or("there is no buffer to transform")?.key = key;
        Ok(self.active)
    }

    /// Transforms that wait for a match.
    pub(crate) fn has_open_transforms(&self) -> bool {
        !self.transforms.is_empty()
    }

    /// The key of a buffer without transforms.
    pub(crate) fn key(&mut self, name: &'static str) -> BufferKey {
        self.shared.intern(name, Vec::new(), None)
    }

    /// Appends to a list; a buffer that is not the present one is found or made.
    pub(crate) fn append(&mut self, list: List, item: Match) -> Outcome<Spot> {
        let index = self.count;
        self.count = self.count.checked_add(1).ok_or("too many keywords in one rule")?;
        let entry = Entry { index, item };
        let List::Buffer(key) = list else {
            let entries = self.builtin_mut(list);
            entries.push(entry);
            return Ok(Spot { list: Slot::Builtin(list), at: entries.len() - 1 });
        };
        if self.active.is_some_and(|active| active != list) {
            self.active = None;
        }
        if self.current().is_some_and(|buffer| buffer.key != key) {
            let same = |b: &DraftBuffer| b.key == key && !b.is_multi;
            if let Some(at) = self.buffers.iter().position(same) {
                self.current = Some(at);
            }
        }
        if self.current().is_none_or(|buffer| buffer.key != key) {
            self.push_buffer(key, false, true)?;
        }
        let slot = self.current.unwrap_or(0);
        let buffer = self.buffers.get_mut(slot).ok_or("the buffer is gone")?;
        buffer.entries.push(entry);
        Ok(Spot { list: Slot::Buffer(slot), at: buffer.entries.len() - 1 })
    }

    /// Appends to the list of contents (the active buffer or the payload).
    pub(crate) fn append_bytes(&mut self, item: Match) -> Outcome<Spot> {
        let list = self.settle()?.unwrap_or(List::Payload);
        self.append(list, item)
    }

    fn builtin(&self, list: List) -> &[Entry] {
        match list {
            List::Packet => &self.packet,
            List::Payload => &self.payload,
            List::Base64 => &self.base64,
            List::Post => &self.post,
            List::Buffer(_) => &[],
        }
    }

    fn builtin_mut(&mut self, list: List) -> &mut Vec<Entry> {
        match list {
            List::Payload => &mut self.payload,
            List::Base64 => &mut self.base64,
            List::Post => &mut self.post,
            List::Packet | List::Buffer(_) => &mut self.packet,
        }
    }

    fn entries(&self, slot: Slot) -> &[Entry] {
        match slot {
            Slot::Builtin(list) => self.builtin(list),
            Slot::Buffer(at) => self.buffers.get(at).map_or(&[], |buffer| &buffer.entries),
        }
    }

    /// The last match of a kind in the active list, or in all if none is active.
    pub(crate) fn last(&self, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        let mut slots: Vec<Slot> = Vec::with_capacity(self.buffers.len() + 4);
        for (at, buffer) in self.buffers.iter().enumerate() {
            if self.active.is_none_or(|active| active == List::Buffer(buffer.key)) {
                slots.push(Slot::Buffer(at));
            }
        }
        for list in [List::Packet, List::Payload, List::Base64, List::Post] {
            if self.active.is_none_or(|active| active == list) {
                slots.push(Slot::Builtin(list));
            }
        }
        self.last_of(slots, wanted)
    }

    /// The last match of a kind in any list.
    pub(crate) fn last_anywhere(&self, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        let builtin = [List::Packet, List::Payload, List::Base64, List::Post];
        let mut slots: Vec<Slot> = builtin.into_iter().map(Slot::Builtin).collect();
        slots.extend((0..self.buffers.len()).map(Slot::Buffer));
        self.last_of(slots, wanted)
    }

    fn last_of(&self, slots: Vec<Slot>, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        let found = slots.into_iter().filter_map(|list| {
            let entries = self.entries(list);
            let at = entries.iter().rposition(|entry| wanted(&entry.item))?;
            Some((entries.get(at)?.index, Spot { list, at }))
        });
        found.max_by_key(|(index, _)| *index).map(|(_, spot)| spot)
    }

    /// The nearest match of a kind before this one in its list.
    pub(crate) fn before(&self, spot: Spot, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        let entries = self.entries(spot.list).get(..spot.at)?;
        let at = entries.iter().rposition(|entry| wanted(&entry.item))?;
        Some(Spot { list: spot.list, at })
    }

    /// A match by its place.
    pub(crate) fn at(&self, spot: Spot) -> Option<&Match> {
        self.entries(spot.list).get(spot.at).map(|entry| &entry.item)
    }

    /// A match by its place.
    pub(crate) fn at_mut(&mut self, spot: Spot) -> Option<&mut Match> {
        let entries = match spot.list {
            Slot::Builtin(list) => self.builtin_mut(list),
            Slot::Buffer(at) => &mut self.buffers.get_mut(at)?.entries,
        };
        entries.get_mut(spot.at).map(|entry| &mut entry.item)
    }

    /// Which list a match is in.
    pub(crate) fn list_of(&self, spot: Spot) -> Option<List> {
        match spot.list {
            Slot::Builtin(list) => Some(list),
            Slot::Buffer(at) => self.buffers.get(at).map(|buffer| List::Buffer(buffer.key)),
        }
    }

    /// Index of a match in its list if that is the list of packets.
    pub(crate) fn packet_index(&self, spot: Spot) -> Option<usize> {
        (spot.list == Slot::Builtin(List::Packet)).then_some(spot.at)
    }

    /// Old content modifiers: moves the last content of the payload to a buffer.
    pub(crate) fn move_to_buffer(&mut self, spot: Spot, name: &'static str) -> Outcome {
        let key = self.key(name);
        let current = self.current();
        if current.is_none_or(|buffer| buffer.key != key) {
            if current.is_some_and(|buffer| buffer.entries.is_empty()) {
                return Err("the buffer before it has no matches".into());
            }
            match self.buffers.iter().position(|buffer| buffer.key == key) {
                Some(at) if current.is_some() => self.current = Some(at),
                _ => self.push_buffer(key, false, false)?,
            }
        }
        if spot.at >= self.payload.len() {
            return Err("the content is gone".into());
        }
        let entry = self.payload.remove(spot.at);
        let buffer = self.current.and_then(|at| self.buffers.get_mut(at));
        buffer.ok_or("the buffer is gone")?.entries.push(entry);
        Ok(())
    }

    /// The rule needs one of these protocols.
    pub(crate) fn set_protocols(&mut self, wanted: &[&'static str]) -> Outcome {
        match wanted {
            [] => Ok(()),
            [one] => self.set_protocol(one),
            several if self.protocol.is_some() => {
                let has = self.protocol.is_some_and(|own| several.contains(&own));
                has.then_some(()).ok_or_else(|| "the rule's protocols exclude each other".into())
            }
            several => {
                if self.protocols.is_empty() {
                    self.protocols = several.to_vec();
                } else {
                    self.protocols.retain(|own| several.contains(own));
                }
                match self.protocols.as_slice() {
                    [] => Err("the rule's protocols exclude each other".into()),
                    &[one] => {
                        self.protocols.clear();
                        self.set_protocol(one)
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// The rule is for this protocol.
    pub(crate) fn set_protocol(&mut self, wanted: &'static str) -> Outcome {
        if !self.protocols.is_empty() {
            if !self.protocols.contains(&wanted) {
                return Err("the rule's protocols exclude each other".into());
            }
            self.protocols.clear();
        }
        let protocol = match self.protocol {
            None => wanted,
            Some(own) => protocol::common(own, wanted)
                .ok_or_else(|| format!("a keyword of {wanted} cannot be used with {own}"))?,
        };
        if !self.shared.is_enabled(protocol) {
            return Err(format!("protocol {protocol} is off, so the rule can never match").into());
        }
        self.protocol = Some(protocol);
        self.is_app_layer = true;
        Ok(())
    }

    /// What kind of buffer a key is of.
    pub(crate) fn kind(&self, key: BufferKey) -> BufferKind {
        let name = self.shared.buffer_use(key).map_or("", |used| used.name);
        buffers::buffer(name).map_or(BufferKind::Generic, |info| info.kind)
    }

    /// The number of a byte variable that the list may use.
    pub(crate) fn variable(&self, name: &str, list: Option<List>) -> Option<u8> {
        let find = |maker| {
            let mut all = self.variables.iter();
            all.find(|(known, _, of, by)| {
                let is_usable = matches!(of, List::Buffer(_)) || list.is_none_or(|l| l == *of);
                known == name && *by == maker && is_usable
            })
        };
        let found = find(VariableMaker::Extract).or_else(|| find(VariableMaker::Math));
        found.map(|&(_, number, ..)| number)
    }
}

impl Draft<'_> {
    /// The last match of a kind in the payload.
    pub(crate) fn last_payload(&self, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        self.last_of(vec![Slot::Builtin(List::Payload)], wanted)
    }

    /// The last match of a kind in the present buffer.
    pub(crate) fn last_in_current(&self, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        self.last_of(vec![Slot::Buffer(self.current?)], wanted)
    }

    /// The last match of a kind in a buffer that has a prefilter, or in the payload if that is
    /// later.
    pub(crate) fn last_pattern(&self, wanted: impl Fn(&Match) -> bool) -> Option<Spot> {
        let has_patterns = |buffer: &DraftBuffer| {
            let name = self.shared.buffer_use(buffer.key).map_or("", |used| used.name);
            buffers::buffer(name).is_some_and(|info| info.pattern_rank.is_some())
        };
        let all = self.buffers.iter().enumerate();
        let mut slots: Vec<Slot> =
            all.filter(|(_, b)| has_patterns(b)).map(|(at, _)| Slot::Buffer(at)).collect();
        let active = self.last(&wanted);
        let best = self.last_of(std::mem::take(&mut slots), &wanted);
        match (best, active) {
            (Some(best), Some(active)) => {
                let index = |spot: Spot| self.entries(spot.list).get(spot.at).map(|e| e.index);
                Some(if index(best) > index(active) { best } else { active })
            }
            (best, active) => best.or(active),
        }
    }
}
