//! DNS over UDP and TCP (RFC 1035, 7766), and multicast DNS (RFC 6762).
//!
//! Each message is a transaction of its own: a request is looked at to the server, a response to
//! the client; those of multicast DNS all to the server. Messages that cannot be read are an event
//! of the transaction before them.

pub(crate) mod carried;
mod names;
mod record;
pub mod wire;

use gauntlet_packet::Direction;

pub use names::{RECORD_TYPES, RESPONSE_CODES};

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{
    At, Flow, Guess, Input, Module, Outcome, Parser, Probe, Question as Asked, Wishes,
};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, row_with_aliases, transactions_in};
use crate::transaction::Transactions;
use wire::{Header, Message, Record};

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

const EVENTS: &[&str] = &[
    "malformed_data",
    "not_request",
    "not_response",
    "z_flag_set",
    "invalid_opcode",
    "name_too_long",
    "infinite_loop",
    "too_many_labels",
    "invalid_additionals",
    "invalid_authorities",
];
const MALFORMED_DATA: u8 = 0;
const NOT_REQUEST: u8 = 1;
const NOT_RESPONSE: u8 = 2;
const Z_FLAG_SET: u8 = 3;
const INVALID_OPCODE: u8 = 4;
const NAME_TOO_LONG: u8 = 5;
const INFINITE_LOOP: u8 = 6;
const TOO_MANY_LABELS: u8 = 7;
const INVALID_ADDITIONALS: u8 = 8;
const INVALID_AUTHORITIES: u8 = 9;

const QUERY: Buffer = Buffer::new(rooms::DNS, 0);
const QUERY_NAME: Buffer = Buffer::new(rooms::DNS, 1);
const ANSWER_NAME: Buffer = Buffer::new(rooms::DNS, 2);
const QUERIES: Buffer = Buffer::new(rooms::DNS, 3);
const ANSWERS: Buffer = Buffer::new(rooms::DNS, 4);
const AUTHORITIES: Buffer = Buffer::new(rooms::DNS, 5);
const ADDITIONALS: Buffer = Buffer::new(rooms::DNS, 6);
const RESPONSE: Buffer = Buffer::new(rooms::DNS, 7);

const MDNS_QUERIES: Buffer = Buffer::new(rooms::MDNS, 0);
const MDNS_ANSWERS: Buffer = Buffer::new(rooms::MDNS, 1);
const MDNS_AUTHORITIES: Buffer = Buffer::new(rooms::MDNS, 2);
const MDNS_ADDITIONALS: Buffer = Buffer::new(rooms::MDNS, 3);
const MDNS_RESPONSE: Buffer = Buffer::new(rooms::MDNS, 4);

const OPCODE: Number = Number::new(rooms::DNS, 0);
const RCODE: Number = Number::new(rooms::DNS, 1);
const RRTYPE: Number = Number::new(rooms::DNS, 2);

const BOTH: &[Engine] = &[
    to_server(Protocol::Dns, 1),
    to_client(Protocol::Dns, 1),
    to_server(Protocol::Doh2, 1),
    to_client(Protocol::Doh2, 1),
];
const NUMBERS: &[Engine] = &[
    to_server(Protocol::Dns, 0),
    to_client(Protocol::Dns, 0),
    to_server(Protocol::Doh2, 0),
    to_client(Protocol::Doh2, 0),
];
const REQUESTS: &[Engine] = &[to_server(Protocol::Dns, 1), to_server(Protocol::Doh2, 1)];
const RESPONSES: &[Engine] = &[to_client(Protocol::Dns, 1), to_client(Protocol::Doh2, 1)];
const MDNS_BOTH: &[Engine] = &[to_server(Protocol::Mdns, 1), to_client(Protocol::Mdns, 1)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Dns,
    events: EVENTS,
    states: TWO_STATES,
    buffers: &[
        row_with_aliases(QUERY, "dns.query", &["dns_query"], Kind::Multi, REQUESTS),
        row(QUERY_NAME, "dns.query.name", Kind::Multi, BOTH),
        row(ANSWER_NAME, "dns.answer.name", Kind::Multi, BOTH),
        row(QUERIES, "dns.queries.rrname", Kind::Multi, BOTH),
        row(ANSWERS, "dns.answers.rrname", Kind::Multi, BOTH),
        row(AUTHORITIES, "dns.authorities.rrname", Kind::Multi, BOTH),
        row(ADDITIONALS, "dns.additionals.rrname", Kind::Multi, BOTH),
        row(RESPONSE, "dns.response.rrname", Kind::Multi, RESPONSES),
    ],
    numbers: &[
        number_row(OPCODE, "dns.opcode", NUMBERS),
        number_row(RCODE, "dns.rcode", NUMBERS),
        number_row(RRTYPE, "dns.rrtype", NUMBERS),
    ],
    patterns: &[],
    probes: &[
        Probe {
            carrier: Carrier::Udp,
            ports: &[53],
            direction: Direction::ToServer,
            min: 0,
            max: 12,
            to_port: Some(probe_datagram),
            from_port: Some(probe_datagram),
        },
        Probe {
            carrier: Carrier::Tcp,
            ports: &[53],
            direction: Direction::ToServer,
            min: 0,
            max: 14,
            to_port: Some(probe_stream),
            from_port: Some(probe_stream),
        },
    ],
    accepts_gaps: true,
    first: None,
    make: |_, flow| Some(Box::new(Dns::new(Variant::Unicast, flow))),
};

