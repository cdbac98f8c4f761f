//! DHCP (RFC 2131). Each message is a transaction of its own.

use gauntlet_packet::Direction;

use crate::buffer::{Bytes, Engine, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, transactions_in};
use crate::transaction::Transactions;

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 1024;

/// The most options of a message that are kept.
const OPTIONS_MAX: usize = 256;

/// Bytes before the options.
const HEAD_BYTES: usize = 240;

/// Shorter datagrams are not taken for DHCP.
const MESSAGE_BYTES_MIN: usize = 232;

const TRUNCATED_OPTIONS: u8 = 0;

mod option {
    pub(super) const HOST_NAME: u8 = 12;
    pub(super) const REQUESTED_ADDRESS: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const TYPE: u8 = 53;
    pub(super) const RENEWAL_TIME: u8 = 58;
    pub(super) const REBINDING_TIME: u8 = 59;
    pub(super) const CLIENT: u8 = 61;
    pub(super) const END: u8 = 255;
}

const LEASE_TIME: Number = Number::new(rooms::DHCP, 0);
const REBINDING_TIME: Number = Number::new(rooms::DHCP, 1);
const RENEWAL_TIME: Number = Number::new(rooms::DHCP, 2);

const BOTH: &[Engine] = &[to_server(Protocol::Dhcp, 0), to_client(Protocol::Dhcp, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Dhcp,
    events: &["truncated_options", "malformed_options"],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[
        number_row(LEASE_TIME, "dhcp.leasetime", BOTH),
        number_row(REBINDING_TIME, "dhcp.rebinding_time", BOTH),
        number_row(RENEWAL_TIME, "dhcp.renewal_time", BOTH),
    ],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[67, 68],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Dhcp::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    let is_long = question.bytes.len() >= HEAD_BYTES.max(MESSAGE_BYTES_MIN);
    if is_long { Guess::Yes } else { Guess::Unsure }
}

struct Message {
    opcode: u8,
    id: u32,
    /// Addresses of the client, for the client, of the next server, of the relay.
    addresses: [[u8; 4]; 4],
    hardware: Vec<u8>,
    options: Vec<(u8, Vec<u8>)>,
    is_truncated: bool,
}

fn read(bytes: &[u8]) -> Option<Message> {
    let mut reader = Reader::new(bytes);
    let opcode = reader.u8()?;
    reader.u8()?;
    let hardware_bytes = usize::from(reader.u8()?).min(16);
    reader.u8()?;
    let id = reader.be32()?;
    reader.skip(4)?;
    let addresses = [reader.array()?, reader.array()?, reader.array()?, reader.array()?];
    let hardware = reader.take(16)?.get(..hardware_bytes)?.to_vec();
    reader.skip(64 + 128 + 4)?;
    let mut options = Vec::new();
    let mut is_ended = false;
    while let Some((code, data)) = read_option(&mut reader) {
        if options.len() < OPTIONS_MAX {
            options.push((code, data));
        }
        if code == option::END {
            is_ended = true;
            break;
        }
    }
    Some(Message { opcode, id, addresses, hardware, options, is_truncated: !is_ended })
}

fn read_option(reader: &mut Reader<'_>) -> Option<(u8, Vec<u8>)> {
    let code = reader.u8()?;
    if code == option::END {
        return Some((code, Vec::new()));
    }
    let length = usize::from(reader.u8()?);
    match code {
        option::CLIENT if length < 2 => None,
        // Times have four bytes whatever their length says.
        option::LEASE_TIME | option::RENEWAL_TIME | option::REBINDING_TIME => {
            Some((code, reader.take(4)?.to_vec()))
        }
        _ => Some((code, reader.take(length)?.to_vec())),
    }
}

impl Message {
    fn option(&self, wanted: u8) -> Option<&[u8]> {
        self.options.iter().find(|(code, _)| *code == wanted).map(|(_, data)| data.as_slice())
    }

    fn time(&self, wanted: u8) -> Option<i64> {
        self.option(wanted)?.first_chunk().map(|bytes| i64::from(u32::from_be_bytes(*bytes)))
    }
}

#[derive(Default)]
struct Dhcp {
    messages: Transactions<Message>,
}

impl Parser for Dhcp {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        let Some(message) = read(input.bytes) else { return Outcome::Failed };
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        let is_truncated = message.is_truncated;
        let Some(transaction) = self.messages.push(message) else { return Outcome::Done };
        transaction.state.progress = [1, 1];
        transaction.state.touch(input.direction);
        if let Some(skip) = transaction.state.skip.get_mut(input.direction.reverse().index()) {
            *skip = true;
        }
        if is_truncated {
            transaction.state.event(TRUNCATED_OPTIONS);
        }
        Outcome::Done
    }

    transactions_in!(messages);

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let message = &self.messages.at(place)?.data;
        let value = match number {
            LEASE_TIME => message.time(option::LEASE_TIME),
            REBINDING_TIME => message.time(option::REBINDING_TIME),
            RENEWAL_TIME => message.time(option::RENEWAL_TIME),
            _ => None,
        };
        value.filter(|_| i == 0)
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.messages.at(place) {
            describe(&transaction.data, fields);
        }
    }
}

fn dotted(address: &[u8]) -> Vec<u8> {
    let parts: Vec<String> = address.iter().map(u8::to_string).collect();
    parts.join(".").into_bytes()
}

fn describe(message: &Message, fields: &mut Fields) {
    const TYPES: [&str; 9] =
        ["", "discover", "offer", "request", "decline", "ack", "nak", "release", "inform"];
    let mut dhcp = Fields::default();
    let kind: &[u8] = match message.opcode {
        1 => b"request",
        2 => b"reply",
        _ => b"unknown",
    };
    dhcp.text("type", kind);
    dhcp.number("id", i64::from(message.id));
    let hardware: Vec<String> = message.hardware.iter().map(|byte| format!("{byte:02x}")).collect();
    dhcp.text("client_mac", hardware.join(":").as_bytes());
    let names = ["client_ip", "assigned_ip", "next_server_ip", "relay_ip"];
    for (name, address) in names.into_iter().zip(message.addresses) {
        dhcp.text(name, &dotted(&address));
    }
    if let Some(kind) = message.option(option::TYPE).and_then(<[u8]>::first) {
        let name = TYPES.get(usize::from(*kind)).copied().unwrap_or("unknown");
        dhcp.text("dhcp_type", name.as_bytes());
    }
    if let Some(address) = message.option(option::REQUESTED_ADDRESS) {
        dhcp.text("requested_ip", &dotted(address));
    }
    if let Some(name) = message.option(option::HOST_NAME) {
        dhcp.text("hostname", name);
    }
    for (name, code) in [
        ("lease_time", option::LEASE_TIME),
        ("renewal_time", option::RENEWAL_TIME),
        ("rebinding_time", option::REBINDING_TIME),
    ] {
        if let Some(time) = message.time(code) {
            dhcp.number(name, time);
        }
    }
    fields.object("dhcp", dhcp);
}
