//! A tag of a flow or host, and what it counts.

use gauntlet_packet::Packet;

use crate::rule::matches::{Tag, TagUnit};

/// Tags of one flow or host; no more are added.
const TAGS_MAX: usize = 50;
/// An alert that comes so often does not begin a tag anew.
const RENEWALS_MAX: u32 = 10;
/// A tag of a flow or host.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    rule: (u32, u32),
    unit: TagUnit,
    count: u32,
    /// Time of the alert, in seconds.
    first: i64,
    packets: u32,
    bytes: u64,
    renewals: u32,
    /// The packet of the alert was seen.
    has_begun: bool,
}

/// Adds a tag, or begins it anew.
pub(crate) fn add(tags: &mut Vec<Entry>, rule: (u32, u32), tag: &Tag, packet: &Packet) {
    let first = packet.time.seconds;
    if let Some(known) = tags.iter_mut().find(|known| known.rule == rule) {
        known.renewals += 1;
        if known.renewals < RENEWALS_MAX {
            (known.first, known.packets, known.bytes) = (first, 0, 0);
        }
    } else if tags.len() < TAGS_MAX {
        tags.push(Entry {
            rule,
            unit: tag.unit,
            count: tag.count,
            first,
            packets: 0,
            bytes: 0,
            renewals: 0,
            has_begun: false,
        });
    }
}

/// Counts a packet; whether one of the tags holds. Those that are over go.
pub(crate) fn pass(tags: &mut Vec<Entry>, packet: &Packet) -> bool {
    let mut is_tagged = false;
    tags.retain_mut(|tag| {
        tag.packets = tag.packets.saturating_add(1);
        tag.bytes = tag.bytes.saturating_add(packet.bytes.len() as u64);
        // The alert shows its own packet.
        if !std::mem::replace(&mut tag.has_begun, true) {
            return true;
        }
        let elapsed = packet.time.seconds.saturating_sub(tag.first);
        let holds = match tag.unit {
            TagUnit::Packets => tag.packets <= tag.count,
            TagUnit::Bytes => tag.bytes <= u64::from(tag.count),
            TagUnit::Seconds => elapsed <= i64::from(tag.count),
        };
        is_tagged |= holds;
        holds
    });
    is_tagged
}