pub(crate) static MULTICAST_MODULE: Module = Module {
    protocol: Protocol::Mdns,
    events: EVENTS,
    states: TWO_STATES,
    buffers: &[
        row(MDNS_QUERIES, "mdns.queries.rrname", Kind::Multi, MDNS_BOTH),
        row(MDNS_ANSWERS, "mdns.answers.rrname", Kind::Multi, MDNS_BOTH),
        row(MDNS_AUTHORITIES, "mdns.authorities.rrname", Kind::Multi, MDNS_BOTH),
        row(MDNS_ADDITIONALS, "mdns.additionals.rrname", Kind::Multi, MDNS_BOTH),
        row(MDNS_RESPONSE, "mdns.response.rrname", Kind::Multi, &[to_server(Protocol::Mdns, 1)]),
    ],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[5353],
        direction: Direction::ToServer,
        min: 0,
        max: 12,
        to_port: Some(probe_multicast),
        from_port: Some(probe_multicast),
    }],
    accepts_gaps: true,
    first: None,
    make: |_, flow| Some(Box::new(Dns::new(Variant::Multicast, flow))),
};

/// What the first bytes of a message are taken for.
enum Look {
    Request,
    Response,
    No,
    Short,
}

/// Looks at a message of which `length` bytes are announced.
fn look(bytes: &[u8], length: usize) -> Look {
    let bytes = bytes.get(..length).unwrap_or(bytes);
    let Some(header) = Header::read(&mut Reader::new(bytes)) else { return Look::No };
    let readable = bytes.len() < length || Message::read(bytes).is_some();
    match (readable && header.is_plausible(length), header.is_response()) {
        (false, _) => Look::No,
        (true, false) => Look::Request,
        (true, true) => Look::Response,
    }
}

fn guess(look: &Look, direction: Direction) -> Guess {
    let sender = match look {
        Look::Request => Direction::ToServer,
        Look::Response => Direction::ToClient,
        // Detection gives up by itself when there were enough bytes.
        Look::No | Look::Short => return Guess::Unsure,
    };
    if sender == direction { Guess::Yes } else { Guess::Reversed }
}

fn probe_datagram(asked: &Asked<'_>) -> Guess {
    guess(&look(asked.bytes, asked.bytes.len()), asked.direction)
}

fn probe_stream(asked: &Asked<'_>) -> Guess {
    if asked.bytes.len() < wire::HEADER_BYTES + 2 {
        return Guess::Unsure;
    }
    guess(&look_stream(asked.bytes), asked.direction)
}

fn look_stream(bytes: &[u8]) -> Look {
    let mut reader = Reader::new(bytes);
    match reader.be16() {
        Some(length) => look(reader.rest(), usize::from(length)),
        None => Look::Short,
    }
}

fn probe_multicast(asked: &Asked<'_>) -> Guess {
    match look(asked.bytes, asked.bytes.len()) {
        Look::Request | Look::Response if asked.direction == Direction::ToServer => Guess::Yes,
        Look::Request | Look::Response => Guess::Reversed,
        Look::No | Look::Short => Guess::Unsure,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Unicast,
    Multicast,
}

/// Which half of a transaction a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Request,
    Response,
}

