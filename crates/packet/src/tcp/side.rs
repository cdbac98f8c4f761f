//! One side of a session: what it has sent, and what was acknowledged of it.

use super::buffer::StreamBuffer;
use super::sack::Sacked;
use super::segments::{Segment, Segments};
use super::sequence::{distance, gt};
use crate::host::Os;
use crate::packet::TcpFlags;

/// One side of a session. "Its" data is what it sends.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Something is missing in its data.
    pub(crate) gap: bool,
    /// No more is put together.
    pub(crate) no_reassembly: bool,
    /// It sent a keep-alive that awaits its acknowledgement.
    pub(crate) keep_alive: bool,
    /// The stream's depth is reached.
    pub(crate) depth_reached: bool,
    /// Raw inspection at once.
    pub(crate) trigger_raw: bool,
    /// It sent timestamps in its SYN.
    pub(crate) timestamps: bool,
    /// It began with a timestamp of 0.
    pub(crate) zero_timestamp: bool,
    /// Protocol detection is completed.
    pub(crate) detected: bool,
    /// No raw inspection of what comes now.
    pub(crate) raw_ends: bool,
    /// No raw inspection.
    pub(crate) no_raw: bool,
    /// A reset was received by it.
    pub(crate) reset_received: bool,

    /// Shift of the windows that the other side announces.
    pub(crate) window_scale: u8,
    /// The system of the receiver of its data, or of itself, as first asked for.
    pub(crate) os: Option<Os>,
    /// All flags of its packets.
    pub(crate) flags: u8,

    /// Its initial sequence number.
    pub(crate) isn: u32,
    /// The next that is expected.
    pub(crate) next: u32,
    /// What the other side acknowledged.
    pub(crate) acknowledged: u32,
    /// The end of the window in which its data must lie.
    pub(crate) window_end: u32,
    /// Bytes it may send (scaled).
    pub(crate) window: u32,
    /// Its last timestamp.
    pub(crate) timestamp: u32,
    /// When it was sent, seconds.
    pub(crate) timestamp_seconds: u32,

    /// Sequence number of the first byte in `buffer`.
    pub(crate) base: u32,
    /// Right edge of the segments, a sequence number.
    pub(crate) right_edge: u32,
    /// Offset up to which the application layer has seen its data.
    pub(crate) app_progress: u64,
    /// Offset up to which raw inspection has.
    pub(crate) raw_progress: u64,
    /// Bytes before the application layer's place that raw inspection shall see again.
    pub(crate) inspect_depth: u32,
    /// Bytes the application layer waits for.
    pub(crate) needed: u32,
    /// The application layer waits for more before it knows what it is ([`super::Orders`]).
    pub(crate) waiting: bool,
    /// Urgent bytes that were taken out of the stream.
    pub(crate) urgent: u16,

    pub(crate) sacked: Sacked,
    pub(crate) buffer: StreamBuffer,
    pub(crate) segments: Segments,
}

impl Side {
    /// Sets the initial sequence number; its data begins behind it.
    pub(crate) fn begin(&mut self, isn: u32) {
        self.isn = isn;
        self.base = isn.wrapping_add(1);
    }

    /// Offset of the first byte that is kept.
    pub(crate) fn base_offset(&self) -> u64 {
        self.buffer.base()
    }

    /// Offset of a sequence number behind the base.
    pub(crate) fn offset_of(&self, sequence: u32) -> u64 {
        self.base_offset().wrapping_add(u64::from(sequence.wrapping_sub(self.base)))
    }

    /// Offset of a sequence number, below zero if it is before the stream's beginning.
    pub(crate) fn place_of(&self, sequence: u32) -> i64 {
        let base = i64::try_from(self.base_offset()).unwrap_or(i64::MAX);
        base.saturating_add(i64::from(distance(sequence, self.base)))
    }

    /// The entry of a segment.
    pub(crate) fn segment(&self, sequence: u32, len: u16) -> Segment {
        Segment { start: self.place_of(sequence), len }
    }

    /// Offset up to which its data was acknowledged.
    pub(crate) fn acknowledged_offset(&self) -> u64 {
        // Nothing can be acknowledged to who has not acknowledged anything, the SYN/ACK for one.
        let begins = self.base_offset() == 0 && self.flags & TcpFlags::ACK == 0;
        if !begins && gt(self.acknowledged, self.base) {
            self.offset_of(self.acknowledged)
        } else {
            self.base_offset()
        }
    }

    /// Offset of the right edge of all segments. Where none came, Suricata's arithmetic says
    /// "far beyond", and so flows without data are asked once more at their end.
    pub(crate) fn right_edge_offset(&self) -> u64 {
        self.base_offset()
            .wrapping_add(u64::from(self.right_edge))
            .wrapping_sub(u64::from(self.base))
    }

    /// Takes an acknowledgement of its data.
    pub(crate) fn acknowledge(&mut self, acknowledgement: u32) {
        if gt(acknowledgement, self.acknowledged) && gt(acknowledgement, self.base) {
            self.acknowledged = acknowledgement;
            self.sacked.prune(acknowledgement);
        }
    }

    /// Moves the end of its window, never back.
    pub(crate) fn open_window(&mut self) {
        let end = self.acknowledged.wrapping_add(self.window).wrapping_add(self.sacked.bytes());
        if gt(end, self.window_end) {
            self.window_end = end;
        }
    }

    /// Bytes that protocol detection could look at.
    pub(crate) fn available(&self) -> u32 {
        u32::try_from(self.buffer.available()).unwrap_or(u32::MAX)
    }

    /// Memory of its data.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.bytes() + self.segments.bytes()
    }
}
