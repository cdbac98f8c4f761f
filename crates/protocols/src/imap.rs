//! IMAP (RFC 9051): recognised, not parsed.

use gauntlet_packet::Direction;

use crate::parser::{Module, Pattern};
use crate::protocol::{Carrier, Protocol};
use crate::tables::{TWO_STATES, stream_begins};

/// Where in a client's first line the command may end; before it is a tag of a few bytes.
const COMMAND_DEPTH: u16 = 17;

const DOWN: Direction = Direction::ToClient;

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Imap,
    events: &[],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[],
    patterns: &[
        stream_begins(DOWN, b"* OK "),
        stream_begins(DOWN, b"* NO "),
        stream_begins(DOWN, b"* BAD "),
        stream_begins(DOWN, b"* LIST "),
        stream_begins(DOWN, b"* ESEARCH "),
        stream_begins(DOWN, b"* STATUS "),
        stream_begins(DOWN, b"* FLAGS "),
        Pattern {
            carrier: Carrier::Tcp,
            direction: Direction::ToServer,
            bytes: b" CAPABILITY",
            case: false,
            offset: 0,
            depth: COMMAND_DEPTH,
            confirm: None,
        },
    ],
    probes: &[],
    accepts_gaps: false,
    first: None,
    make: |_, _| None,
};
