//! WebSocket (RFC 6455) after an upgrade of HTTP/1, with compression (RFC 7692). Each frame is a
//! transaction of its own; the last one of a message has all of its payload.

use flate2::{Decompress, FlushDecompress, Status};
use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::Transactions;

/// The most frames that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

/// The most bytes of a payload that are looked at.
const PAYLOAD_BYTES_MAX: usize = 0xffff;

const FIN: u8 = 0x80;
const COMPRESSED: u8 = 0x40;

/// Control frames begin here.
const CONTROL: u8 = 8;

const SKIP_END: u8 = 0;
const LIMIT_REACHED: u8 = 1;

const PAYLOAD: Buffer = Buffer::new(rooms::WEBSOCKET, 0);
const OPCODE: Number = Number::new(rooms::WEBSOCKET, 0);
const MASK: Number = Number::new(rooms::WEBSOCKET, 1);
const FLAGS: Number = Number::new(rooms::WEBSOCKET, 2);

const BOTH: &[Engine] = &[to_server(Protocol::Websocket, 0), to_client(Protocol::Websocket, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Websocket,
    events: &["skip_end_of_payload", "reassembly_limit_reached"],
    states: TWO_STATES,
    buffers: &[row(PAYLOAD, "websocket.payload", Kind::Single, BOTH)],
    numbers: &[
        number_row(OPCODE, "websocket.opcode", BOTH),
        number_row(MASK, "websocket.mask", BOTH),
        number_row(FLAGS, "websocket.flags", BOTH),
    ],
    patterns: &[],
    // On no port: only where an upgrade names it.
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Websocket::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    match question.bytes.first() {
        None => Guess::Unsure,
        Some(first) if first & 0x30 == 0 => Guess::Yes,
        Some(_) => Guess::No,
    }
}

struct Frame {
    flags: u8,
    opcode: u8,
    mask: Option<u32>,
    payload: Vec<u8>,
    /// Bytes of the payload that are not looked at.
    skip: u64,
    head_bytes: usize,
    frame_bytes: usize,
}

fn read(bytes: &[u8]) -> Option<Frame> {
    let mut reader = Reader::new(bytes);
    let first = reader.u8()?;
    let second = reader.u8()?;
    let length = match second & 0x7f {
        126 => u64::from(reader.be16()?),
        127 => reader.be64()?,
        short => u64::from(short),
    };
    let mask = if second & 0x80 != 0 { Some(reader.array::<4>()?) } else { None };
    let head_bytes = reader.position();
    let taken = length.min(PAYLOAD_BYTES_MAX as u64);
    let mut payload = reader.take(usize::try_from(taken).ok()?)?.to_vec();
    if let Some(mask) = mask {
        for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= key;
        }
    }
    Some(Frame {
        flags: first & 0xf0,
        opcode: first & 0x0f,
        mask: mask.map(u32::from_be_bytes),
        payload,
        skip: length - taken,
        head_bytes,
        frame_bytes: reader.position(),
    })
}

#[derive(Default)]
struct Side {
    skip: u64,
    inflate: Option<Decompress>,
    message: Vec<u8>,
    is_compressed: bool,
}

impl Side {
    /// Gathers a message's frames; whether the limit was reached.
    fn gather(&mut self, frame: &Frame) -> bool {
        if frame.opcode >= CONTROL || (self.message.is_empty() && frame.flags & FIN != 0) {
            return false;
        }
        if self.message.is_empty() {
            self.is_compressed = frame.flags & COMPRESSED != 0;
        }
        let room = PAYLOAD_BYTES_MAX - self.message.len().min(PAYLOAD_BYTES_MAX);
        let taken = frame.payload.len().min(room);
        self.message.extend_from_slice(frame.payload.get(..taken).unwrap_or_default());
        room > 0 && taken >= room
    }

