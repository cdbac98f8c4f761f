//! All flows, by what their packets have in common.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use crate::address::Time;
use crate::packet::{Packet, Transport};
use crate::tcp::{self, ExceptionPolicy, may_replace};

use super::core::{Flow, FlowCore, PacketFacts};
use super::ended::{EndReason, Ended};
use super::index::Index;
use super::key::{End, Key, Wanted, key_between, wanted};
use super::settings::Settings;
use super::state::FlowState;

/// The number of TCP among protocols of IP.
const TCP: u8 = 6;

/// Flows that each packet has looked at, whether their time is over.
const SWEEP_PER_PACKET: usize = 2;

/// Flows that are looked at for one to give up when memory is short.
const EVICTION_TRIES: usize = 16;

/// What a flow costs beside itself: its places in index and table, and the allocator's share.
const OVERHEAD_BYTES: u64 = 32;

/// Names a flow in its table, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId {
    slot: u32,
    number: u64,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It belongs to this flow.
    Flow(FlowId, PacketFacts),
    /// It has no flow, and needs none.
    None,
    /// There is no memory for its flow; the policy says what to do with it.
    Refused(ExceptionPolicy),
}

/// Counters, as in the `flow` part of Suricata's statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// `flow.total`.
    pub total: u64,
    /// `flow.tcp`.
    pub tcp: u64,
    /// `flow.udp`.
    pub udp: u64,
    /// `flow.icmpv4`.
    pub icmpv4: u64,
    /// `flow.icmpv6`.
    pub icmpv6: u64,
    /// `flow.tcp_reuse`.
    pub tcp_reuse: u64,
    /// `flow.memcap`: packets whose flow was refused.
    pub refused: u64,
    /// `flow.get_used`: flows given up for new ones.
    pub evicted: u64,
    /// `flow.emerg_mode_entered`.
    pub emergencies: u64,
}

#[derive(Debug)]
struct Entry<S> {
    hash: u64,
    flow: Flow<S>,
}

type Slot<S> = Option<Box<Entry<S>>>;

/// The hash of the flow in a slot.
fn hash_of<S>(slots: &[Slot<S>]) -> impl Fn(u32) -> u64 {
    |slot| slots.get(slot as usize).and_then(Option::as_deref).map_or(0, |entry| entry.hash)
}

/// All flows. Nothing of what it says depends on the order of a hash table.
#[derive(Debug)]
pub struct FlowTable<S> {
    /// Settings.
    pub settings: Settings,
    /// Counters.
    pub counters: Counters,
    index: Index,
    /// Keys are hashed with secrets of this table, so that nobody can choose colliding ones.
    hasher: RandomState,
    slots: Vec<Slot<S>>,
    /// By slot: before this second the flow's time is not over, unless a packet comes or there is
    /// an emergency. A look at the flow itself is a miss of the cache.
    safe_until: Vec<u32>,
    free: Vec<u32>,
    ended: VecDeque<Ended<S>>,
    /// Flows that were there at the end, the first last.
    last: Vec<Box<Entry<S>>>,
    next_number: u64,
    number_step: u64,
    sweep: usize,
    evict: usize,
    emergency: bool,
    sweeps_early: bool,
    now: Time,
}

