//! Kerberos 5 over UDP and TCP (RFC 4120). Each message is a transaction of its own.

mod names;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::der::{self, Element, Elements, Head, SEQUENCE};
use crate::parser::{At, Flow, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row_with_aliases, transactions_in};
use crate::transaction::Transactions;

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

/// The most parts of a name.
const NAME_PARTS_MAX: usize = 64;

/// Longer records over TCP are not taken for Kerberos.
const RECORD_BYTES_MAX: u32 = 16384;

const MALFORMED: u8 = 0;
const WEAK_ENCRYPTION: u8 = 1;

mod kind {
    pub(super) const AS_REQ: u32 = 10;
    pub(super) const AS_REP: u32 = 11;
    pub(super) const TGS_REQ: u32 = 12;
    pub(super) const TGS_REP: u32 = 13;
    pub(super) const AP_REQ: u32 = 14;
    pub(super) const AP_REP: u32 = 15;
    pub(super) const ERROR: u32 = 30;
}

const CNAME: Buffer = Buffer::new(rooms::KRB5, 0);
const SNAME: Buffer = Buffer::new(rooms::KRB5, 1);
const TYPE: Number = Number::new(rooms::KRB5, 0);
const ERROR_CODE: Number = Number::new(rooms::KRB5, 1);
const TICKET_ENCRYPTION: Number = Number::new(rooms::KRB5, 2);

