//! SNMP 1, 2c and 3 over UDP. Each message is a transaction of its own.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::der::{self, Element, Elements, OBJECT_ID, OCTET_STRING, SEQUENCE, object_id};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::Transactions;

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

/// The most variables of a message that are kept.
const VARIABLES_MAX: usize = 512;

/// The security model that has names of users.
const USER_MODEL: i64 = 3;

const MALFORMED: u8 = 0;
const UNKNOWN_SECURITY: u8 = 1;
const VERSION_MISMATCH: u8 = 2;

const COMMUNITY: Buffer = Buffer::new(rooms::SNMP, 0);
const USER: Buffer = Buffer::new(rooms::SNMP, 1);
const VERSION: Number = Number::new(rooms::SNMP, 0);
const PDU_TYPE: Number = Number::new(rooms::SNMP, 1);
const TRAP_TYPE: Number = Number::new(rooms::SNMP, 2);

const BOTH: &[Engine] = &[to_server(Protocol::Snmp, 1), to_client(Protocol::Snmp, 1)];

/// Names of what a message asks, by number.
const PDU_NAMES: [&str; 9] = [
    "get_request",
    "get_next_request",
    "response",
    "set_request",
    "trap_v1",
    "get_bulk_request",
    "inform_request",
    "trap_v2",
    "report",
];

const TRAP: u32 = 4;
const BULK: u32 = 5;

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Snmp,
    events: &["malformed_data", "unknown_security_model", "version_mismatch"],
    states: TWO_STATES,
    buffers: &[
        row(COMMUNITY, "snmp.community", Kind::Single, BOTH),
        row(USER, "snmp.usm", Kind::Single, BOTH),
    ],
    numbers: &[
        number_row(VERSION, "snmp.version", BOTH),
        number_row(PDU_TYPE, "snmp.pdu_type", BOTH),
        number_row(TRAP_TYPE, "snmp.trap_type", BOTH),
    ],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[161, 162],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Snmp::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    if question.bytes.len() < 4 {
        return Guess::Unsure;
    }
    match Element::read(question.bytes) {
        Err(der::Defect::Incomplete) => Guess::Unsure,
        Err(der::Defect::Invalid) => Guess::No,
        Ok(_) if version(question.bytes).is_some() => Guess::Yes,
        Ok(_) => Guess::No,
    }
}

/// The version of an envelope: 1, 2 or 3.
fn version(bytes: &[u8]) -> Option<i64> {
    let mut elements = Elements(bytes).take_of(SEQUENCE)?.inner();
    let number = elements.number()?;
    let mut count = 1;
    while count <= 4 && elements.take().is_some() {
        count += 1;
    }
    match (number, count) {
        (0, 3) => Some(1),
        (1, 3) => Some(2),
        (3, 4) => Some(3),
        _ => None,
    }
}

/// What a message asks or says.
#[derive(Debug, Clone, Default)]
struct Pdu {
    kind: u32,
    error: i64,
    trap: Option<(i64, String, Vec<u8>)>,
    variables: Vec<String>,
}

#[derive(Debug, Clone, Default)]
struct Message {
    version: i64,
    community: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    is_encrypted: bool,
    pdu: Option<Pdu>,
}

fn read_pdu(element: &Element<'_>) -> Option<Pdu> {
    if element.class != der::CONTEXT || element.tag as usize >= PDU_NAMES.len() {
        return None;
    }
    let mut pdu = Pdu { kind: element.tag, ..Pdu::default() };
    let mut fields = element.inner();
    if element.tag == TRAP {
        let object = object_id(fields.take_of(OBJECT_ID)?.content);
        let address = fields.take()?.content.to_vec();
        let trap = fields.number()?;
        fields.number()?;
        fields.take()?;
        pdu.trap = Some((trap, object, address));
    } else {
        fields.number()?;
        let error = fields.number()?;
        fields.number()?;
        if element.tag != BULK {
            pdu.error = error;
        }
    }
    let mut variables = fields.take_of(SEQUENCE)?.inner();
    while pdu.variables.len() < VARIABLES_MAX
        && let Some(variable) = variables.take_of(SEQUENCE)
    {
        let object = variable.inner().take_of(OBJECT_ID)?;
        pdu.variables.push(object_id(object.content));
    }
    Some(pdu)
}

