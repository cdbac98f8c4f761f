//! QUIC (RFC 9000, RFC 9369) and its forerunner of Google, up to where its keys are no longer
//! those that everybody knows. Each packet is a transaction of its own.

mod frames;
mod header;
mod hello;
mod keys;

use gauntlet_packet::Direction;
use md5::{Digest as _, Md5};

use crate::buffer::{Buffer, Bytes, Engine, Kind, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, row, row_with_aliases, transactions_in};
use crate::text::hex;
use crate::tls::shared::{JA3_HASH, JA3_STRING, JA3S_HASH, JA3S_STRING, JA4_HASH};
use crate::transaction::Transactions;
use frames::{Fragments, Frame};
use header::{Head, Type};
use hello::Greeting;

/// The most packets that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

const FAILED_DECRYPT: u8 = 0;
const ERROR_ON_DATA: u8 = 1;
const FRAGMENT_TOO_LONG: u8 = 3;

const CYU_HASH: Buffer = Buffer::new(rooms::QUIC, 0);
const CYU_STRING: Buffer = Buffer::new(rooms::QUIC, 1);
const SNI: Buffer = Buffer::new(rooms::QUIC, 2);
const USER_AGENT: Buffer = Buffer::new(rooms::QUIC, 3);
const VERSION: Buffer = Buffer::new(rooms::QUIC, 4);

const CLIENT: &[Engine] = &[to_server(Protocol::Quic, 1)];
const BOTH: &[Engine] = &[to_server(Protocol::Quic, 1), to_client(Protocol::Quic, 1)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Quic,
    events: &["failed_decrypt", "error_on_data", "error_on_header", "crypto_frag_too_long"],
    states: TWO_STATES,
    buffers: &[
        row(CYU_HASH, "quic.cyu.hash", Kind::Multi, CLIENT),
        row(CYU_STRING, "quic.cyu.string", Kind::Multi, CLIENT),
        row_with_aliases(SNI, "quic.sni", &["quic_sni"], Kind::Single, CLIENT),
        row_with_aliases(USER_AGENT, "quic.ua", &["quic_ua"], Kind::Single, CLIENT),
        row_with_aliases(VERSION, "quic.version", &["quic_version"], Kind::Single, BOTH),
    ],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[443, 80],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Quic::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    if Head::read(question.bytes).is_some() { Guess::Yes } else { Guess::No }
}

struct Packet {
    direction: Direction,
    head: Head,
    /// Fingerprints of a client of Google's QUIC: their text and its MD5.
    cyu: Vec<(String, String)>,
    sni: Option<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    ja3: Option<(String, String)>,
    ja4: Option<String>,
    extensions: Vec<u16>,
}

/// What is known of one direction.
#[derive(Default)]
struct Side {
    fragments: Fragments,
    /// Its hello was seen: the rest is encrypted with keys that only the two know.
    is_greeted: bool,
}

#[derive(Default)]
struct Quic {
    packets: Transactions<Packet>,
    keys: Option<keys::Initial>,
    sides: [Side; 2],
    has_retried: bool,
}

/// What the frames of a packet say.
#[derive(Default)]
struct Content {
    frames: Vec<Frame>,
    event: Option<u8>,
}

impl Quic {
    fn side(&mut self, direction: Direction) -> &mut Side {
        let [up, down] = &mut self.sides;
        if direction == Direction::ToServer { up } else { down }
    }

    /// Takes a packet, and says what follows it in the datagram; `Err`: nothing can follow.
    fn packet<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Result<&'a [u8], Outcome> {
        let Some((head, at)) = Head::read(bytes) else { return Err(Outcome::Failed) };
        if self.side(direction).is_greeted || head.kind == Type::Short {
            return Err(Outcome::Done);
        }
        let is_initial = head.kind == Type::Initial;
        if self.keys.is_none() && is_initial {
            self.keys = keys::Initial::of(head.version, &head.destination);
        } else if direction == Direction::ToClient
            && self.keys.is_some()
            && head.kind == Type::Retry
            && !self.has_retried
        {
            // The client begins again, with other keys.
            self.side(Direction::ToServer).is_greeted = false;
            self.keys = None;
            self.has_retried = true;
        }
        let end = at + usize::from(head.length);
        let (whole, next) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
        if !is_initial {
            self.add(direction, head, Content::default());
            return Ok(next);
        }
        let payload = whole.get(at..).unwrap_or_default();
        let opened = match &self.keys {
            Some(keys) if !payload.is_empty() => match keys.open(direction, whole, at) {
                Some(opened) => Some(opened),
                None => {
                    let event = Some(FAILED_DECRYPT);
                    self.add(direction, head, Content { event, ..Content::default() });
                    return Err(Outcome::Failed);
                }
            },
            _ => None,
        };
        let fragments = std::mem::take(&mut self.side(direction).fragments);
        let read = frames::read(opened.as_deref().unwrap_or(payload), &fragments);
        let Some(read) = read else {
            let event = Some(ERROR_ON_DATA);
            self.add(direction, head, Content { event, ..Content::default() });
            return Err(Outcome::Failed);
        };
        let side = self.side(direction);
        side.fragments = read.fragments;
        side.is_greeted |= read.frames.iter().any(|frame| matches!(frame, Frame::Hello(_)));
        let event = read.is_too_long.then_some(FRAGMENT_TOO_LONG);
        self.add(direction, head, Content { frames: read.frames, event });
        Ok(next)
    }

    fn add(&mut self, direction: Direction, head: Head, content: Content) {
        if self.packets.len() >= TRANSACTIONS_MAX {
            self.packets.remove(0);
        }
        let packet = Packet::new(direction, head, content.frames);
        let Some(transaction) = self.packets.push(packet) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
        if let Some(event) = content.event {
            transaction.state.event(event);
        }
    }
}

