//! IP fragments to packets, by the policy of the host that they are sent to.
//!
//! Waiting fragments are bounded in number and bytes; what is the oldest goes first. Suricata's
//! `defrag.memcap` counts its trackers alone, ours what they hold.

mod assemble;
mod policy;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use crate::address::Time;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::host::HostPolicies;
use crate::packet::{Ip, IpVersion, Packet};
use crate::settings::DefragSettings;
use assemble::{Head, Piece};
use policy::{Policy, Span};

/// A packet is no longer, in bytes.
const PACKET_LEN_MAX: u32 = 65_535;
const IPV4_HEADER_LEN: u32 = 20;
/// Fragments of one packet: as many as there are offsets.
const PIECES_MAX: usize = 8192;
/// What a waiting fragment costs besides its bytes.
const PIECE_OVERHEAD: usize = 128;
/// What a packet that waits for fragments costs.
const TRACKER_OVERHEAD: usize = 256;

/// A fragment: a decoded packet, and where its parts are.
pub(crate) struct Part<'a> {
    /// The packet, whose IP header says that it is a fragment.
    pub(crate) packet: &'a Packet,
    /// What precedes the fragment, but for the fragment header.
    pub(crate) header: Range<usize>,
    /// The fragment.
    pub(crate) data: Range<usize>,
    /// Of IPv6: where the packet names the fragment header, which is not there once all is whole.
    pub(crate) next_header_at: usize,
    /// Of IPv6: what the fragments hold, by the fragment header.
    pub(crate) next_header: u8,
    /// Where IP begins.
    pub(crate) start: usize,
}

/// What a fragment led to.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The packet that it completed, from its IP header on.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Events of the fragment.
    pub(crate) events: Vec<u16>,
}

/// Fragments with the same key belong together. Both directions share one, as in Suricata.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    lower: IpAddr,
    higher: IpAddr,
    id: u32,
    protocol: u8,
    vlan: [u16; 3],
}

impl Key {
    fn of(packet: &Packet, ip: &Ip) -> Self {
        let mut vlan = [0; 3];
        for (place, id) in vlan.iter_mut().zip(&packet.vlan) {
            *place = *id;
        }
        Self {
            lower: ip.source.min(ip.destination),
            higher: ip.source.max(ip.destination),
            id: ip.id,
            protocol: ip.protocol,
            vlan,
        }
    }
}

/// A packet that waits for fragments. `spans` and `pieces` belong together, by offset.
struct Tracker {
    serial: u64,
    policy: Policy,
    timeout_seconds: u32,
    /// When it is given up, in seconds since 1970.
    expires: i64,
    spans: Vec<Span>,
    #[expect(clippy::vec_box, reason = "an insertion moves all that follow")]
    pieces: Vec<Box<Piece>>,
    seen_last: bool,
    /// What it holds, in bytes.
    memory: usize,
}

fn cost(piece: &Piece) -> usize {
    piece.bytes.len() + PIECE_OVERHEAD
}

/// All packets that wait for fragments.
pub(crate) struct Defrag {
    settings: DefragSettings,
    hosts: HostPolicies,
    trackers: HashMap<Key, Tracker>,
    /// Oldest first; entries whose tracker is gone or younger are void.
    age: VecDeque<(u64, Key)>,
    serial: u64,
    pieces: usize,
    memory: usize,
}

impl Defrag {
    pub(crate) fn new(settings: DefragSettings, hosts: HostPolicies) -> Self {
        Self {
            settings,
            hosts,
            trackers: HashMap::new(),
            age: VecDeque::new(),
            serial: 0,
            pieces: 0,
            memory: 0,
        }
    }

