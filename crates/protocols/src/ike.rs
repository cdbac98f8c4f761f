//! IKE 1 (RFC 2408, 2409) and 2 (RFC 7296) over UDP. Each message is a transaction of its own.

mod v1;
mod v2;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::Transactions;

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 1024;

/// Exchanges of version 2.
const EXCHANGES_V2: std::ops::RangeInclusive<u8> = 34..=37;

/// Of version 2: sent by who began.
const INITIATOR: u8 = 8;

mod event {
    pub(super) const NO_ENCRYPTION: u8 = 1;
    pub(super) const WEAK_ENCRYPTION: u8 = 2;
    pub(super) const WEAK_PRF: u8 = 3;
    pub(super) const WEAK_DH: u8 = 4;
    pub(super) const WEAK_AUTHENTICATION: u8 = 5;
    pub(super) const NO_DH: u8 = 6;
    pub(super) const NO_AUTHENTICATION: u8 = 7;
    pub(super) const INVALID_PROPOSAL: u8 = 8;
    pub(super) const UNKNOWN_PROPOSAL: u8 = 9;
    pub(super) const EXTRA_DATA: u8 = 10;
    pub(super) const MULTIPLE_SERVER_PROPOSALS: u8 = 11;
}

const INITIATOR_SPI: Buffer = Buffer::new(rooms::IKE, 0);
const RESPONDER_SPI: Buffer = Buffer::new(rooms::IKE, 1);
const NONCE: Buffer = Buffer::new(rooms::IKE, 2);
const KEY_EXCHANGE: Buffer = Buffer::new(rooms::IKE, 3);
const VENDOR: Buffer = Buffer::new(rooms::IKE, 4);
const EXCHANGE: Number = Number::new(rooms::IKE, 0);
const NONCE_LENGTH: Number = Number::new(rooms::IKE, 1);
const KEY_EXCHANGE_LENGTH: Number = Number::new(rooms::IKE, 2);
const CHOSEN: Number = Number::new(rooms::IKE, 3);

/// The number of an attribute of the chosen proposal is that of the attribute (RFC 2409, appendix
/// A) behind this place.
const ATTRIBUTES: u8 = 16;

const SERVER: &[Engine] = &[to_server(Protocol::Ike, 1)];
const CLIENT: &[Engine] = &[to_client(Protocol::Ike, 1)];
const BOTH: &[Engine] = &[to_server(Protocol::Ike, 1), to_client(Protocol::Ike, 1)];

/// A row of the attributes that `ike.chosen_sa_attribute:name=value` asks for.
const fn attribute(kind: u8, name: &'static str) -> crate::buffer::NumberSpec {
    number_row(Number::new(rooms::IKE, ATTRIBUTES + kind), name, CLIENT)
}

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Ike,
    events: &[
        "malformed_data",
        "no_encryption",
        "weak_crypto_enc",
        "weak_crypto_prf",
        "weak_crypto_dh",
        "weak_crypto_auth",
        "weak_crypto_no_dh",
        "weak_crypto_no_auth",
        "invalid_proposal",
        "unknown_proposal",
        "payload_extra_data",
        "multiple_server_proposal",
    ],
    states: TWO_STATES,
    buffers: &[
        row(INITIATOR_SPI, "ike.init_spi", Kind::Single, SERVER),
        row(RESPONDER_SPI, "ike.resp_spi", Kind::Single, CLIENT),
        row(NONCE, "ike.nonce_payload", Kind::Single, BOTH),
        row(KEY_EXCHANGE, "ike.key_exchange_payload", Kind::Single, BOTH),
        row(VENDOR, "ike.vendor", Kind::Multi, SERVER),
    ],
    numbers: &[
        number_row(EXCHANGE, "ike.exchtype", BOTH),
        number_row(NONCE_LENGTH, "ike.nonce_payload_length", BOTH),
        number_row(KEY_EXCHANGE_LENGTH, "ike.key_exchange_payload_length", BOTH),
        number_row(CHOSEN, "ike.chosen_sa_attribute", CLIENT),
        attribute(1, "ike.chosen_sa_attribute:alg_enc"),
        attribute(2, "ike.chosen_sa_attribute:alg_hash"),
        attribute(3, "ike.chosen_sa_attribute:alg_auth"),
        attribute(4, "ike.chosen_sa_attribute:alg_dh"),
        attribute(5, "ike.chosen_sa_attribute:sa_group_type"),
        attribute(6, "ike.chosen_sa_attribute:sa_group_prime"),
        attribute(7, "ike.chosen_sa_attribute:sa_group_generator_one"),
        attribute(8, "ike.chosen_sa_attribute:sa_group_generator_two"),
        attribute(9, "ike.chosen_sa_attribute:sa_group_curve_a"),
        attribute(10, "ike.chosen_sa_attribute:sa_group_curve_b"),
        attribute(11, "ike.chosen_sa_attribute:sa_life_type"),
        attribute(12, "ike.chosen_sa_attribute:sa_life_duration"),
        attribute(13, "ike.chosen_sa_attribute:alg_prf"),
        attribute(14, "ike.chosen_sa_attribute:sa_key_length"),
        attribute(15, "ike.chosen_sa_attribute:sa_field_size"),
        attribute(16, "ike.chosen_sa_attribute:sa_group_order"),
    ],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[500],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Ike::default())),
};

