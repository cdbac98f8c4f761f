//! Modbus over TCP. A request and its response are a transaction.

mod condition;
mod message;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::{State, Transaction, Transactions};
pub use condition::Condition;
use message::{Message, Way, defect};

/// So many transactions that wait are a flood: no more are taken.
const TRANSACTIONS_MAX: usize = 500;

mod event {
    pub(super) const UNSOLICITED: u8 = 0;
    pub(super) const FUNCTION: u8 = 1;
    pub(super) const LENGTH: u8 = 2;
    pub(super) const VALUE: u8 = 3;
    pub(super) const EXCEPTION: u8 = 4;
    pub(super) const MISMATCH: u8 = 5;
    pub(super) const FLOODED: u8 = 6;
    pub(super) const PROTOCOL: u8 = 7;
}

const MESSAGE: Buffer = Buffer::new(rooms::MODBUS, 0);
const FUNCTION: Number = Number::new(rooms::MODBUS, 0);

const REQUEST: &[Engine] = &[to_server(Protocol::Modbus, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Modbus,
    events: &[
        "unsolicited_response",
        "invalid_function_code",
        "invalid_length",
        "invalid_value",
        "invalid_exception_code",
        "value_mismatch",
        "flooded",
        "invalid_protocol_id",
    ],
    states: TWO_STATES,
    // What [`Condition::holds`] looks at: no keyword selects it.
    buffers: &[row(MESSAGE, "modbus.message", Kind::Single, REQUEST)],
    numbers: &[number_row(FUNCTION, "modbus", REQUEST)],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[502],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Modbus::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    match message::read(question.bytes, Way::Unknown) {
        Err(_) => Guess::Unsure,
        Ok((message, _)) if message.defects == 0 && message.is_known() => Guess::Yes,
        Ok(_) => Guess::No,
    }
}

#[derive(Default)]
struct Exchange {
    request: Option<Message>,
    response: Option<Message>,
    /// What [`Condition::holds`] takes: the direction, and the bytes of the request, or else of
    /// the response.
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Modbus {
    exchanges: Transactions<Exchange>,
}

impl Modbus {
    /// Takes a message; `false`: there are too many.
    fn message(&mut self, direction: Direction, mut message: Message, bytes: &[u8]) -> bool {
        let is_request = direction == Direction::ToServer;
        let found = self.exchanges.iter().position(|transaction| {
            let Exchange { request, response, .. } = &transaction.data;
            let (other, own) = if is_request { (response, request) } else { (request, response) };
            own.is_none() && other.as_ref().is_some_and(|other| message.answers(other))
        });
        let mut raw = vec![u8::from(!is_request)];
        raw.extend_from_slice(bytes);
        if let Some(place) = found
            && let Some(Transaction { state, data }) = self.exchanges.at_mut(place)
        {
            note(state, is_request, &message);
            state.updated = [true, true];
            if is_request {
                data.bytes = raw;
                data.request = Some(message);
            } else {
                data.response = Some(message);
                state.progress = [1, 1];
            }
            return true;
        }
        let is_flood = self.exchanges.len() >= TRANSACTIONS_MAX;
        if self.exchanges.len() > TRANSACTIONS_MAX {
            return false;
        }
        let Some(Transaction { state, data }) = self.exchanges.push(Exchange::default()) else {
            return false;
        };
        if is_flood {
            state.event(event::FLOODED);
        }
        note(state, is_request, &message);
        state.updated = [true, true];
        data.bytes = raw;
        if is_request {
            data.request = Some(message);
        } else {
            data.response = Some(message);
            state.event(event::UNSOLICITED);
            state.progress = [1, 1];
        }
        true
    }
}

fn note(state: &mut State, is_request: bool, message: &Message) {
    let values = defect::LENGTH | defect::VALUE;
    if !is_request && message.has_access() && message.defects & values != 0 {
        state.event(event::MISMATCH);
        return;
    }
    let events = [
        (defect::FUNCTION, event::FUNCTION),
        (defect::VALUE, event::VALUE),
        (defect::LENGTH, event::LENGTH),
        (defect::EXCEPTION, event::EXCEPTION),
        (defect::PROTOCOL, event::PROTOCOL),
    ];
    for (bit, event) in events {
        if message.defects & bit != 0 {
            state.event(event);
        }
    }
}

impl Parser for Modbus {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut consumed = 0;
        let way = Way::from(input.direction);
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            match message::read(rest, way) {
                Ok((message, length)) => {
                    let bytes = rest.get(..length).unwrap_or(rest);
                    if !self.message(input.direction, message, bytes) {
                        return Outcome::Failed;
                    }
                    wishes.inspect(input.direction);
                    consumed += length;
                }
                Err(missing) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + missing };
                }
            }
        }
        Outcome::Done
    }

    transactions_in!(exchanges);

    fn buffer(&self, place: usize, _: At, i: usize) -> Option<Bytes<'_>> {
        (i == 0).then_some(Bytes::whole(&self.exchanges.at(place)?.data.bytes))
    }

    fn number(&self, place: usize, _: Number, _: Direction, i: usize) -> Option<i64> {
        let exchange = &self.exchanges.at(place)?.data;
        let message = exchange.request.as_ref().or(exchange.response.as_ref())?;
        (i == 0).then_some(i64::from(message.function))
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.exchanges.at(place) else { return };
        let mut modbus = Fields::default();
        let id = i64::try_from(transaction.state.id).unwrap_or(i64::MAX);
        modbus.number("id", id.saturating_add(1));
        let Exchange { request, response, .. } = &transaction.data;
        for (name, message) in [("request", request), ("response", response)] {
            if let Some(message) = message {
                modbus.object(name, message.describe());
            }
        }
        fields.object("modbus", modbus);
    }
}

#[cfg(test)]
mod tests;
