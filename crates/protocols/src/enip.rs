//! EtherNet/IP with CIP, over TCP and UDP. A request and its response are a transaction.

mod service;
#[cfg(test)]
mod tests;
mod wire;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::{State, Transaction, Transactions};
pub use service::Service;
use wire::{Body, CipBody, HEADER_BYTES, Header, Message, command};

const TOO_MANY_TRANSACTIONS: u8 = 0;
const INVALID_PDU: u8 = 1;

const PRODUCT_NAME: Buffer = Buffer::new(rooms::ENIP, 0);
const SERVICE_NAME: Buffer = Buffer::new(rooms::ENIP, 1);
const CIP: Buffer = Buffer::new(rooms::ENIP, 2);

const fn numbered(place: u8) -> Number {
    Number::new(rooms::ENIP, place)
}

const COMMAND: Number = numbered(0);
const STATUS: Number = numbered(1);
const CAPABILITIES: Number = numbered(2);
const ATTRIBUTE: Number = numbered(3);
const CLASS: Number = numbered(4);
const INSTANCE: Number = numbered(5);
const CIP_STATUS: Number = numbered(6);
const EXTENDED_STATUS: Number = numbered(7);
const DEVICE_TYPE: Number = numbered(8);
const IDENTITY_STATUS: Number = numbered(9);
const PRODUCT_CODE: Number = numbered(10);
const VERSION: Number = numbered(11);
const REVISION: Number = numbered(12);
const SERIAL: Number = numbered(13);
const STATE: Number = numbered(14);
const VENDOR: Number = numbered(15);

const BOTH: &[Engine] = &[to_server(Protocol::Enip, 0), to_client(Protocol::Enip, 0)];

const fn probe_over(carrier: Carrier) -> Probe {
    Probe {
        carrier,
        ports: &[44818],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }
}

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Enip,
    events: &["too_many_transactions", "invalid_pdu"],
    states: TWO_STATES,
    buffers: &[
        row(PRODUCT_NAME, "enip.product_name", Kind::Single, BOTH),
        row(SERVICE_NAME, "enip.service_name", Kind::Single, BOTH),
        // What [`Service::holds`] looks at: no keyword selects it.
        row(CIP, "enip.cip", Kind::Single, BOTH),
    ],
    numbers: &[
        number_row(COMMAND, "enip_command", BOTH),
        number_row(STATUS, "enip.status", BOTH),
        number_row(CAPABILITIES, "enip.capabilities", BOTH),
        number_row(ATTRIBUTE, "enip.cip_attribute", BOTH),
        number_row(CLASS, "enip.cip_class", BOTH),
        number_row(INSTANCE, "enip.cip_instance", BOTH),
        number_row(CIP_STATUS, "enip.cip_status", BOTH),
        number_row(EXTENDED_STATUS, "enip.cip_extendedstatus", BOTH),
        number_row(DEVICE_TYPE, "enip.device_type", BOTH),
        number_row(IDENTITY_STATUS, "enip.identity_status", BOTH),
        number_row(PRODUCT_CODE, "enip.product_code", BOTH),
        number_row(VERSION, "enip.protocol_version", BOTH),
        number_row(REVISION, "enip.revision", BOTH),
        number_row(SERIAL, "enip.serial", BOTH),
        number_row(STATE, "enip.state", BOTH),
        number_row(VENDOR, "enip.vendor_id", BOTH),
    ],
    patterns: &[],
    probes: &[probe_over(Carrier::Udp), probe_over(Carrier::Tcp)],
    accepts_gaps: true,
    first: None,
    make: |settings, flow| {
        Some(Box::new(Enip {
            is_stream: flow.carrier == Carrier::Tcp,
            transactions_max: settings.enip_transactions_max,
            ..Enip::default()
        }))
    },
};

fn is_likely(bytes: &[u8]) -> bool {
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    Header::read(bytes).is_some_and(|header| header.is_likely(body))
}

fn probe(question: &Question<'_>) -> Guess {
    if question.flow.carrier == Carrier::Tcp && question.bytes.len() < HEADER_BYTES {
        return Guess::Unsure;
    }
    if is_likely(question.bytes) { Guess::Yes } else { Guess::No }
}

#[derive(Default)]
struct Exchange {
    request: Option<Message>,
    response: Option<Message>,
}

#[derive(Default)]
struct Enip {
    exchanges: Transactions<Exchange>,
    is_stream: bool,
    transactions_max: usize,
    /// Bytes are missing, and no message has begun since.
    gaps: [bool; 2],
}

