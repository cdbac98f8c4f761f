//! LDAP over TCP and UDP. A transaction is a request with its responses.

mod record;
pub mod wire;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{
    At, Change, Flow, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes,
};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::Transactions;
use wire::{Defect, Message, operation};

/// More open transactions than this are an error.
const TRANSACTIONS_MAX: usize = 256;

/// The most responses to one request that are kept.
const RESPONSES_MAX: usize = 1024;

/// The request to go on with TLS.
const STARTTLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

const TOO_MANY_TRANSACTIONS: u8 = 0;
const INVALID: u8 = 1;
const REQUEST_NOT_FOUND: u8 = 2;
const INCOMPLETE: u8 = 3;
const TOO_MANY_RESPONSES: u8 = 4;

const REQUEST_ENTRY: Buffer = Buffer::new(rooms::LDAP, 0);
const RESPONSE_ENTRY: Buffer = Buffer::new(rooms::LDAP, 1);
const RESPONSE_MESSAGE: Buffer = Buffer::new(rooms::LDAP, 2);
const REQUEST_ATTRIBUTE: Buffer = Buffer::new(rooms::LDAP, 3);
const RESPONSE_ATTRIBUTE: Buffer = Buffer::new(rooms::LDAP, 4);
const REQUEST_OPERATION: Number = Number::new(rooms::LDAP, 0);
const RESPONSE_OPERATION: Number = Number::new(rooms::LDAP, 1);
const RESPONSE_COUNT: Number = Number::new(rooms::LDAP, 2);
const RESPONSE_CODE: Number = Number::new(rooms::LDAP, 3);