impl Packet {
    fn new(direction: Direction, head: Head, frames: Vec<Frame>) -> Self {
        let mut packet = Self {
            direction,
            head,
            cyu: Vec::new(),
            sni: None,
            user_agent: None,
            ja3: None,
            ja4: None,
            extensions: Vec::new(),
        };
        for frame in frames {
            match frame {
                Frame::Tags(tags) => packet.take_tags(tags),
                Frame::Hello(greeting) => packet.greet(greeting),
            }
        }
        packet
    }

    fn take_tags(&mut self, tags: Vec<frames::Tag>) {
        if let Some(version) = self.head.cyu_version() {
            let names: Vec<&str> = tags.iter().map(|tag| tag.name).collect();
            let text = format!("{version},{}", names.join("-"));
            let hash = hex(&Md5::digest(text.as_bytes()));
            self.cyu.push((text, hash));
        }
        for tag in tags {
            match tag.name {
                "SNI" => self.sni = Some(tag.value),
                "UAID" => self.user_agent = Some(tag.value),
                _ => {}
            }
            if self.sni.is_some() && self.user_agent.is_some() {
                break;
            }
        }
    }

    fn greet(&mut self, greeting: Greeting) {
        let hash = hex(&Md5::digest(greeting.ja3.as_bytes()));
        self.ja3 = Some((greeting.ja3, hash));
        if self.direction == Direction::ToServer && greeting.is_client {
            self.ja4 = Some(crate::tls::ja4(&greeting.lists, true));
        }
        self.sni = greeting.sni.or(self.sni.take());
        self.extensions.extend(greeting.extensions);
    }
}

impl Parser for Quic {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        let mut rest = input.bytes;
        while !rest.is_empty() {
            match self.packet(input.direction, rest) {
                Ok(next) => rest = next,
                Err(outcome) => return outcome,
            }
        }
        Outcome::Done
    }

    transactions_in!(packets);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let packet = &self.packets.at(place)?.data;
        let is_client = packet.direction == Direction::ToServer;
        let of_its_side = packet.direction == at.direction;
        match at.buffer {
            CYU_HASH => return Some(Bytes::whole(packet.cyu.get(i)?.1.as_bytes())),
            CYU_STRING => return Some(Bytes::whole(packet.cyu.get(i)?.0.as_bytes())),
            _ if i > 0 => return None,
            _ => {}
        }
        let bytes = match at.buffer {
            SNI => packet.sni.as_deref()?,
            USER_AGENT => packet.user_agent.as_deref()?,
            VERSION if packet.head.is_long => &packet.head.version_bytes,
            JA3_STRING | JA3S_STRING if of_its_side => packet.ja3.as_ref()?.0.as_bytes(),
            JA3_HASH | JA3S_HASH if of_its_side => packet.ja3.as_ref()?.1.as_bytes(),
            JA4_HASH if is_client => packet.ja4.as_ref()?.as_bytes(),
            _ => return None,
        };
        Some(Bytes::whole(bytes))
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.packets.at(place) {
            describe(&transaction.data, fields);
        }
    }
}

fn describe(packet: &Packet, fields: &mut Fields) {
    let mut quic = Fields::default();
    if packet.head.kind != Type::Short {
        quic.text("version", packet.head.version_name().as_bytes());
        if let Some(sni) = &packet.sni {
            quic.text("sni", sni);
        }
        if let Some(agent) = &packet.user_agent {
            quic.text("ua", agent);
        }
    }
    let pair = |text: &str, hash: &str| {
        let mut inner = Fields::default();
        inner.text("hash", hash.as_bytes());
        inner.text("string", text.as_bytes());
        inner
    };
    if !packet.cyu.is_empty() {
        let all = packet.cyu.iter().map(|(text, hash)| Value::Object(pair(text, hash)));
        quic.list("cyu", all.collect());
    }
    if let Some((text, hash)) = &packet.ja3 {
        let is_client = packet.direction == Direction::ToServer;
        quic.object(if is_client { "ja3" } else { "ja3s" }, pair(text, hash));
    }
    if let Some(ja4) = &packet.ja4 {
        quic.text("ja4", ja4.as_bytes());
    }
    if !packet.extensions.is_empty() {
        let all = packet.extensions.iter().map(|kind| {
            let mut inner = Fields::default();
            inner.number("type", i64::from(*kind));
            Value::Object(inner)
        });
        quic.list("extensions", all.collect());
    }
    fields.object("quic", quic);
}

#[cfg(test)]
mod tests;
