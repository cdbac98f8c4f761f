//! A session: both sides, the handshake's queue, and what others may ask.

use std::ops::Deref;
use std::sync::Arc;

use crate::address::Direction;

use super::engine::Memory;
use super::side::Side;
use super::state::State;

/// Memory that a session costs, for `stream.memcap`.
pub(crate) const SESSION_BYTES: u64 = size_of::<Session>() as u64;

/// Memory that an entry of the handshake's queue costs.
pub(crate) const HANDSHAKE_BYTES: u64 = size_of::<Handshake>() as u64;

/// A SYN or SYN/ACK that may yet be the one that counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) timestamp: Option<u32>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) window: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) seconds: u32,
}

/// Who sent data first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FirstData {
    /// Nobody yet.
    #[default]
    None,
    /// Data of this direction.
    Seen(Direction),
    /// It was handed to the application layer; it does not matter any more.
    Handled,
}

/// A TCP session.
#[derive(Debug)]
pub struct Session {
    pub(crate) state: State,
    pub(crate) previous: State,
    /// The beginning was not seen.
    pub(crate) midstream: bool,
    /// Nothing of the server was seen since a pick-up in the middle.
    pub(crate) midstream_established: bool,
    /// Picked up at the SYN/ACK.
    pub(crate) midstream_synack: bool,
    /// Both sides send timestamps.
    pub(crate) timestamps: bool,
    /// The client's SYN had a window scale.
    pub(crate) scale_offered: bool,
    pub(crate) closed_by_reset: bool,
    /// Only one side is seen.
    pub(crate) one_sided: bool,
    /// Both sides sent a SYN.
    pub(crate) four_way: bool,
    /// The handshake's ACK was wrong.
    pub(crate) evasion: bool,
    /// The client's SYN permits SACK.
    pub(crate) sack_offered: bool,
    pub(crate) sack: bool,
    /// Something was lost: resets are believed.
    pub(crate) lossy: bool,
    /// The server answered after the handshake.
    pub(crate) confirmed: bool,
    pub(crate) app_disabled: bool,
    pub(crate) bypass: bool,
    pub(crate) fast_open: bool,
    pub(crate) fast_open_ignored: bool,
    /// By direction: a probe of a closed window was sent.
    pub(crate) window_probe: [bool; 2],
    /// All flags of its packets.
    pub(crate) flags: u8,
    pub(crate) first_data: FirstData,
    pub(crate) depth: u32,
    /// By direction of the data they send: the client, the server.
    pub(crate) sides: [Side; 2],
    pub(crate) queue: Queue,
    pub(crate) memory: Arc<Memory>,
    /// What was counted for this session in `memory`.
    pub(crate) counted_reassembly: u64,
    pub(crate) counted_queue: u64,
}

/// Handshakes that wait for an answer, in order; in a box, because most sessions have none.
#[derive(Debug, Default)]
pub(crate) struct Queue(Option<Box<Entries>>);

#[derive(Debug, Default)]
struct Entries(Vec<Handshake>);

impl Queue {
    pub(crate) fn push(&mut self, entry: Handshake) {
        self.0.get_or_insert_default().0.push(entry);
    }

    pub(crate) fn remove_first(&mut self) {
        if let Some(entries) = self.0.as_mut().filter(|entries| !entries.0.is_empty()) {
            entries.0.remove(0);
        }
    }
}

impl Deref for Queue {
    type Target = [Handshake];

    fn deref(&self) -> &[Handshake] {
        self.0.as_ref().map_or(&[], |entries| entries.0.as_slice())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.memory.remove_session_bytes(SESSION_BYTES + self.counted_queue);
        self.memory.update_reassembly(self.counted_reassembly, 0);
    }
}

impl Session {
    pub(crate) fn new(memory: Arc<Memory>, depth: u32, raw: bool) -> Self {
        memory.add_session_bytes(SESSION_BYTES);
        let side = || Side { no_raw: !raw, ..Side::default() };
        Self {
            state: State::None,
            previous: State::None,
            midstream: false,
            midstream_established: false,
            midstream_synack: false,
            timestamps: false,
            scale_offered: false,
            closed_by_reset: false,
            one_sided: false,
            four_way: false,
            evasion: false,
            sack_offered: false,
            sack: false,
            lossy: false,
            confirmed: false,
            app_disabled: false,
            bypass: false,
            fast_open: false,
            fast_open_ignored: false,
            window_probe: [false; 2],
            flags: 0,
            first_data: FirstData::None,
            depth,
            sides: [side(), side()],
            queue: Queue::default(),
            memory,
            counted_reassembly: 0,
            counted_queue: 0,
        }
    }

    pub(crate) fn side(&self, direction: Direction) -> &Side {
        let [client, server] = &self.sides;
        match direction {
            Direction::ToServer => client,
            Direction::ToClient => server,
        }
    }

    pub(crate) fn side_mut(&mut self, direction: Direction) -> &mut Side {
        let [client, server] = &mut self.sides;
        match direction {
            Direction::ToServer => client,
            Direction::ToClient => server,
        }
    }

