//! Frames (RFC 9113 section 4.1).

use super::hpack::Field;

/// Bytes of a frame's header.
pub(super) const HEADER_LEN: usize = 9;

/// Types of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const GO_AWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub(super) mod flag {
    pub(crate) const END_STREAM: u8 = 0x01;
    pub(crate) const END_HEADERS: u8 = 0x04;
    pub(crate) const PADDED: u8 = 0x08;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// A frame's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub reserved: bool,
    pub stream: u32,
}

impl Header {
    /// Reads it, if it is there.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, w, x, y, z] = *bytes.first_chunk::<HEADER_LEN>()?;
        let stream = u32::from_be_bytes([w, x, y, z]);
        Some(Self {
            len: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind,
            flags,
            reserved: stream >> 31 != 0,
            stream: stream & 0x7fff_ffff,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What a frame carries, as far as rules ask.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    /// Weight.
    Priority(u8),
    /// Error code.
    GoAway(u32),
    /// Error code.
    Reset(u32),
    /// Identifiers and values.
    Settings(Vec<(u16, u32)>),
    /// Increment.
    WindowUpdate(u32),
    /// Fields, and the weight if there is one.
    Headers(Vec<Field>, Option<u8>),
    /// Fields, and the stream that is promised.
    Promise(Vec<Field>, u32),
    /// More fields.
    Continuation(Vec<Field>),
    /// Nothing that is kept.
    Other,
}

impl Payload {
    /// Header fields in it.
    pub(super) fn fields(&self) -> &[Field] {
        match self {
            Payload::Headers(fields, _)
            | Payload::Promise(fields, _)
            | Payload::Continuation(fields) => fields,
            _ => &[],
        }
    }
}

/// A frame that was seen.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub kind: u8,
    pub payload: Payload,
}

/// Four bytes as a number.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// Settings (section 6.5.1): up to the first that is not known.
pub(super) fn settings(bytes: &[u8]) -> Vec<(u16, u32)> {
    let mut list = Vec::new();
    for setting in bytes.chunks_exact(6) {
        let [a, b, rest @ ..] = setting else { break };
        let id = u16::from_be_bytes([*a, *b]);
        let Some(value) = number(rest) else { break };
        if !matches!(id, 1..=6 | 8 | 9) {
            break;
        }
        list.push((id, value));
    }
    list
}
