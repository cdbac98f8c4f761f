//! Raw inspection: rules that look at a stream's bytes, not at its protocol's.
//!
//! Not inline, bytes are looked at when a chunk of them was acknowledged, or when something says
//! that it is time: the application layer, the depth, the end. Inline, a packet's bytes are looked
//! at with what is around them.

use crate::address::Direction;
use crate::packet::{Packet, Transport};

use super::kept::Found;
use super::outcome::Outcome;
use super::session::Session;
use super::settings::Settings;
use super::side::Side;
use super::state::State;

/// The packet with which raw data is asked for.
#[derive(Debug, Clone, Copy)]
pub struct RawPacket<'a> {
    /// Which way it goes.
    pub direction: Direction,
    /// Its payload (with what was replaced, inline).
    pub payload: &'a [u8],
    /// Sequence number of the payload.
    pub sequence: u32,
    /// Its payload is in the stream.
    pub added: bool,
    /// It was made up at the end of the flow.
    pub end: bool,
}

impl<'a> RawPacket<'a> {
    /// Of a packet and what the stream engine said of it.
    pub fn new(packet: &'a Packet, direction: Direction, outcome: &'a Outcome) -> Self {
        let sequence = match &packet.transport {
            Transport::Tcp(tcp) => tcp.sequence.wrapping_add(u32::from(tcp.fast_open.is_some())),
            _ => 0,
        };
        Self {
            direction,
            payload: outcome.replaced.as_deref().unwrap_or(packet.payload()),
            sequence,
            added: outcome.added,
            end: packet.source == crate::packet::PacketSource::FlowEnd,
        }
    }
}

impl Session {
    /// Whether there is raw data to inspect with a packet.
    pub fn raw_ready(&self, packet: &RawPacket<'_>, settings: &Settings) -> bool {
        let side = self.side(packet.direction);
        if side.segments.is_empty() || side.no_reassembly || side.no_raw {
            return false;
        }
        if settings.inline {
            return !packet.payload.is_empty() && packet.added;
        }
        side.raw_progress != side.right_edge_offset() && self.is_time(side, packet, settings)
    }

    fn is_time(&self, side: &Side, packet: &RawPacket<'_>, settings: &Settings) -> bool {
        if side.depth_reached || side.trigger_raw || side.raw_ends {
            return true;
        }
        if self.state > State::TimeWait || packet.end {
            return true;
        }
        let chunk = settings.chunk_bytes.get(packet.direction.index()).copied().unwrap_or(0);
        let waiting = side.acknowledged_offset().checked_sub(side.raw_progress);
        waiting.is_some_and(|waiting| waiting >= u64::from(chunk))
    }

    /// Gives the raw data to inspect with a packet to `each`: offset in the stream, bytes; several
    /// pieces if some are missing between. Returns the progress to report by
    /// [`Session::raw_done`].
    ///
    /// `again`: bytes before the application layer's place are given again, as it asked
    /// ([`Session::set_inspect_depth`]).
    pub fn raw_data<'a>(
        &'a self,
        packet: &RawPacket<'a>,
        settings: &Settings,
        again: bool,
        each: &mut dyn FnMut(u64, &'a [u8]),
    ) -> u64 {
        let side = self.side(packet.direction);
        if settings.inline {
            return inline(side, packet, settings, each);
        }
        if side.no_reassembly || side.no_raw || !self.is_time(side, packet, settings) {
            return side.raw_progress;
        }
        let mut from = side.raw_progress;
        if again && side.trigger_raw && side.inspect_depth > 0 {
            let earlier = side.app_progress.saturating_sub(u64::from(side.inspect_depth));
            from = from.min(earlier);
        }
        pieces(side, from, side.acknowledged_offset(), packet.end, each)
    }

    /// Bytes from an offset up to the application layer's place, for rules on frames.
    pub fn frame_data(
        &self,
        direction: Direction,
        offset: u64,
        end: bool,
        each: &mut dyn FnMut(u64, &[u8]),
    ) {
        let side = self.side(direction);
        pieces(side, offset, side.app_progress, end, each);
    }

    /// Bytes of a direction that are kept and acknowledged, as alerts log them: offset, bytes;
    /// several pieces if some are missing between.
    pub fn acknowledged_data(&self, direction: Direction, each: &mut dyn FnMut(u64, &[u8])) {
        let side = self.side(direction);
        if !side.no_reassembly {
            pieces(side, side.base_offset(), side.acknowledged_offset(), false, each);
        }
    }

    /// Offset up to which a direction's bytes have come without a hole and may be used: not
    /// inline, and before the end, only what was acknowledged.
    pub fn usable(&self, direction: Direction, end: bool, settings: &Settings) -> u64 {
        let side = self.side(direction);
        let edge = side.buffer.consecutive_end();
        if end || settings.inline { edge } else { edge.min(side.acknowledged_offset()) }
    }