impl<S: Default> FlowTable<S> {
    /// An empty table.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counters: Counters::default(),
            index: Index::default(),
            hasher: RandomState::new(),
            slots: Vec::new(),
            safe_until: Vec::new(),
            free: Vec::new(),
            ended: VecDeque::new(),
            last: Vec::new(),
            next_number: 1,
            number_step: 1,
            sweep: 0,
            evict: 0,
            emergency: false,
            sweeps_early: false,
            now: Time::default(),
        }
    }

    /// Numbers flows from `first` on in steps, so that several tables have no number in common.
    pub fn number_from(&mut self, first: u64, step: u64) {
        (self.next_number, self.number_step) = (first, step);
    }

    /// From now on, flows whose time is over are looked for even if there are few: what they hold
    /// elsewhere is needed ([`tcp::Engine::is_filling`]).
    pub fn sweep_early(&mut self, early: bool) {
        self.sweeps_early = early;
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.len() == 0
    }

    /// Whether memory is short: time-outs are shorter.
    pub fn is_emergency(&self) -> bool {
        self.emergency
    }

    /// Time of the last packet.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A flow.
    pub fn get(&self, id: FlowId) -> Option<&Flow<S>> {
        let entry = self.slots.get(id.slot as usize)?.as_deref()?;
        (entry.flow.core.number == id.number).then_some(&entry.flow)
    }

    /// A flow.
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow<S>> {
        let entry = self.slots.get_mut(id.slot as usize)?.as_deref_mut()?;
        (entry.flow.core.number == id.number).then_some(&mut entry.flow)
    }

    /// The flow of a packet: the one it belongs to, or a new one. Flows whose time is over come
    /// out by [`FlowTable::next_ended`], to be called after the packet was dealt with.
    pub fn handle(&mut self, packet: &Packet, streams: &tcp::Settings) -> Lookup {
        self.now = packet.time;
        self.sweep(packet.time);
        let Some(wanted) = wanted(packet, &self.settings) else {
            return Lookup::None;
        };
        let mut reused = false;
        let hash = self.hasher.hash_one(&wanted.key);
        if let Some(slot) = self.find(hash, &wanted.key) {
            match self.fate(slot, packet, streams) {
                None => return self.update(slot, packet, false),
                Some(reason) => {
                    reused = reason == EndReason::Reused;
                    self.counters.tcp_reuse += u64::from(reused);
                    self.remove(slot, reason);
                }
            }
        }
        if wanted.existing_only || !self.may_begin(packet, streams) {
            return Lookup::None;
        }
        match self.insert(packet, hash, &wanted) {
            Some(slot) => self.update(slot, packet, reused),
            None => {
                self.counters.refused += 1;
                Lookup::Refused(self.settings.memory_policy)
            }
        }
    }

    /// The flow that a packet would belong to as things are: none if it would begin one, also in
    /// the place of a flow that is over.
    pub fn current(&self, packet: &Packet, streams: &tcp::Settings) -> Option<FlowId> {
        let wanted = wanted(packet, &self.settings)?;
        let slot = self.find(self.hasher.hash_one(&wanted.key), &wanted.key)?;
        if self.fate(slot, packet, streams).is_some() {
            return None;
        }
        let entry = self.slots.get(slot as usize)?.as_deref()?;
        Some(FlowId { slot, number: entry.flow.core.number })
    }

    /// The flow between two ends, of a packet's VLANs and depth: of whatever begins a datagram or
    /// is in an error's body.
    pub fn between(&self, packet: &Packet, ends: [End; 2], protocol: u8) -> Option<&Flow<S>> {
        let key = key_between(packet, ends, protocol, &self.settings);
        let slot = self.find(self.hasher.hash_one(&key), &key)?;
        let flow = &self.slots.get(slot as usize)?.as_deref()?.flow;
        (!self.is_timed_out(&flow.core, packet.time)).then_some(flow)
    }

    fn find(&self, hash: u64, key: &Key) -> Option<u32> {
        self.index.find(hash, |slot| {
            let entry = self.slots.get(slot as usize).and_then(Option::as_deref);
            entry.is_some_and(|entry| {
                entry.hash == hash && entry.flow.core.key(&self.settings) == *key
            })
        })
    }

    fn update(&mut self, slot: u32, packet: &Packet, reused: bool) -> Lookup {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_deref_mut) else {
            return Lookup::None;
        };
        let core = &mut entry.flow.core;
        let facts = core.update(packet, reused);
        let id = FlowId { slot, number: core.number };
        // What this packet makes of its state is not known yet.
        let timeouts = &self.settings.timeouts(core.protocol).usual;
        let safe_until = after(core.last, timeouts.shortest(core.protocol == TCP));
        if let Some(place) = self.safe_until.get_mut(slot as usize) {
            *place = safe_until;
        }
        Lookup::Flow(id, facts)
    }

    /// Why a flow has to make place for a new one, if it has to.
    fn fate(&self, slot: u32, packet: &Packet, streams: &tcp::Settings) -> Option<EndReason> {
        let flow = &self.slots.get(slot as usize)?.as_deref()?.flow;
        if self.is_timed_out(&flow.core, packet.time) {
            return Some(EndReason::TimedOut);
        }
        let Transport::Tcp(tcp) = &packet.transport else {
            return None;
        };
        let direction = flow.core.direction_of(packet);
        may_replace(flow.core.tcp.as_deref(), tcp, direction, streams).then_some(EndReason::Reused)
    }

    fn is_timed_out(&self, core: &FlowCore, now: Time) -> bool {
        let timeouts = self.settings.timeouts(core.protocol);
        let timeouts = if self.emergency { &timeouts.emergency } else { &timeouts.usual };
        let seconds = i64::from(timeouts.of(core.state));
        let end = Time { seconds: core.last.seconds.saturating_add(seconds), ..core.last };
        now >= end
    }

    /// While memory is short and sessions are picked up in their middle, only a SYN begins a flow.
    fn may_begin(&self, packet: &Packet, streams: &tcp::Settings) -> bool {
        const HANDSHAKE: u8 = 0x17;
        match &packet.transport {
            Transport::Tcp(tcp) if self.emergency && streams.midstream => {
                tcp.flags.0 & HANDSHAKE == crate::packet::TcpFlags::SYN
            }
            _ => true,
        }
    }

    fn bytes_of(flows: usize) -> u64 {
        let each = size_of::<Entry<S>>() as u64 + OVERHEAD_BYTES;
        each.saturating_mul(flows as u64)
    }

    fn insert(&mut self, packet: &Packet, hash: u64, wanted: &Wanted) -> Option<u32> {
        let max = self.settings.bytes_max;
        if max != 0 && Self::bytes_of(self.len() + 1) > max {
            if !self.emergency {
                self.emergency = true;
                self.counters.emergencies += 1;
            }
            if !self.evict_one(packet.time) {
                return None;
            }
        }
        let core = FlowCore::new(self.next_number, packet, wanted);
        self.next_number += self.number_step;
        self.count(core.protocol);
        let entry = Box::new(Entry { hash, flow: Flow { core, upper: S::default() } });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.safe_until.push(0);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        *self.slots.get_mut(slot as usize)? = Some(entry);
        self.index.insert(hash, slot, hash_of(&self.slots));
        Some(slot)
    }

    fn count(&mut self, protocol: u8) {
        self.counters.total += 1;
        match protocol {
            1 => self.counters.icmpv4 += 1,
            6 => self.counters.tcp += 1,
            17 => self.counters.udp += 1,
            58 => self.counters.icmpv6 += 1,
            _ => {}
        }
    }

    fn remove(&mut self, slot: u32, reason: EndReason) {
        let Some(place) = self.slots.get(slot as usize).and_then(Option::as_deref) else {
            return;
        };
        self.index.remove(place.hash, slot, hash_of(&self.slots));
        if let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.free.push(slot);
            self.ended.push_back(Ended { flow: entry.flow, reason });
        }
        self.leave_emergency();
    }

    fn leave_emergency(&mut self) {
        let free = u64::from(self.settings.emergency_recovery.min(100));
        let limit = self.settings.bytes_max / 100 * (100 - free);
        if self.emergency && Self::bytes_of(self.len()) <= limit {
            self.emergency = false;
        }
    }

    /// Looks at the next few flows, whether their time is over.
    fn sweep(&mut self, now: Time) {
        if self.len() < self.settings.sweep_flows_min && !self.sweeps_early {
            return;
        }
        for _ in 0..SWEEP_PER_PACKET.min(self.slots.len()) {
            self.sweep_one(now);
        }
    }

    fn sweep_one(&mut self, now: Time) {
        self.sweep = if self.sweep + 1 < self.slots.len() { self.sweep + 1 } else { 0 };
        let safe_until = self.safe_until.get(self.sweep).copied().unwrap_or_default();
        if now.seconds < i64::from(safe_until) && !self.emergency {
            return;
        }
        let Some(entry) = self.slots.get(self.sweep).and_then(Option::as_deref) else { return };
        let core = &entry.flow.core;
        let timeout = self.settings.timeouts(core.protocol).usual.of(core.state);
        let (over, safe_until) = (self.is_timed_out(core, now), after(core.last, timeout));
        if let Some(place) = self.safe_until.get_mut(self.sweep) {
            *place = safe_until;
        }
        if over && let Ok(slot) = u32::try_from(self.sweep) {
            self.remove(slot, EndReason::TimedOut);
        }
    }

    /// Looks at up to so many places of the table, whether the time of a flow there is over: for
    /// when no packets come. Such flows come out by [`FlowTable::next_ended`].
    pub fn expire(&mut self, now: Time, places_max: usize) {
        self.now = self.now.max(now);
        for _ in 0..places_max.min(self.slots.len()) {
            self.sweep_one(now);
        }
    }

    /// Gives up one flow that has been silent for a while.
    fn evict_one(&mut self, now: Time) -> bool {
        for _ in 0..EVICTION_TRIES.min(self.slots.len()) {
            self.evict = (self.evict + 1) % self.slots.len();
            let silent = match self.slots.get(self.evict).and_then(Option::as_deref) {
                Some(entry) => is_silent(&entry.flow.core, now),
                None => false,
            };
            if silent && let Ok(slot) = u32::try_from(self.evict) {
                self.remove(slot, EndReason::Evicted);
                self.counters.evicted += 1;
                return true;
            }
        }
        false
    }

    /// A flow that has ended, in the order in which they did. It is out of the table.
    pub fn next_ended(&mut self) -> Option<Ended<S>> {
        let shut = |entry: Box<Entry<S>>| Ended { flow: entry.flow, reason: EndReason::Shutdown };
        self.ended.pop_front().or_else(|| self.last.pop().map(shut))
    }

    /// The capture ends: all flows do, in the order in which they began.
    pub fn end(&mut self) {
        self.last.extend(std::mem::take(&mut self.slots).into_iter().flatten());
        self.last.sort_by_key(|entry| std::cmp::Reverse(entry.flow.core.number));
        self.index.clear();
        self.safe_until.clear();
        self.free.clear();
    }
}

/// The second so long after a time; of one that cannot be kept nothing is known.
fn after(time: Time, seconds: u32) -> u32 {
    u32::try_from(time.seconds.saturating_add(i64::from(seconds))).unwrap_or_default()
}

fn is_silent(core: &FlowCore, now: Time) -> bool {
    let silent = now.seconds.saturating_sub(core.last.seconds);
    match core.state {
        FlowState::New => silent > 1,
        FlowState::Established => silent > 5,
        FlowState::Closed => silent > 3,
        FlowState::Bypassed => silent >= 30,
    }
}
