//! What takes the data of streams: the layer of application protocols.
//!
//! The stream engine calls [`StreamSink::data`] with bytes in order and obeys the [`Orders`] that
//! come back. Bytes that were not consumed come again, with what has arrived since.

use crate::address::Direction;

use super::state::State;

/// The side of a stream that a packet updated, as later stages want to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update {
    /// Nothing came to the application layer.
    #[default]
    None,
    /// Data of the packet's own direction.
    Packet,
    /// Data of the other direction, that this packet acknowledged.
    Opposing,
    /// Both.
    Both,
}

/// What is known of a session when its data comes to the application layer.
#[derive(Debug, Clone, Copy)]
pub struct SessionView {
    /// State of the session.
    pub state: State,
    /// Picked up in its middle.
    pub midstream: bool,
    /// Picked up at the SYN/ACK.
    pub midstream_synack: bool,
    /// By direction: protocol detection was completed ([`Orders::detection_completed`]).
    pub detected: [bool; 2],
    /// The direction in which data came first, until [`Orders::first_data_handled`].
    pub first_data: Option<Direction>,
    /// [`Orders::first_data_handled`] was given.
    pub first_data_handled: bool,
    /// Bytes by direction that protocol detection could see.
    pub available: [u32; 2],
    /// Windows of the receivers by direction of the data's sender, scaled.
    pub windows: [u32; 2],
    /// By direction: reassembly was stopped.
    pub stopped: [bool; 2],
    /// The packet is made up at the end of the flow.
    pub pseudo: bool,
}

/// Data that comes to the application layer.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Which way the data went.
    pub direction: Direction,
    /// The bytes; empty of a gap, and when only `end` is to be said.
    pub bytes: &'a [u8],
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// So many bytes are missing; `bytes` is empty.
    pub gap: Option<u32>,
    /// Protocol detection has not been completed in this direction.
    pub start: bool,
    /// No data will follow.
    pub end: bool,
    /// The stream's depth is reached; no data will follow.
    pub depth: bool,
    /// Whose data it is, seen from the packet.
    pub update: Update,
    /// Called again after [`Orders::opposing_first`]: whether the other side's data could not be
    /// had, because its reassembly was stopped.
    pub resumed: Option<bool>,
    /// The session.
    pub session: SessionView,
}

/// What the application layer has done with a chunk, and what the stream engine shall do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Orders {
    /// Bytes (of a gap, too) that are done with; the rest comes again. 0: nothing changes.
    pub consumed: u32,
    /// Do not call before so many bytes are there (counted from what was not consumed).
    pub needed: u32,
    /// What was done with waits for more bytes before anything is known of it: no more is given in
    /// this call, and no gap behind it.
    pub waiting: bool,
    /// Something went wrong: no more is given in this call.
    pub failed: bool,
    /// What went wrong is an error of the protocol's parser: `app-layer.error-policy` holds.
    pub parser_failed: bool,
    /// The application layer was changed by it: later stages look at transactions
    /// (`app_update_direction`).
    pub updated: bool,
    /// Protocol detection of this direction is completed, or is to begin again.
    pub detection_completed: Option<bool>,
    /// Protocol detection of both directions is to begin again (change of protocol).
    pub detection_reset: bool,
    /// Data in both directions is expected now: forget who spoke first.
    pub first_data_handled: bool,
    /// Hand over the other side's data first, then call with [`Chunk::resumed`].
    pub opposing_first: bool,
    /// The client is the server: swap the flow. Chunks are from now on seen the other way round.
    pub swap: bool,
    /// No application layer in this session any more.
    pub disable: bool,
    /// Depth of both directions from now on; 0: no limit.
    pub depth: Option<u32>,
    /// No reassembly in this direction, both directions, any more.
    pub stop: [bool; 2],
    /// No raw inspection of new data by direction.
    pub no_raw: [bool; 2],
    /// Inspect raw data by direction at once, not when a chunk is full.
    pub trigger_raw: [bool; 2],
    /// Bytes before the application layer's place that raw inspection shall see again.
    pub inspect_depth: [Option<u32>; 2],
    /// The flow is to be passed by.
    pub bypass: bool,
    /// The protocol is changing (STARTTLS, CONNECT): end this call; flush before what follows. To
    /// be said with every chunk until the new protocol is known.
    pub protocol_changes: bool,
}

impl Orders {
    /// All of a chunk is done with.
    pub fn consumed(chunk: &Chunk<'_>) -> Self {
        Self {
            consumed: chunk
                .gap
                .unwrap_or_else(|| u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX)),
            updated: true,
            ..Self::default()
        }
    }
}

/// Takes the data of streams.
pub trait StreamSink {
    /// Data, a gap, or the end of a direction.
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders;
}

/// A sink that consumes everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl StreamSink for Discard {
    fn data(&mut self, chunk: &Chunk<'_>) -> Orders {
        Orders::consumed(chunk)
    }
}