#[derive(Debug, Clone, Copy)]
struct Head {
    initiator: u64,
    responder: u64,
    next: u8,
    version: (u8, u8),
    exchange: u8,
    flags: u8,
    id: u32,
    length: u32,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader::new(bytes);
        let (initiator, responder) = (reader.be64()?, reader.be64()?);
        let (next, version) = (reader.u8()?, reader.u8()?);
        let (exchange, flags) = (reader.u8()?, reader.u8()?);
        let (id, length) = (reader.be32()?, reader.be32()?);
        let version = (version >> 4, version & 15);
        let head = Self { initiator, responder, next, version, exchange, flags, id, length };
        Some((head, reader.rest()))
    }
}

fn probe(question: &Question<'_>) -> Guess {
    let Some((head, _)) = Head::read(question.bytes) else { return Guess::No };
    let is_known = match head.version {
        (1, _) => true,
        (2, 0) => {
            let length = usize::try_from(head.length).unwrap_or(usize::MAX);
            EXCHANGES_V2.contains(&head.exchange) && length == question.bytes.len()
        }
        _ => false,
    };
    match (is_known, head.responder, question.direction) {
        (false, ..) => Guess::No,
        (true, 0, Direction::ToClient) => Guess::Reversed,
        (true, ..) => Guess::Yes,
    }
}

struct Message {
    direction: Direction,
    head: Head,
    initiator: String,
    responder: String,
    /// Kinds of payloads.
    payloads: Vec<u8>,
    body: Body,
}

enum Body {
    V1(v1::Body),
    V2(v2::Body),
}

#[derive(Default)]
struct Ike {
    messages: Transactions<Message>,
    /// Transforms that the server has chosen so far.
    chosen: usize,
}

impl Ike {
    fn message(&mut self, direction: Direction, head: Head, rest: &[u8]) {
        let (body, payloads, events) = if head.version.0 == 1 {
            let Some(read) = v1::read(&head, rest) else { return };
            self.note_v1(direction, &read);
            (Body::V1(read.body), read.kinds, Vec::new())
        } else {
            let read = v2::read(&head, rest, direction);
            (Body::V2(read.body), read.kinds, read.events)
        };
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        let (initiator, responder) = (head.initiator, head.responder);
        let message = Message {
            direction,
            head,
            initiator: format!("{initiator:016x}"),
            responder: format!("{responder:016x}"),
            payloads,
            body,
        };
        let Some(transaction) = self.messages.push(message) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
        for event in events {
            transaction.state.event(event);
        }
    }