    /// The sender of packets in a direction, and the other side.
    pub(crate) fn pair_mut(&mut self, direction: Direction) -> (&mut Side, &mut Side) {
        let [client, server] = &mut self.sides;
        match direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        }
    }

    /// Counts what the streams use now.
    pub(crate) fn count_memory(&mut self) {
        let now = self.sides.iter().map(Side::bytes).sum();
        self.memory.update_reassembly(self.counted_reassembly, now);
        self.counted_reassembly = now;
    }

    /// Forgets the handshake's queue.
    pub(crate) fn clear_queue(&mut self) {
        self.queue = Queue::default();
        self.memory.remove_session_bytes(self.counted_queue);
        self.counted_queue = 0;
    }

    /// Forgets all segments (a flow that is dropped or passed by).
    pub fn release(&mut self) {
        for side in &mut self.sides {
            side.segments.clear();
            side.buffer.clear();
        }
        self.clear_queue();
        self.count_memory();
    }

    /// What Suricata 8 keeps of a session's flags when a SYN without a window scale comes again.
    pub(crate) fn reset_flags_but_scale(&mut self) {
        self.midstream = false;
        self.midstream_established = false;
        self.midstream_synack = false;
        self.timestamps = false;
        self.closed_by_reset = false;
        self.one_sided = false;
        self.four_way = false;
        self.evasion = false;
        self.sack_offered = false;
        self.sack = false;
        self.lossy = false;
        self.confirmed = false;
        self.app_disabled = false;
        self.bypass = false;
        self.fast_open = false;
        self.fast_open_ignored = false;
        self.window_probe = [false; 2];
    }

    /// Swaps client and server.
    pub(crate) fn swap(&mut self) {
        let [client, server] = &mut self.sides;
        std::mem::swap(client, server);
        std::mem::swap(&mut client.urgent, &mut server.urgent);
        if let FirstData::Seen(direction) = self.first_data {
            self.first_data = FirstData::Seen(direction.reverse());
        }
    }

    /// State.
    pub fn state(&self) -> State {
        self.state
    }

    /// All flags of the packets of a direction.
    pub fn flags_of(&self, direction: Direction) -> u8 {
        self.side(direction).flags
    }

    /// All flags of its packets.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Picked up in its middle.
    pub fn is_midstream(&self) -> bool {
        self.midstream
    }

    /// Only one side was seen.
    pub fn is_one_sided(&self) -> bool {
        self.one_sided
    }

    /// Something is missing in the data of a direction.
    pub fn has_gap(&self, direction: Direction) -> bool {
        self.side(direction).gap
    }

    /// The depth is reached in a direction.
    pub fn depth_reached(&self, direction: Direction) -> bool {
        self.side(direction).depth_reached
    }

    /// The most regions that the data of a direction ever had.
    pub fn regions_max(&self, direction: Direction) -> u16 {
        self.side(direction).buffer.regions_max()
    }

    /// Urgent bytes that were taken out of the data of a direction.
    pub fn urgent_bytes(&self, direction: Direction) -> u16 {
        self.side(direction).urgent
    }

    /// Nothing more is put together in a direction.
    pub fn is_stopped(&self, direction: Direction) -> bool {
        self.side(direction).no_reassembly
    }

    /// There is no application layer any more.
    pub fn is_app_disabled(&self) -> bool {
        self.app_disabled
    }

    /// The next sequence number of a direction, and what the other side's data was acknowledged to.
    pub(crate) fn place(&self, direction: Direction) -> (u32, u32) {
        (self.side(direction).next, self.side(direction.reverse()).acknowledged)
    }

    /// Bytes sent in a direction by sequence numbers (keyword `stream_size`).
    pub fn size(&self, direction: Direction) -> u32 {
        let side = self.side(direction);
        side.next.wrapping_sub(side.isn)
    }

    /// Offset up to which the application layer has consumed a direction.
    pub fn app_progress(&self, direction: Direction) -> u64 {
        self.side(direction).app_progress
    }

    /// Offset of the first byte of a direction that is kept.
    pub fn base_offset(&self, direction: Direction) -> u64 {
        self.side(direction).base_offset()
    }

    /// A reset ended it.
    pub fn is_reset(&self) -> bool {
        self.closed_by_reset
    }

    /// Protocol detection of a direction is completed.
    pub fn is_detected(&self, direction: Direction) -> bool {
        self.side(direction).detected
    }

    /// Ends the application layer, as for a flow whose packets are dropped.
    pub fn disable_app(&mut self) {
        for side in &mut self.sides {
            side.detected = true;
        }
        self.app_disabled = true;
    }

    /// Raw data of a direction is to be inspected at the next packet.
    pub fn trigger_raw(&mut self, direction: Direction) {
        self.side_mut(direction).trigger_raw = true;
    }

    /// Raw inspection shall see so many bytes before the application layer's place again.
    pub fn set_inspect_depth(&mut self, direction: Direction, bytes: u32) {
        self.side_mut(direction).inspect_depth = bytes;
    }

    /// Sets the depth of both directions; only more than before counts, and 0 (no limit).
    pub fn set_depth(&mut self, bytes: u32) {
        if bytes > self.depth || bytes == 0 {
            self.depth = bytes;
        }
    }

    /// Bytes of a direction that are kept, from an offset on up to the next hole.
    pub fn bytes_from(&self, direction: Direction, offset: u64) -> &[u8] {
        match self.side(direction).buffer.read(offset) {
            super::kept::Found::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// Segments that are kept of a direction, with their offsets in it; those not acknowledged
    /// only if `all` (inline, or the flow's end).
    pub fn for_each_segment(
        &self,
        direction: Direction,
        all: bool,
        mut each: impl FnMut(u64, &[u8]),
    ) {
        let side = self.side(direction);
        let limit = side.place_of(side.acknowledged);
        for (segment, stored) in side.segments.iter() {
            if !all && segment.start >= limit {
                break;
            }
            let end = stored.offset + u64::from(stored.len);
            let start = stored.offset.max(side.base_offset());
            each(start, side.buffer.slice(start, end));
        }
    }
}