    /// What the payload was before it was compressed; it stays what it is where that fails.
    fn inflate(&mut self, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&[0, 0, 0xff, 0xff]);
        let Some(inflate) = &mut self.inflate else { return };
        let mut plain = Vec::with_capacity(PAYLOAD_BYTES_MAX);
        let mut rest = payload.as_slice();
        while !rest.is_empty() && plain.len() < PAYLOAD_BYTES_MAX {
            let before = inflate.total_in();
            let made = inflate.decompress_vec(rest, &mut plain, FlushDecompress::Sync);
            let taken = usize::try_from(inflate.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            if taken == 0 || !matches!(made, Ok(Status::Ok)) {
                break;
            }
        }
        if !plain.is_empty() {
            plain.truncate(PAYLOAD_BYTES_MAX);
            *payload = plain;
        }
    }
}

#[derive(Default)]
struct Websocket {
    sides: [Side; 2],
    frames: Transactions<Frame>,
}

impl Websocket {
    fn add(&mut self, direction: Direction, mut frame: Frame, wishes: &mut Wishes) {
        let Some(side) = self.sides.get_mut(direction.index()) else { return };
        side.skip = frame.skip;
        let mut is_compressed = frame.flags & COMPRESSED != 0;
        if is_compressed && side.inflate.is_none() {
            side.inflate = Some(Decompress::new(false));
        }
        let is_last = frame.flags & FIN != 0;
        let is_full = side.gather(&frame);
        if frame.opcode < CONTROL && is_last && !side.message.is_empty() {
            is_compressed = side.is_compressed;
            frame.payload = std::mem::take(&mut side.message);
        }
        if is_compressed && is_last {
            side.is_compressed = false;
            side.inflate(&mut frame.payload);
        }
        if is_last {
            wishes.inspect(direction);
        }
        let is_cut = frame.skip > 0;
        if self.frames.len() >= TRANSACTIONS_MAX {
            self.frames.remove(0);
        }
        let Some(transaction) = self.frames.push(frame) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
        for (is_so, event) in [(is_cut, SKIP_END), (is_full, LIMIT_REACHED)] {
            if is_so {
                transaction.state.event(event);
            }
        }
    }

    fn step_over(&mut self, direction: Direction, available: usize) -> usize {
        let Some(side) = self.sides.get_mut(direction.index()) else { return 0 };
        let taken = usize::try_from(side.skip).unwrap_or(usize::MAX).min(available);
        side.skip -= taken as u64;
        taken
    }
}

impl Parser for Websocket {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut consumed = 0;
        loop {
            consumed += self.step_over(input.direction, input.bytes.len() - consumed);
            let rest = input.bytes.get(consumed..).unwrap_or_default();
            if rest.is_empty() {
                return Outcome::Done;
            }
            let Some(frame) = read(rest) else {
                return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
            };
            // Suricata counts the transactions of frames from 1.
            let id = Some(self.frames.total() + 1);
            let (head, all) = (frame.head_bytes as u64, frame.frame_bytes as u64);
            wishes.open_frame("header", consumed, Some(head), id);
            wishes.open_frame("pdu", consumed, Some(all), id);
            wishes.open_frame("data", consumed + frame.head_bytes, Some(all - head), id);
            consumed += frame.frame_bytes;
            self.add(input.direction, frame, wishes);
        }
    }

    transactions_in!(frames);

    fn buffer(&self, place: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        Some(Bytes::whole(&self.frames.at(place)?.data.payload))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let frame = &self.frames.at(place)?.data;
        let value = match number {
            OPCODE => i64::from(frame.opcode),
            MASK => i64::from(frame.mask?),
            FLAGS => i64::from(frame.flags),
            _ => return None,
        };
        (i == 0).then_some(value)
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.frames.at(place) else { return };
        let frame = &transaction.data;
        let mut websocket = Fields::default();
        websocket.truth("fin", frame.flags & FIN != 0);
        if let Some(mask) = frame.mask {
            websocket.number("mask", i64::from(mask));
        }
        let name = match frame.opcode {
            0 => "continuation".to_owned(),
            1 => "text".to_owned(),
            2 => "binary".to_owned(),
            8 => "connection_close".to_owned(),
            9 => "ping".to_owned(),
            10 => "pong".to_owned(),
            other => format!("unknown-{other}"),
        };
        websocket.text("opcode", name.as_bytes());
        fields.object("websocket", websocket);
    }
}