/// Whether a response is one to this request.
fn answers(response: &Message, request: &Message) -> bool {
    let (to, from) = (&request.header, &response.header);
    // Only the response to a registration has the session's number.
    let same_session = to.session == from.session || to.command == command::REGISTER_SESSION;
    if to.command != from.command || !same_session {
        return false;
    }
    match (&request.body, &response.body) {
        (Body::Cip(CipBody { connected: Some(one), .. }), Body::Cip(other)) => {
            other.connected.is_none_or(|other| *one == other)
        }
        (Body::Cip(_), Body::Cip(_)) => true,
        (Body::Cip(_), _) | (_, Body::Cip(_)) => false,
        _ => true,
    }
}

impl Enip {
    /// The transaction that a response completes. Requests before it stay without one.
    fn find_request(&mut self, response: &Message) -> Option<&mut Transaction<Exchange>> {
        for transaction in self.exchanges.iter_mut() {
            let Transaction { state, data } = &mut *transaction;
            let Exchange { request: Some(request), response: None } = data else { continue };
            complete(state);
            if answers(response, request) {
                return Some(transaction);
            }
        }
        None
    }

    /// Takes a message; says which transaction it belongs to.
    fn take(&mut self, direction: Direction, message: Message) -> Option<u64> {
        let is_request = direction == Direction::ToServer;
        if !is_request && let Some(Transaction { state, data }) = self.find_request(&message) {
            note(state, &message);
            data.response = Some(message);
            return Some(state.id);
        }
        if self.exchanges.len() >= self.transactions_max {
            for (place, transaction) in self.exchanges.iter_mut().enumerate() {
                complete(&mut transaction.state);
                if place == 0 {
                    transaction.state.event(TOO_MANY_TRANSACTIONS);
                }
            }
            return None;
        }
        let Transaction { state, data } = self.exchanges.push(Exchange::default())?;
        note(state, &message);
        state.updated = [true; 2];
        state.advance(direction, 1);
        let place = if is_request { &mut data.request } else { &mut data.response };
        *place = Some(message);
        Some(state.id)
    }

    fn message(&self, place: usize, direction: Direction) -> Option<&Message> {
        let exchange = &self.exchanges.at(place)?.data;
        match direction {
            Direction::ToServer => exchange.request.as_ref(),
            Direction::ToClient => exchange.response.as_ref(),
        }
    }
}

fn complete(state: &mut State) {
    state.progress = [1; 2];
    state.updated = [true; 2];
}

fn note(state: &mut State, message: &Message) {
    if message.is_invalid {
        state.event(INVALID_PDU);
    }
}

fn frames(message: &Message, at: usize, length: usize, id: Option<u64>, wishes: &mut Wishes) {
    let head = HEADER_BYTES as u64;
    wishes.open_frame("hdr", at, Some(head), id);
    wishes.open_frame("data", at + HEADER_BYTES, Some(length as u64 - head), id);
    wishes.open_frame("pdu", at, Some(length as u64), id);
    for part in &message.items {
        wishes.open_frame("enip.item", at + part.at, Some(part.len as u64), id);
    }
    for part in &message.cips {
        wishes.open_frame("cip", at + part.at, Some(part.len as u64), id);
    }
}