const BOTH: &[Engine] = &[to_server(Protocol::Krb5, 0), to_client(Protocol::Krb5, 0)];
const NAMES: &[Engine] = &[to_client(Protocol::Krb5, 1)];
const RESPONSE: &[Engine] = &[to_client(Protocol::Krb5, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Krb5,
    events: &["malformed_data", "weak_encryption"],
    states: TWO_STATES,
    buffers: &[
        row_with_aliases(CNAME, "krb5.cname", &["krb5_cname"], Kind::Multi, NAMES),
        row_with_aliases(SNAME, "krb5.sname", &["krb5_sname"], Kind::Multi, NAMES),
    ],
    numbers: &[
        number_row(TYPE, "krb5_msg_type", BOTH),
        number_row(ERROR_CODE, "krb5_err_code", BOTH),
        number_row(TICKET_ENCRYPTION, "krb5.ticket_encryption", RESPONSE),
    ],
    patterns: &[],
    probes: &[probe(Carrier::Udp), probe(Carrier::Tcp)],
    accepts_gaps: false,
    first: None,
    make: |_, flow| Some(Box::new(Krb5::new(flow))),
};

const fn probe(carrier: Carrier) -> Probe {
    Probe {
        carrier,
        ports: &[88],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(recognise),
        from_port: Some(recognise),
    }
}

fn recognise(question: &Question<'_>) -> Guess {
    if question.flow.carrier == Carrier::Udp {
        return recognise_message(question.bytes);
    }
    if question.bytes.len() <= 14 {
        return Guess::No;
    }
    match question.bytes.split_first_chunk() {
        Some((length, rest)) if u32::from_be_bytes(*length) <= RECORD_BYTES_MAX => {
            recognise_message(rest)
        }
        _ => Guess::No,
    }
}

/// An application's element with a sequence that begins with version 5.
fn recognise_message(bytes: &[u8]) -> Guess {
    if bytes.len() <= 10 {
        return Guess::No;
    }
    let head = match Head::read(bytes) {
        Ok(head) => head,
        Err(der::Defect::Incomplete) => return Guess::Unsure,
        Err(der::Defect::Invalid) => return Guess::No,
    };
    let rest = bytes.get(head.head_bytes..).unwrap_or_default();
    if head.class != der::APPLICATION || head.tag > kind::ERROR || rest.first() != Some(&0x30) {
        return Guess::No;
    }
    let Ok(head) = Head::read(rest) else { return Guess::No };
    let rest = rest.get(head.head_bytes..).unwrap_or_default();
    if rest.len() > 5 && rest.get(2..5) == Some(&[2, 1, 5]) { Guess::Yes } else { Guess::No }
}

/// A message.
#[derive(Debug, Clone, Default)]
struct Message {
    kind: u32,
    client: Option<Vec<Vec<u8>>>,
    realm: Option<Vec<u8>>,
    server: Option<Vec<Vec<u8>>>,
    encryption: Option<i64>,
    ticket_encryption: Option<i64>,
    error: Option<i64>,
    /// What it answers.
    request: Option<u32>,
}

fn read_name(mut elements: Elements<'_>) -> Option<Vec<Vec<u8>>> {
    let mut sequence = elements.take_of(SEQUENCE)?.inner();
    sequence.context(0)?;
    let mut parts = sequence.context(1)?.take_of(SEQUENCE)?.inner();
    let mut name = Vec::new();
    while name.len() < NAME_PARTS_MAX
        && let Some(part) = parts.take()
    {
        name.push(part.content.to_vec());
    }
    Some(name)
}

fn read_string(mut elements: Elements<'_>) -> Option<Vec<u8>> {
    Some(elements.take()?.content.to_vec())
}

fn read_encryption(mut elements: Elements<'_>) -> Option<i64> {
    elements.take_of(SEQUENCE)?.inner().context(0)?.number()
}

fn read_request(mut fields: Elements<'_>, kind: u32) -> Option<Message> {
    fields.context(1)?;
    fields.context(2)?;
    fields.context(3);
    let mut body = fields.context(4)?.take_of(SEQUENCE)?.inner();
    body.context(0)?;
    Some(Message {
        kind,
        client: body.context(1).and_then(read_name),
        realm: Some(read_string(body.context(2)?)?),
        server: body.context(3).and_then(read_name),
        ..Message::default()
    })
}

fn read_response(mut fields: Elements<'_>, kind: u32) -> Option<Message> {
    fields.context(0)?;
    fields.context(1)?;
    fields.context(2);
    let realm = read_string(fields.context(3)?)?;
    let client = read_name(fields.context(4)?)?;
    let ticket = fields.context(5)?.take()?;
    let mut ticket = ticket.inner().take_of(SEQUENCE)?.inner();
    ticket.context(0)?;
    ticket.context(1)?;
    Some(Message {
        kind,
        client: Some(client),
        realm: Some(realm),
        server: Some(read_name(ticket.context(2)?)?),
        ticket_encryption: Some(read_encryption(ticket.context(3)?)?),
        encryption: Some(read_encryption(fields.context(6)?)?),
        ..Message::default()
    })
}

fn read_error(mut fields: Elements<'_>) -> Option<Message> {
    fields.context(0)?;
    fields.context(1)?;
    fields.context(2);
    fields.context(3);
    fields.context(4)?;
    fields.context(5)?;
    let error = fields.context(6)?.number()?;
    let realm = fields.context(7).and_then(read_string);
    let client = fields.context(8).and_then(read_name);
    fields.context(9)?;
    Some(Message {
        kind: kind::ERROR,
        client,
        realm,
        server: Some(read_name(fields.context(10)?)?),
        error: Some(error),
        ..Message::default()
    })
}

/// All but AES with SHA and Camellia.
fn is_weak(encryption: i64) -> bool {
    !matches!(encryption, 17..=20 | 25 | 26)
}

struct Krb5 {
    carrier: Carrier,
    /// The last request.
    request: Option<u32>,
    /// Bytes of the record that is under way, by direction.
    record: [Option<u32>; 2],
    messages: Transactions<Message>,
}

impl Krb5 {
    fn new(flow: &Flow) -> Self {
        let messages = Transactions::default();
        Self { carrier: flow.carrier, request: None, record: [None, None], messages }
    }

    fn event(&mut self, event: u8) {
        if let Some(last) = self.messages.last_mut() {
            last.state.event(event);
        }
    }

    fn add(&mut self, direction: Direction, message: Message) {
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        let is_weak = message.encryption.is_some_and(is_weak);
        let Some(transaction) = self.messages.push(message) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
        if is_weak {
            transaction.state.event(WEAK_ENCRYPTION);
        }
    }

    /// Takes a message; `false` if it is none.
    fn message(&mut self, direction: Direction, bytes: &[u8], wishes: &mut Wishes) -> bool {
        let Ok(head) = Head::read(bytes) else {
            self.event(MALFORMED);
            return false;
        };
        if head.class != der::APPLICATION {
            return true;
        }
        let fields = Element::read(bytes)
            .ok()
            .and_then(|(element, _)| Some(element.inner().take_of(SEQUENCE)?.inner()));
        let message = fields.and_then(|fields| match head.tag {
            kind::AS_REQ | kind::TGS_REQ => read_request(fields, head.tag),
            kind::AS_REP | kind::TGS_REP => read_response(fields, head.tag),
            kind::ERROR => read_error(fields),
            _ => None,
        });
        if let Some(mut message) = message {
            if !matches!(head.tag, kind::AS_REQ | kind::TGS_REQ) {
                message.request = self.request;
            }
            self.add(direction, message);
            wishes.inspect(direction);
        }
        match head.tag {
            kind::AS_REQ | kind::TGS_REQ | kind::AP_REQ => self.request = Some(head.tag),
            kind::AS_REP | kind::TGS_REP | kind::AP_REP | kind::ERROR => self.request = None,
            _ => {}
        }
        true
    }

    fn stream(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let side = input.direction.index();
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            let known = self.record.get(side).copied().flatten();
            let Some(length) = known else {
                let Some((length, _)) = rest.split_first_chunk() else {
                    return Outcome::Incomplete { consumed, needed: 4 };
                };
                let length = u32::from_be_bytes(*length);
                // An empty record is followed by the next one.
                if let Some(record) = self.record.get_mut(side) {
                    *record = Some(length).filter(|length| *length != 0);
                }
                consumed += 4;
                continue;
            };
            let needed = usize::try_from(length).unwrap_or(usize::MAX);
            if rest.len() < needed {
                return Outcome::Incomplete { consumed, needed };
            }
            if !self.message(input.direction, rest, wishes) {
                return Outcome::Failed;
            }
            consumed += needed;
            if let Some(record) = self.record.get_mut(side) {
                *record = None;
            }
        }
        Outcome::Done
    }
}