    /// Events of version 1 belong to the message before.
    fn note_v1(&mut self, direction: Direction, read: &v1::Read) {
        if read.is_encrypted {
            return;
        }
        let mut events = Vec::new();
        if direction == Direction::ToClient {
            if read.kinds.contains(&v1::SECURITY_ASSOCIATION) {
                self.chosen = 0;
            }
            let new = read.body.transforms.len();
            if self.chosen <= 1 && self.chosen + new > 1 {
                events.push(event::MULTIPLE_SERVER_PROPOSALS);
            }
            self.chosen += new;
        }
        if read.has_extra {
            events.push(event::EXTRA_DATA);
        }
        if let Some(last) = self.messages.last_mut() {
            for event in events {
                last.state.event(event);
            }
        }
    }
}

impl Parser for Ike {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() {
            return Outcome::Done;
        }
        match Head::read(input.bytes) {
            Some((head, rest)) if matches!(head.version.0, 1 | 2) => {
                self.message(input.direction, head, rest);
                Outcome::Done
            }
            _ => Outcome::Failed,
        }
    }

    transactions_in!(messages);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let message = &self.messages.at(place)?.data;
        match at.buffer {
            INITIATOR_SPI => return Some(Bytes::whole(message.initiator.as_bytes())),
            RESPONDER_SPI => return Some(Bytes::whole(message.responder.as_bytes())),
            _ => {}
        }
        let Body::V1(body) = &message.body else { return None };
        match at.buffer {
            VENDOR => Some(Bytes::whole(body.vendors.get(i)?.as_bytes())),
            NONCE if !body.nonce.is_empty() => Some(Bytes::whole(&body.nonce)),
            KEY_EXCHANGE if !body.key_exchange.is_empty() => Some(Bytes::whole(&body.key_exchange)),
            _ => None,
        }
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let message = &self.messages.at(place)?.data;
        if i != 0 {
            return None;
        }
        if number == EXCHANGE {
            return Some(i64::from(message.head.exchange));
        }
        let length = |bytes: &[u8]| i64::try_from(bytes.len()).ok().filter(|length| *length > 0);
        match (&message.body, number) {
            (Body::V1(body), NONCE_LENGTH) => length(&body.nonce),
            (Body::V1(body), KEY_EXCHANGE_LENGTH) => length(&body.key_exchange),
            (_, Number { place, .. }) if place > ATTRIBUTES => {
                let kind = place - ATTRIBUTES;
                match &message.body {
                    Body::V1(body) => body.chosen(kind).map(i64::from),
                    Body::V2(body) => body.chosen(kind).map(i64::from),
                }
            }
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.messages.at(place) {
            describe(&transaction.data, fields);
        }
    }
}

fn describe(message: &Message, fields: &mut Fields) {
    let mut ike = Fields::default();
    let head = &message.head;
    ike.number("version_major", i64::from(head.version.0));
    ike.number("version_minor", i64::from(head.version.1));
    ike.text("init_spi", message.initiator.as_bytes());
    ike.text("resp_spi", message.responder.as_bytes());
    ike.number("message_id", i64::from(head.id));
    ike.number("exchange_type", i64::from(head.exchange));
    if head.version.0 == 2 {
        let is_initiator = head.flags & INITIATOR != 0;
        ike.text("role", if is_initiator { b"initiator" } else { b"responder" });
    }
    let names = match message.body {
        Body::V1(_) => v1::payload_name,
        Body::V2(_) => v2::payload_name,
    };
    let payloads = message.payloads.iter().filter_map(|kind| names(*kind));
    ike.list("payload", payloads.map(|name| Value::Text(name.to_owned())).collect());
    match &message.body {
        Body::V1(body) => body.describe(message.direction, &mut ike),
        Body::V2(body) => body.describe(&mut ike),
    }
    fields.object("ike", ike);
}

#[cfg(test)]
mod tests;