impl Parser for Enip {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if let Some(gap) = self.gaps.get_mut(input.direction.index()) {
            if *gap && !is_likely(input.bytes) {
                return Outcome::Done;
            }
            *gap = false;
        }
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            let Some((mut message, length)) = wire::read(rest) else {
                if self.is_stream {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                return Outcome::Failed;
            };
            let items = std::mem::take(&mut message.items);
            let cips = std::mem::take(&mut message.cips);
            let parts = Message { items, cips, body: Body::Other, ..message };
            let id = self.take(input.direction, message);
            frames(&parts, consumed, length, id, wishes);
            if !self.is_stream {
                break;
            }
            if id.is_some() {
                wishes.inspect(input.direction);
            }
            consumed += length;
        }
        Outcome::Done
    }

    fn gap(&mut self, direction: Direction, _: u64, _: &mut Wishes) -> Outcome {
        if let Some(gap) = self.gaps.get_mut(direction.index()) {
            *gap = true;
        }
        Outcome::Done
    }

    transactions_in!(exchanges);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let response = || Some(&self.message(place, Direction::ToClient)?.body);
        let bytes = match at.buffer {
            CIP => match &self.message(place, at.direction)?.body {
                Body::Cip(cip) if !cip.bytes.is_empty() => &cip.bytes,
                _ => return None,
            },
            PRODUCT_NAME => match response()? {
                Body::Identities(Some(identity)) => &identity.name,
                _ => return None,
            },
            _ => match response()? {
                Body::Services(Some(services)) => &services.name,
                _ => return None,
            },
        };
        (i == 0).then_some(Bytes::whole(bytes))
    }

    fn number(&self, place: usize, number: Number, direction: Direction, i: usize) -> Option<i64> {
        let own = || self.message(place, direction);
        match number {
            COMMAND => single(i, own()?.header.command.into()),
            STATUS => single(i, own()?.header.status.into()),
            VERSION => single(i, version(own()?, direction)?.into()),
            ATTRIBUTE | CLASS | INSTANCE => {
                of_cip(&self.message(place, Direction::ToServer)?.body, number, i)
            }
            CIP_STATUS | EXTENDED_STATUS => {
                of_cip(&self.message(place, Direction::ToClient)?.body, number, i)
            }
            _ => single(i, of_device(&self.message(place, Direction::ToClient)?.body, number)?),
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let mut enip = Fields::default();
        for (name, direction) in
            [("request", Direction::ToServer), ("response", Direction::ToClient)]
        {
            if let Some(message) = self.message(place, direction) {
                enip.object(name, describe(message));
            }
        }
        fields.object("enip", enip);
    }
}

fn single(i: usize, value: i64) -> Option<i64> {
    (i == 0).then_some(value)
}

fn version(message: &Message, direction: Direction) -> Option<u16> {
    match &message.body {
        Body::Session(version) => Some(*version),
        Body::Services(Some(services)) if direction == Direction::ToClient => {
            Some(services.protocol_version)
        }
        Body::Identities(Some(identity)) if direction == Direction::ToClient => {
            Some(identity.protocol_version)
        }
        _ => None,
    }
}

fn of_cip(body: &Body, number: Number, i: usize) -> Option<i64> {
    let Body::Cip(CipBody { values, .. }) = body else { return None };
    Some(match number {
        ATTRIBUTE => (*values.attributes.get(i)?).into(),
        CLASS => (*values.classes.get(i)?).into(),
        INSTANCE => (*values.instances.get(i)?).into(),
        CIP_STATUS => (*values.status.get(i)?).into(),
        _ => (*values.extended_status.get(i)?).into(),
    })
}

fn of_device(body: &Body, number: Number) -> Option<i64> {
    let identity = match body {
        Body::Services(Some(services)) if number == CAPABILITIES => {
            return Some(services.capabilities.into());
        }
        Body::Identities(Some(identity)) => identity,
        _ => return None,
    };
    Some(match number {
        DEVICE_TYPE => identity.device_type.into(),
        IDENTITY_STATUS => identity.status.into(),
        PRODUCT_CODE => identity.product_code.into(),
        REVISION => u16::from_be_bytes(identity.revision).into(),
        SERIAL => identity.serial.into(),
        STATE => identity.state.into(),
        VENDOR => identity.vendor.into(),
        _ => return None,
    })
}

fn describe(message: &Message) -> Fields {
    let mut fields = Fields::default();
    fields.number("command", message.header.command.into());
    fields.number("status", message.header.status.into());
    match &message.body {
        Body::Session(version) => fields.number("protocol_version", (*version).into()),
        Body::Identities(Some(identity)) => {
            let mut about = Fields::default();
            about.number("protocol_version", identity.protocol_version.into());
            about.number("vendor_id", identity.vendor.into());
            about.number("device_type", identity.device_type.into());
            about.number("product_code", identity.product_code.into());
            let [major, minor] = identity.revision;
            about.text("revision", format!("{major}.{minor}").as_bytes());
            about.number("serial", identity.serial.into());
            about.text("product_name", &identity.name);
            fields.object("identity", about);
        }
        Body::Services(Some(services)) => {
            let mut about = Fields::default();
            about.number("protocol_version", services.protocol_version.into());
            about.number("capabilities", services.capabilities.into());
            let name = services.name.split(|byte| *byte == 0).next().unwrap_or_default();
            about.text("service_name", name);
            fields.object("services", about);
        }
        Body::Cip(CipBody { bytes, .. }) => {
            if let Some(service) = bytes.first() {
                let mut about = Fields::default();
                about.number("service", (service & 0x7f).into());
                fields.object("cip", about);
            }
        }
        Body::Identities(None) | Body::Services(None) | Body::Interfaces | Body::Other => {}
    }
    fields
}