    /// Bytes that waiting fragments hold.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Takes a fragment.
    pub(crate) fn add(&mut self, part: &Part<'_>, counters: &mut Counters) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(ip) = &part.packet.ip else { return outcome };
        let (fragments, reassembled, too_large, overlap, ignored) = match ip.version {
            IpVersion::V4 => (
                Counter::DefragIpv4Fragments,
                Counter::DefragIpv4Reassembled,
                event::IPV4_FRAG_PKT_TOO_LARGE,
                event::IPV4_FRAG_OVERLAP,
                event::IPV4_FRAG_IGNORED,
            ),
            IpVersion::V6 => (
                Counter::DefragIpv6Fragments,
                Counter::DefragIpv6Reassembled,
                event::IPV6_FRAG_PKT_TOO_LARGE,
                event::IPV6_FRAG_OVERLAP,
                event::IPV6_FRAG_IGNORED,
            ),
        };
        counters.add(fragments);
        let Ok(len) = u32::try_from(part.data.len()) else { return outcome };
        let header_len = if ip.version == IpVersion::V4 { IPV4_HEADER_LEN } else { 0 };
        let key = Key::of(part.packet, ip);
        self.expire(&key, part.packet.time, counters);
        if header_len + ip.fragment_offset + len > PACKET_LEN_MAX {
            outcome.events.push(too_large);
            return outcome;
        }
        let mut tracker = match self.take(&key) {
            Some(tracker) => tracker,
            None => self.open(ip, &key),
        };
        tracker.expires = part.packet.time.seconds + i64::from(tracker.timeout_seconds);
        let new = Span { offset: ip.fragment_offset, len, trim: 0 };
        let placement = policy::place(tracker.policy, new, &mut tracker.spans);
        if let Some(at) = placement.removed {
            tracker.spans.remove(at);
            tracker.memory = tracker.memory.saturating_sub(cost(&tracker.pieces.remove(at)));
        }
        if !placement.dropped {
            let full = tracker.pieces.len() >= PIECES_MAX
                || self.pieces + tracker.pieces.len() >= self.settings.fragments_max;
            if full {
                counters.add(Counter::DefragMaxFragsReached);
                outcome.events.push(ignored);
                return outcome;
            }
            insert(&mut tracker, part, ip, new, placement.trim);
            tracker.seen_last |= !ip.more_fragments;
        }
        if placement.overlaps {
            outcome.events.push(overlap);
        }
        // A fragment that was dropped completes nothing.
        if !placement.dropped && tracker.seen_last && assemble::is_whole(&tracker.spans) {
            outcome.bytes = assemble::assemble(ip.version, &tracker.spans, &tracker.pieces);
            if outcome.bytes.is_some() {
                counters.add(reassembled);
            }
            return outcome;
        }
        self.keep(key, tracker, counters);
        outcome
    }

    /// Gives up the packet of a key if its time is over.
    fn expire(&mut self, key: &Key, now: Time, counters: &mut Counters) {
        if self.trackers.get(key).is_some_and(|tracker| tracker.expires <= now.seconds) {
            self.take(key);
            counters.add(Counter::DefragTrackerTimeout);
        }
        // Those that nobody asks for; the oldest are the first to expire, but for their hosts'
        // own time-outs and fragments that came later, for which the limits suffice.
        while let Some((serial, oldest)) = self.age.front() {
            let expired = match self.trackers.get(oldest) {
                Some(tracker) if tracker.serial == *serial => tracker.expires <= now.seconds,
                _ => true,
            };
            if !expired {
                break;
            }
            self.evict();
        }
    }

    /// Removes the oldest packet.
    fn evict(&mut self) -> bool {
        let Some((serial, key)) = self.age.pop_front() else { return false };
        let current = self.trackers.get(&key).is_some_and(|tracker| tracker.serial == serial);
        if current {
            self.take(&key);
        }
        current
    }

    fn take(&mut self, key: &Key) -> Option<Tracker> {
        let tracker = self.trackers.remove(key)?;
        self.memory = self.memory.saturating_sub(tracker.memory);
        self.pieces = self.pieces.saturating_sub(tracker.pieces.len());
        Some(tracker)
    }

    fn open(&mut self, ip: &Ip, key: &Key) -> Tracker {
        self.compact();
        self.serial += 1;
        self.age.push_back((self.serial, key.clone()));
        let host = ip.destination;
        Tracker {
            serial: self.serial,
            policy: Policy::of(self.hosts.get(host)),
            timeout_seconds: self.settings.timeout_of(host),
            expires: 0,
            spans: Vec::new(),
            pieces: Vec::new(),
            seen_last: false,
            memory: TRACKER_OVERHEAD,
        }
    }

    /// Puts a tracker (back) into the table, and gives up the oldest ones if there are too many.
    fn keep(&mut self, key: Key, tracker: Tracker, counters: &mut Counters) {
        self.memory += tracker.memory;
        self.pieces += tracker.pieces.len();
        self.trackers.insert(key, tracker);
        while self.trackers.len() > self.settings.trackers_max
            || self.memory > self.settings.memory_bytes_max
        {
            if self.age.is_empty() {
                break;
            }
            if self.evict() {
                counters.add(Counter::DefragTrackerSoftReuse);
            }
        }
    }

    /// Forgets void entries before they outgrow the table.
    fn compact(&mut self) {
        if self.age.len() > 2 * self.trackers.len() + 64 {
            let trackers = &self.trackers;
            self.age.retain(|(serial, key)| {
                trackers.get(key).is_some_and(|tracker| tracker.serial == *serial)
            });
        }
    }
}

fn insert(tracker: &mut Tracker, part: &Part<'_>, ip: &Ip, new: Span, trim: u32) {
    let span = Span { offset: new.offset + trim, len: new.len - trim, trim: 0 };
    let at = tracker.spans.partition_point(|old| old.offset <= span.offset);
    tracker.spans.insert(at, span);
    let piece = Piece {
        bytes: Arc::clone(&part.packet.bytes),
        data_at: part.data.start + trim as usize,
        more: ip.more_fragments,
        head: Head {
            header: part.header.clone(),
            next_header_at: part.next_header_at.saturating_sub(part.header.start),
            next_header: part.next_header,
            before: part.start,
        },
    };
    tracker.memory += cost(&piece);
    tracker.pieces.insert(at, Box::new(piece));
}