/// A message with the version that it names itself, and whether its security model is known.
fn read(bytes: &[u8]) -> Option<(Message, bool)> {
    let mut fields = Elements(bytes).take_of(SEQUENCE)?.inner();
    let number = fields.number()?;
    let mut message = Message { version: number, ..Message::default() };
    if matches!(number, 0 | 1) {
        message.version += 1;
        message.community = Some(fields.string()?.to_vec());
        message.pdu = Some(read_pdu(&fields.take()?)?);
        return Some((message, true));
    }
    if number != 3 {
        return None;
    }
    let mut head = fields.take_of(SEQUENCE)?.inner();
    head.number()?;
    head.number()?;
    head.string()?;
    let model = head.number()?;
    let security = fields.string()?;
    if model == USER_MODEL {
        let mut security = Elements(security).take_of(SEQUENCE)?.inner();
        security.string()?;
        security.number()?;
        security.number()?;
        message.user = Some(security.string()?.to_vec());
    }
    let data = fields.take()?;
    if data.is(OCTET_STRING) {
        message.is_encrypted = true;
    } else {
        let mut scoped = data.inner();
        scoped.string()?;
        scoped.string()?;
        message.pdu = Some(read_pdu(&scoped.take()?)?);
    }
    Some((message, model == USER_MODEL))
}

#[derive(Default)]
struct Snmp {
    /// The first message's version.
    version: Option<i64>,
    messages: Transactions<Message>,
}

impl Parser for Snmp {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        self.version = self.version.or_else(|| version(input.bytes));
        let Some((mut message, is_known)) = read(input.bytes) else {
            if let Some(last) = self.messages.last_mut() {
                last.state.event(MALFORMED);
            }
            return Outcome::Failed;
        };
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        let is_other = self.version != Some(message.version);
        message.version = self.version.unwrap_or_default();
        let Some(transaction) = self.messages.push(message) else { return Outcome::Done };
        transaction.state.progress = [1, 1];
        transaction.state.touch(input.direction);
        if let Some(skip) = transaction.state.skip.get_mut(input.direction.reverse().index()) {
            *skip = true;
        }
        if is_other {
            transaction.state.event(VERSION_MISMATCH);
        }
        if !is_known {
            transaction.state.event(UNKNOWN_SECURITY);
        }
        Outcome::Done
    }

    transactions_in!(messages);

    fn buffer(&self, place: usize, at: At, _: usize) -> Option<Bytes<'_>> {
        let message = &self.messages.at(place)?.data;
        let bytes = if at.buffer == USER { &message.user } else { &message.community };
        Some(Bytes::whole(bytes.as_ref()?))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let message = &self.messages.at(place)?.data;
        let value = match number {
            VERSION => message.version,
            PDU_TYPE => i64::from(message.pdu.as_ref()?.kind),
            TRAP_TYPE => message.pdu.as_ref()?.trap.as_ref()?.0,
            _ => return None,
        };
        (i == 0).then_some(value)
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.messages.at(place) {
            describe(&transaction.data, fields);
        }
    }
}

fn describe(message: &Message, fields: &mut Fields) {
    let mut snmp = Fields::default();
    snmp.number("version", message.version);
    if message.is_encrypted {
        snmp.text("pdu_type", b"encrypted");
        fields.object("snmp", snmp);
        return;
    }
    if let Some(pdu) = &message.pdu {
        let name = PDU_NAMES.get(pdu.kind as usize).copied().unwrap_or_default();
        snmp.text("pdu_type", name.as_bytes());
        if pdu.error != 0 {
            snmp.text("error", pdu.error.to_string().as_bytes());
        }
        if let Some((kind, object, address)) = &pdu.trap {
            snmp.text("trap_type", kind.to_string().as_bytes());
            snmp.text("trap_oid", object.as_bytes());
            let address: Vec<String> = address.iter().map(u8::to_string).collect();
            snmp.text("trap_address", address.join(".").as_bytes());
        }
        if !pdu.variables.is_empty() {
            snmp.list("vars", pdu.variables.iter().cloned().map(Value::Text).collect());
        }
    }
    for (name, value) in [("community", &message.community), ("usm", &message.user)] {
        if let Some(value) = value {
            snmp.text(name, value);
        }
    }
    fields.object("snmp", snmp);
}