/// A message and what it is.
struct Entry {
    half: Half,
    message: Message,
}

/// The messages of a flow.
struct Dns {
    variant: Variant,
    carrier: Carrier,
    after_gap: bool,
    transactions: Transactions<Entry>,
}

/// Why a message was not taken.
enum Refusal {
    /// The header announces what cannot be.
    Header,
    /// The message is no message.
    Body,
}

impl Dns {
    fn new(variant: Variant, flow: &Flow) -> Self {
        let transactions = Transactions::default();
        Self { variant, carrier: flow.carrier, after_gap: false, transactions }
    }

    fn event(&mut self, event: u8) {
        if let Some(last) = self.transactions.last_mut() {
            last.state.event(event);
        }
    }

    /// Takes a message, which is at this place of the bytes at hand.
    fn message(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        (at, wishes): (usize, &mut Wishes),
    ) -> Result<(), Refusal> {
        // Suricata counts the transactions of frames from 1.
        let id = self.transactions.total() + 1;
        let taken = self.read(direction, bytes);
        wishes.open_frame("pdu", at, Some(bytes.len() as u64), taken.is_ok().then_some(id));
        taken
    }

    fn read(&mut self, direction: Direction, bytes: &[u8]) -> Result<(), Refusal> {
        let plausible = Header::read(&mut Reader::new(bytes))
            .is_some_and(|header| header.is_plausible(bytes.len()));
        if !plausible {
            return Err(Refusal::Header);
        }
        let sender = match self.variant {
            Variant::Unicast => direction,
            Variant::Multicast => Direction::ToServer,
        };
        let Some(message) = Message::read(bytes) else {
            self.event(MALFORMED_DATA);
            return Err(Refusal::Body);
        };
        let is_response = message.header.is_response();
        let half = match (sender, self.variant) {
            (Direction::ToServer, Variant::Unicast) if is_response => {
                self.event(NOT_REQUEST);
                return Err(Refusal::Body);
            }
            (Direction::ToServer, Variant::Multicast) if is_response => Half::Response,
            (Direction::ToServer, _) => Half::Request,
            (Direction::ToClient, _) => Half::Response,
        };
        self.add(sender, half, message);
        Ok(())
    }

    fn add(&mut self, sender: Direction, half: Half, message: Message) {
        let header = message.header;
        let defects = message.defects;
        let not_response = sender == Direction::ToClient && !header.is_response();
        let noted = [
            (message.additionals.is_none(), INVALID_ADDITIONALS),
            (message.authorities.is_none(), INVALID_AUTHORITIES),
            (not_response, NOT_RESPONSE),
            (header.flags & 0x0040 != 0, Z_FLAG_SET),
            (header.opcode() >= 7, INVALID_OPCODE),
            (defects.truncated, NAME_TOO_LONG),
            (defects.infinite_loop, INFINITE_LOOP),
            (defects.too_many_labels, TOO_MANY_LABELS),
        ];
        if self.transactions.len() >= TRANSACTIONS_MAX {
            self.transactions.remove(0);
        }
        let Some(transaction) = self.transactions.push(Entry { half, message }) else { return };
        let state = &mut transaction.state;
        state.progress = [1, 1];
        state.touch(sender);
        if let Some(skip) = state.skip.get_mut(sender.reverse().index()) {
            *skip = true;
        }
        for (_, event) in noted.iter().filter(|(holds, _)| *holds) {
            state.event(*event);
        }
    }

    /// Messages with their lengths before them (RFC 1035 section 4.2.2).
    fn stream(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if self.after_gap {
            match look_stream(input.bytes) {
                Look::No if input.direction == Direction::ToClient => return Outcome::Done,
                Look::No => {}
                _ => self.after_gap = false,
            }
        }
        let mut reader = Reader::new(input.bytes);
        while !reader.is_empty() {
            let consumed = reader.position();
            let Some(length) = reader.be16() else {
                return Outcome::Incomplete { consumed, needed: 2 };
            };
            let length = usize::from(length);
            let Some(message) = reader.take(length) else {
                return Outcome::Incomplete { consumed, needed: length + 2 };
            };
            if message.is_empty() {
                continue;
            }
            wishes.inspect(input.direction);
            let at = consumed + 2;
            if self.message(input.direction, message, (at, wishes)).is_err() {
                return Outcome::Failed;
            }
        }
        Outcome::Done
    }
}

