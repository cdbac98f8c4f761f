//! HTTP/2 (RFC 9113): frames, compressed header fields, streams as transactions.

pub(crate) mod buffers;
mod doh;
mod event;
mod frame;
mod hpack;
mod huffman;
mod record;
mod session;
mod stream;

use gauntlet_packet::Direction;

use crate::buffer::{Bytes, Number};
use crate::parser::{
    At, Flow, Guess, Input, Module, Outcome, Parser, Pattern, Probe, Question, Wishes,
};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
pub use crate::settings::http2::Settings;
use crate::transaction::State;
use frame::{HEADER_LEN, Header, kind};
use session::Session;

/// HTTP/2.
pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Http2,
    events: event::NAMES,
    states: [STATES, STATES],
    buffers: buffers::BUFFERS,
    numbers: buffers::NUMBERS,
    patterns: &[Pattern {
        carrier: Carrier::Tcp,
        direction: Direction::ToServer,
        bytes: b"PRI * HTTP/2.0\r\n",
        case: false,
        offset: 0,
        depth: 16,
        confirm: None,
    }],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[80],
        direction: Direction::ToServer,
        min: 9,
        max: 24,
        to_port: None,
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make,
};

const STATES: &[&str] = &[
    "idle",
    "open",
    "reserved",
    "data_client",
    "half_closed_client",
    "data_server",
    "half_closed_server",
    "closed",
];

/// The longest frame before settings say otherwise.
const FRAME_MAX: usize = 16_384;

/// A server begins with its settings.
fn probe(question: &Question<'_>) -> Guess {
    if question.bytes.len() < HEADER_LEN {
        return Guess::Unsure;
    }
    match Header::read(question.bytes) {
        Some(header) if header.kind == kind::SETTINGS => {
            let odd = header.reserved || header.len > FRAME_MAX || header.flags & 0xfe != 0;
            if odd { Guess::No } else { Guess::Yes }
        }
        _ => Guess::No,
    }
}

struct Http2(Session);

fn make(settings: &crate::Settings, _: &Flow) -> Option<Box<dyn Parser>> {
    let doh = !settings.disabled.contains(&Protocol::Doh2);
    Some(Box::new(Http2(Session::new(settings.http2.clone(), settings.hashes, doh))))
}

impl Parser for Http2 {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() {
            return Outcome::Done;
        }
        self.0.parse(input, wishes)
    }

    fn count(&self) -> usize {
        self.0.streams.len()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.0.streams.at(place).map(|stream| &stream.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.0.streams.at_mut(place).map(|stream| &mut stream.state)
    }

    fn remove(&mut self, place: usize) {
        self.0.streams.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let stream = &self.0.streams.at(place)?.data;
        let message = stream.doh.message(at.direction);
        let carried = message.and_then(|message| message.buffer(at.buffer, at.direction, i));
        carried.or_else(|| buffers::buffer(stream, at, i))
    }

    fn number(&self, place: usize, number: Number, direction: Direction, i: usize) -> Option<i64> {
        let stream = &self.0.streams.at(place)?.data;
        let message = stream.doh.message(direction);
        let carried = message.and_then(|message| message.number(number, direction, i));
        carried.or_else(|| buffers::number(stream, number, direction, i))
    }

    fn carries_dns(&self, place: usize, direction: Direction) -> bool {
        let stream = self.0.streams.at(place);
        stream.is_some_and(|stream| stream.data.doh.message(direction).is_some())
    }

    fn replaces(&mut self, before: &dyn Parser) {
        let Some(upgrade) = before.upgrade() else { return };
        if upgrade.method.is_empty() {
            return;
        }
        let mut fields = vec![(b":method".to_vec(), upgrade.method)];
        if !upgrade.uri.is_empty() {
            fields.push((b":path".to_vec(), upgrade.uri));
        }
        let mut settings = Vec::new();
        for (name, value) in upgrade.headers {
            if name == b"HTTP2-Settings" {
                settings.push(value);
            } else if name.eq_ignore_ascii_case(b"host") {
                fields.push((b":authority".to_vec(), value));
            } else {
                fields.push((name, value));
            }
        }
        // The request is the first transaction: it began before its settings did.
        self.0.begin_with(fields);
        for value in settings {
            self.0.begin_with_settings(&value);
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(stream) = self.0.streams.at(place) {
            record::write(&stream.data, fields);
            for way in [Direction::ToServer, Direction::ToClient] {
                if let Some(message) = stream.data.doh.message(way) {
                    message.record(stream.state.id, fields);
                }
            }
        }
    }
}