    /// No raw inspection in a direction: no rule that could apply needs it. To be called with the
    /// first packet of the direction that has a session.
    pub fn disable_raw(&mut self, direction: Direction) {
        self.side_mut(direction).no_raw = true;
    }

    /// Raw data was inspected up to here: what [`Session::raw_data`] returned, or 0 if it was not
    /// asked, because no rule applied; then the place of the application layer counts. To be
    /// called with each packet for which [`Session::raw_ready`] held, and with no other.
    pub fn raw_done(&mut self, direction: Direction, progress: u64) {
        let app_disabled = self.app_disabled;
        let side = self.side_mut(direction);
        if progress > side.raw_progress {
            side.raw_progress = progress;
            side.trigger_raw = false;
        } else if progress == 0 {
            let target = if app_disabled { side.acknowledged_offset() } else { side.app_progress };
            side.raw_progress = side.raw_progress.max(target);
            side.trigger_raw = false;
        }
        side.no_raw |= side.raw_ends;
    }

    /// Whether a direction has data at the flow's end that nobody has inspected.
    pub fn has_uninspected(&self, direction: Direction) -> bool {
        let side = self.side(direction);
        (!side.no_raw && side.right_edge_offset() > side.raw_progress)
            || (!self.app_disabled && side.buffer.consecutive_end() > side.app_progress)
    }

    /// Whether a direction was never sent any data.
    pub fn is_without_data(&self, direction: Direction) -> bool {
        !self.side(direction).buffer.has_seen_data()
    }
}

fn pieces<'a>(
    side: &'a Side,
    from: u64,
    right_edge: u64,
    end: bool,
    each: &mut dyn FnMut(u64, &'a [u8]),
) -> u64 {
    let mut progress = from;
    let mut piece = |offset: u64, bytes: &'a [u8]| {
        let mut len = bytes.len() as u64;
        if !end {
            if right_edge < progress {
                return false;
            }
            len = len.min(right_edge - progress);
        }
        let Some(bytes) = bytes.get(..usize::try_from(len).unwrap_or(0)) else {
            return false;
        };
        if bytes.is_empty() {
            return false;
        }
        each(offset, bytes);
        if offset == progress {
            progress += len;
        } else if offset > progress && offset <= right_edge {
            progress = offset;
        }
        true
    };
    if side.buffer.has_blocks() {
        for (offset, bytes) in side.buffer.blocks_from(from) {
            if !piece(offset, bytes) {
                break;
            }
        }
    } else if from == 0 {
        piece(side.base_offset(), side.buffer.whole());
    } else if let Found::Bytes(bytes) = side.buffer.read(from) {
        piece(from, bytes);
    }
    progress
}

/// Inline: a packet's bytes, with as much around them as a chunk holds.
fn inline<'a>(
    side: &'a Side,
    packet: &RawPacket<'a>,
    settings: &Settings,
    each: &mut dyn FnMut(u64, &'a [u8]),
) -> u64 {
    if packet.payload.is_empty() || !packet.added || side.no_reassembly {
        return side.raw_progress;
    }
    let len = packet.payload.len();
    let mut chunk =
        usize::from(settings.chunk_bytes.get(packet.direction.index()).copied().unwrap_or(0));
    if chunk <= len || chunk / 3 * 2 < len {
        chunk = len + chunk / 3;
    }
    let left = side.offset_of(packet.sequence);
    let right = left.wrapping_add(len as u64);
    let holes = side.buffer.has_blocks();
    let (mut offset, mut bytes) = if holes {
        side.buffer.block_around(left, right).unwrap_or((0, &[]))
    } else {
        (side.base_offset(), side.buffer.whole())
    };
    if bytes.is_empty() || left < offset || right > offset + bytes.len() as u64 {
        (offset, bytes) = (left, packet.payload);
    } else if bytes.len() > chunk {
        let before = usize::try_from(left - offset).unwrap_or(0);
        let after = bytes.len().saturating_sub(before + len);
        let (skip, cut) = around(before, after, chunk.saturating_sub(len));
        bytes = bytes.get(skip..bytes.len() - cut).unwrap_or_default();
        offset += skip as u64;
    }
    each(offset, bytes);
    let progress = offset + bytes.len() as u64;
    let acknowledged = side.acknowledged_offset();
    if !holes {
        progress
    } else if side.raw_progress < acknowledged {
        if offset > acknowledged { acknowledged } else { progress }
    } else {
        side.raw_progress
    }
}

/// How much of `before` and `after` to leave out, so that `room` of them stays, evenly.
fn around(before: usize, after: usize, room: usize) -> (usize, usize) {
    if after == 0 {
        return (before.saturating_sub(room), 0);
    }
    if before == 0 {
        return (0, after.saturating_sub(room));
    }
    let half = room / 2;
    let (keep_before, keep_after) = match (before >= half, after >= half) {
        (true, true) => (half, half),
        (false, true) => (before, room - before),
        (true, false) => (room - after, after),
        (false, false) => (before, after),
    };
    (before.saturating_sub(keep_before), after.saturating_sub(keep_after))
}