impl Parser for Krb5 {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if self.carrier == Carrier::Tcp {
            return self.stream(input, wishes);
        }
        self.message(input.direction, input.bytes, wishes);
        Outcome::Done
    }

    transactions_in!(messages);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let message = &self.messages.at(place)?.data;
        let name = if at.buffer == CNAME { &message.client } else { &message.server };
        Some(Bytes::whole(name.as_ref()?.get(i)?))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let message = &self.messages.at(place)?.data;
        let value = match number {
            TYPE => Some(i64::from(message.kind)),
            ERROR_CODE => message.error,
            TICKET_ENCRYPTION => message.ticket_encryption,
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

fn kind_name(kind: u32) -> &'static [u8] {
    match kind {
        kind::AS_REQ => b"KRB_AS_REQ",
        kind::AS_REP => b"KRB_AS_REP",
        kind::TGS_REQ => b"KRB_TGS_REQ",
        kind::TGS_REP => b"KRB_TGS_REP",
        kind::AP_REQ => b"KRB_AP_REQ",
        kind::AP_REP => b"KRB_AP_REP",
        _ => b"KRB_ERROR",
    }
}

fn describe(message: &Message, fields: &mut Fields) {
    let mut krb5 = Fields::default();
    krb5.text("msg_type", kind_name(message.kind));
    if let Some(error) = message.error {
        krb5.text("failed_request", message.request.map_or(b"UNKNOWN", kind_name));
        krb5.text("error_code", names::error(error).as_bytes());
    }
    let name = |name: &Option<Vec<Vec<u8>>>| match name {
        Some(parts) => parts.join(&b'/'),
        None => b"<empty>".to_vec(),
    };
    krb5.text("cname", &name(&message.client));
    krb5.text("realm", message.realm.as_deref().unwrap_or(b"<empty>"));
    krb5.text("sname", &name(&message.server));
    let encryption = message.encryption.map_or_else(|| "<none>".to_owned(), names::encryption);
    krb5.text("encryption", encryption.as_bytes());
    krb5.truth("weak_encryption", message.encryption.is_some_and(is_weak));
    if let Some(ticket) = message.ticket_encryption {
        krb5.text("ticket_encryption", names::encryption(ticket).as_bytes());
        krb5.truth("ticket_weak_encryption", is_weak(ticket));
    }
    fields.object("krb5", krb5);
}