const REQUEST: &[Engine] = &[to_server(Protocol::Ldap, 0)];
const RESPONSE: &[Engine] = &[to_client(Protocol::Ldap, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Ldap,
    events: &[
        "too_many_transactions",
        "invalid_data",
        "request_not_found",
        "incomplete_data",
        "too_many_responses",
    ],
    states: TWO_STATES,
    buffers: &[
        row(REQUEST_ENTRY, "ldap.request.dn", Kind::Single, REQUEST),
        row(RESPONSE_ENTRY, "ldap.responses.dn", Kind::Multi, RESPONSE),
        row(RESPONSE_MESSAGE, "ldap.responses.message", Kind::Multi, RESPONSE),
        row(REQUEST_ATTRIBUTE, "ldap.request.attribute_type", Kind::Multi, REQUEST),
        row(RESPONSE_ATTRIBUTE, "ldap.responses.attribute_type", Kind::Multi, RESPONSE),
    ],
    numbers: &[
        number_row(REQUEST_OPERATION, "ldap.request.operation", REQUEST),
        number_row(RESPONSE_OPERATION, "ldap.responses.operation", RESPONSE),
        number_row(RESPONSE_COUNT, "ldap.responses.count", RESPONSE),
        number_row(RESPONSE_CODE, "ldap.responses.result_code", RESPONSE),
    ],
    patterns: &[],
    probes: &[probe(Carrier::Tcp), probe(Carrier::Udp)],
    accepts_gaps: true,
    first: None,
    make: |_, flow| Some(Box::new(Ldap::new(flow))),
};

const fn probe(carrier: Carrier) -> Probe {
    Probe {
        carrier,
        ports: &[389, 3268],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(recognise),
        from_port: Some(recognise),
    }
}

fn recognise(question: &Question<'_>) -> Guess {
    if question.bytes.len() < 2 {
        return Guess::Unsure;
    }
    match Message::read(question.bytes) {
        Ok((message, _)) => {
            let is_to_server = question.direction == Direction::ToServer;
            if message.is_request() == is_to_server { Guess::Yes } else { Guess::Reversed }
        }
        Err(Defect::Incomplete) => Guess::Unsure,
        Err(Defect::Invalid) => Guess::No,
    }
}

#[derive(Default)]
struct Exchange {
    request: Option<Message>,
    responses: Vec<Message>,
}

struct Ldap {
    carrier: Carrier,
    /// TLS was asked for, and granted.
    tls: [bool; 2],
    /// Something is missing before the next bytes of a direction.
    gap: [bool; 2],
    /// The frame of a message is open.
    open: [bool; 2],
    exchanges: Transactions<Exchange>,
}

struct Full;

impl Ldap {
    fn new(flow: &Flow) -> Self {
        Self {
            carrier: flow.carrier,
            tls: [false, false],
            gap: [false, false],
            open: [false, false],
            exchanges: Transactions::default(),
        }
    }

    fn event(&mut self, event: u8) {
        if let Some(last) = self.exchanges.last_mut() {
            last.state.event(event);
        }
    }

    fn begin(&mut self, direction: Direction, exchange: Exchange, done: bool) -> Result<u64, Full> {
        if self.exchanges.len() > TRANSACTIONS_MAX {
            for old in self.exchanges.iter_mut() {
                if old.state.progress != [1, 1] {
                    old.state.progress = [1, 1];
                    old.state.updated = [true, true];
                    old.state.event(TOO_MANY_TRANSACTIONS);
                }
            }
            return Err(Full);
        }
        let new = self.exchanges.push(exchange).ok_or(Full)?;
        new.state.touch(direction);
        new.state.updated = [true, true];
        new.state.progress = [u8::from(done), u8::from(done)];
        Ok(new.state.id)
    }

    fn request(&mut self, message: Message) -> Result<u64, Full> {
        self.tls[0] |= message.extension == STARTTLS;
        let done = message.is_last();
        let exchange = Exchange { request: Some(message), responses: Vec::new() };
        self.begin(Direction::ToServer, exchange, done)
    }

    fn response(&mut self, message: Message) -> Result<u64, Full> {
        if self.tls[0] && message.operation == operation::EXTENDED_RESPONSE {
            let is_granted = message.outcome.as_ref().is_some_and(|outcome| outcome.code == 0);
            self.tls = [false, self.tls[1] || is_granted];
        }
        let number = message.number;
        let is_asked = |exchange: &Exchange| {
            exchange.request.as_ref().is_some_and(|request| request.number == number)
        };
        if let Some(known) = self.exchanges.iter_mut().find(|known| is_asked(&known.data)) {
            if message.is_last() {
                known.state.progress = [1, 1];
            }
            known.state.touch(Direction::ToClient);
            if known.data.responses.len() < RESPONSES_MAX {
                known.data.responses.push(message);
            } else {
                known.state.event(TOO_MANY_RESPONSES);
            }
            return Ok(known.state.id);
        }
        let is_notice = message.operation == operation::EXTENDED_RESPONSE;
        let exchange = Exchange { request: None, responses: vec![message] };
        let id = self.begin(Direction::ToClient, exchange, true)?;
        if !is_notice {
            self.event(REQUEST_NOT_FOUND);
        }
        Ok(id)
    }

    fn take(&mut self, direction: Direction, message: Message) -> Result<u64, Full> {
        match direction {
            Direction::ToServer => self.request(message),
            Direction::ToClient => self.response(message),
        }
    }

    /// Marks a message that begins here, unless its beginning was there before.
    fn open(&mut self, direction: Direction, at: usize, wishes: &mut Wishes) {
        if let Some(open) = self.open.get_mut(direction.index())
            && !std::mem::replace(open, true)
        {
            wishes.open_frame("pdu", at, None, None);
        }
    }

    /// The message ends here. Suricata counts the transactions of frames from 1.
    fn close(&mut self, direction: Direction, at: usize, id: u64, wishes: &mut Wishes) {
        if let Some(open) = self.open.get_mut(direction.index()) {
            *open = false;
        }
        wishes.close_frame("pdu", at, Some(id + 1));
    }

    fn datagram(&mut self, input: Input<'_>, wishes: &mut Wishes) {
        let mut place = 0;
        if input.direction == Direction::ToServer {
            wishes.open_frame("pdu", 0, Some(input.bytes.len() as u64), None);
        }
        while let Some(rest) = input.bytes.get(place..).filter(|rest| !rest.is_empty()) {
            match Message::read(rest) {
                Ok((message, bytes)) => {
                    let taken = self.take(input.direction, message);
                    if input.direction == Direction::ToServer {
                        return;
                    }
                    let Ok(id) = taken else { return };
                    wishes.open_frame("pdu", place, Some(bytes as u64), Some(id + 1));
                    place += bytes;
                }
                Err(defect) => {
                    let is_short = defect == Defect::Incomplete;
                    self.event(if is_short { INCOMPLETE } else { INVALID });
                    return;
                }
            }
        }
    }
}

impl Parser for Ldap {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if self.carrier == Carrier::Udp {
            self.datagram(input, wishes);
            return Outcome::Done;
        }
        if input.direction == Direction::ToServer && self.tls[1] && !input.bytes.is_empty() {
            wishes.change = Some(Change { expect: Some(Protocol::Tls), forced: false, port: None });
            return Outcome::Done;
        }
        if let Some(gap) = self.gap.get_mut(input.direction.index())
            && *gap
            && !input.bytes.is_empty()
        {
            *gap = false;
            if Message::read(input.bytes).is_err() {
                return Outcome::Failed;
            }
        }
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            self.open(input.direction, consumed, wishes);
            match Message::read(rest) {
                Ok((message, bytes)) => {
                    let Ok(id) = self.take(input.direction, message) else {
                        return Outcome::Failed;
                    };
                    self.close(input.direction, consumed + bytes, id, wishes);
                    wishes.inspect(input.direction);
                    consumed += bytes;
                }
                Err(Defect::Incomplete) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Defect::Invalid) => {
                    self.event(INVALID);
                    return Outcome::Failed;
                }
            }
        }
        Outcome::Done
    }

    fn gap(&mut self, direction: Direction, _: u64, _: &mut Wishes) -> Outcome {
        if let Some(gap) = self.gap.get_mut(direction.index()) {
            *gap = true;
        }
        Outcome::Done
    }

    transactions_in!(exchanges);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let exchange = &self.exchanges.at(place)?.data;
        let bytes: &[u8] = match at.buffer {
            REQUEST_ENTRY => {
                let request = exchange.request.as_ref()?;
                if matches!(
                    request.operation,
                    operation::UNBIND_REQUEST
                        | operation::ABANDON_REQUEST
                        | operation::EXTENDED_REQUEST
                ) {
                    return None;
                }
                &request.entry
            }
            REQUEST_ATTRIBUTE => exchange.request.as_ref()?.attributes.get(i)?,
            RESPONSE_ENTRY => {
                let response = exchange.responses.get(i)?;
                response.outcome.as_ref().map_or(&response.entry, |outcome| &outcome.matched)
            }
            RESPONSE_MESSAGE => {
                let outcome = &exchange.responses.get(i)?.outcome;
                outcome.as_ref().map_or(b"", |outcome| &outcome.message)
            }
            RESPONSE_ATTRIBUTE => {
                exchange.responses.iter().flat_map(|response| &response.attributes).nth(i)?
            }
            _ => return None,
        };
        Some(Bytes::whole(bytes))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let exchange = &self.exchanges.at(place)?.data;
        let responses = &exchange.responses;
        match number {
            REQUEST_OPERATION if i == 0 => Some(i64::from(exchange.request.as_ref()?.operation)),
            RESPONSE_OPERATION => Some(i64::from(responses.get(i)?.operation)),
            RESPONSE_COUNT if i == 0 => i64::try_from(responses.len()).ok(),
            // Those without a code are -1, so that places stay what they are.
            RESPONSE_CODE => {
                let outcome = &responses.get(i)?.outcome;
                Some(outcome.as_ref().map_or(-1, |outcome| i64::from(outcome.code)))
            }
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.exchanges.at(place) else { return };
        let exchange = &transaction.data;
        record::write(exchange.request.as_ref(), &exchange.responses, fields);
    }
}