impl Parser for Dns {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        match self.carrier {
            Carrier::Tcp => self.stream(input, wishes),
            Carrier::Udp => {
                // A datagram that is no message does not spoil those after it.
                let _ = self.message(input.direction, input.bytes, (0, wishes));
                Outcome::Done
            }
        }
    }

    fn gap(&mut self, _: Direction, len: u64, _: &mut Wishes) -> Outcome {
        self.after_gap |= len > 0;
        Outcome::Done
    }

    transactions_in!(transactions);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let entry = &self.transactions.at(place)?.data;
        entry.name(at.buffer, at.direction, i).map(Bytes::whole)
    }

    fn number(&self, place: usize, number: Number, direction: Direction, i: usize) -> Option<i64> {
        self.transactions.at(place)?.data.number(number, direction, i)
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.transactions.at(place) {
            let message = &transaction.data.message;
            match self.variant {
                Variant::Unicast => record::unicast(
                    message,
                    transaction.data.half == Half::Request,
                    transaction.state.id,
                    fields,
                ),
                Variant::Multicast => {
                    record::multicast(message, transaction.data.half == Half::Request, fields);
                }
            }
        }
    }
}

impl Entry {
    /// The message if it is what is looked at in this direction.
    fn of(&self, half: Half) -> Option<&Message> {
        (self.half == half).then_some(&self.message)
    }

    fn in_direction(&self, direction: Direction) -> Option<&Message> {
        self.of(match direction {
            Direction::ToServer => Half::Request,
            Direction::ToClient => Half::Response,
        })
    }

    /// The `i`th name of a buffer; an empty name ends the buffer.
    fn name(&self, buffer: Buffer, direction: Direction, i: usize) -> Option<&[u8]> {
        let name = match buffer {
            QUERY => self.of(Half::Request)?.questions.get(i)?.name.as_slice(),
            QUERY_NAME | QUERIES | MDNS_QUERIES => {
                self.in_direction(direction)?.questions.get(i)?.name.as_slice()
            }
            ANSWER_NAME | ANSWERS => self.in_direction(direction)?.answers.get(i)?.name.as_slice(),
            MDNS_ANSWERS => self.message.answers.get(i)?.name.as_slice(),
            AUTHORITIES | MDNS_AUTHORITIES => {
                let records = self.of(Half::Response)?.authorities.as_ref()?;
                records.get(i)?.name.as_slice()
            }
            ADDITIONALS | MDNS_ADDITIONALS => {
                let records = self.of(Half::Response)?.additionals.as_ref()?;
                records.get(i)?.name.as_slice()
            }
            RESPONSE | MDNS_RESPONSE => return response_names(self.of(Half::Response)?).nth(i),
            _ => return None,
        };
        Some(name).filter(|name| !name.is_empty())
    }

    fn number(&self, number: Number, direction: Direction, i: usize) -> Option<i64> {
        let message = self.in_direction(direction)?;
        match number {
            OPCODE if i == 0 => Some(i64::from(message.header.opcode())),
            RCODE if i == 0 => Some(i64::from(message.header.rcode())),
            RRTYPE => Some(i64::from(match direction {
                Direction::ToServer => message.questions.get(i)?.rrtype,
                Direction::ToClient => message.answers.get(i)?.rrtype,
            })),
            _ => None,
        }
    }
}

/// All names of a response, and those that its records lead to. An empty owner ends its section.
fn response_names(message: &Message) -> impl Iterator<Item = &[u8]> {
    let questions = message.questions.iter().map(|question| question.name.as_slice());
    questions
        .take_while(|name| !name.is_empty())
        .chain(record_names(&message.answers))
        .chain(record_names(message.authorities.as_deref().unwrap_or_default()))
        .chain(record_names(message.additionals.as_deref().unwrap_or_default()))
}

fn record_names(records: &[Record]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    for record in records.iter().take_while(|record| !record.name.is_empty()) {
        names.push(record.name.as_slice());
        names.extend(record.data.name().filter(|name| !name.is_empty()));
    }
    names
}
