//! IMAP (RFC 9051): recognised, not parsed. Its bytes are followed if messages in it are wanted
//! ([`crate::mail`]).

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::parser::{At, Input, Module, Outcome, Parser, Pattern, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::tables::{TWO_STATES, stream_begins};
use crate::transaction::State;

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
    make: |settings, _| settings.mail.as_ref().map(|_| Box::new(Unparsed) as Box<dyn Parser>),
};

/// Takes all bytes, and has no transactions.
struct Unparsed;

impl Parser for Unparsed {
    fn parse(&mut self, _: Input<'_>, _: &mut Wishes) -> Outcome {
        Outcome::Done
    }

    fn count(&self) -> usize {
        0
    }

    fn state(&self, _: usize) -> Option<&State> {
        None
    }

    fn state_mut(&mut self, _: usize) -> Option<&mut State> {
        None
    }

    fn remove(&mut self, _: usize) {}

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }
}
