//! How SMTP is recognised, what rules may look at, and its record.

use gauntlet_packet::Direction;

use super::Configuration;
use super::event::EVENTS;
use super::message::Message;
use super::session::{Mail, Session};
use crate::buffer::{Buffer, Bytes, Engine, Kind, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, row, stream_begins};
use crate::text::hex;
use crate::transaction::State;

const HELO: Buffer = Buffer::new(rooms::SMTP, 0);
const MAIL_FROM: Buffer = Buffer::new(rooms::SMTP, 1);
const RCPT_TO: Buffer = Buffer::new(rooms::SMTP, 2);
const FROM: Buffer = Buffer::new(rooms::SMTP, 3);
const SUBJECT: Buffer = Buffer::new(rooms::SMTP, 4);
const TO: Buffer = Buffer::new(rooms::SMTP, 5);
const CC: Buffer = Buffer::new(rooms::SMTP, 6);
const DATE: Buffer = Buffer::new(rooms::SMTP, 7);
const MESSAGE_ID: Buffer = Buffer::new(rooms::SMTP, 8);
const X_MAILER: Buffer = Buffer::new(rooms::SMTP, 9);
const URL: Buffer = Buffer::new(rooms::SMTP, 10);
const RECEIVED: Buffer = Buffer::new(rooms::SMTP, 11);

const REQUEST: &[Engine] = &[to_server(Protocol::Smtp, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Smtp,
    events: EVENTS,
    states: TWO_STATES,
    buffers: &[
        row(HELO, "smtp.helo", Kind::Single, REQUEST),
        row(MAIL_FROM, "smtp.mail_from", Kind::Single, REQUEST),
        row(RCPT_TO, "smtp.rcpt_to", Kind::Multi, REQUEST),
        row(FROM, "email.from", Kind::Single, REQUEST),
        row(SUBJECT, "email.subject", Kind::Single, REQUEST),
        row(TO, "email.to", Kind::Single, REQUEST),
        row(CC, "email.cc", Kind::Single, REQUEST),
        row(DATE, "email.date", Kind::Single, REQUEST),
        row(MESSAGE_ID, "email.message_id", Kind::Single, REQUEST),
        row(X_MAILER, "email.x_mailer", Kind::Single, REQUEST),
        row(URL, "email.url", Kind::Multi, REQUEST),
        row(RECEIVED, "email.received", Kind::Multi, REQUEST),
    ],
    numbers: &[],
    patterns: &[
        stream_begins(Direction::ToServer, b"EHLO"),
        stream_begins(Direction::ToServer, b"HELO"),
        stream_begins(Direction::ToServer, b"QUIT"),
    ],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[25, 465],
        direction: Direction::ToServer,
        min: 0,
        max: 5,
        to_port: None,
        from_port: Some(probe_greeting),
    }],
    accepts_gaps: false,
    first: None,
    make: |settings, _| {
        let configuration = Configuration { smtp: settings.smtp.clone(), hashes: settings.hashes };
        Some(Box::new(Smtp { session: Session::new(configuration) }))
    },
};

/// A greeting with a domain; the client's side decides otherwise.
fn probe_greeting(asked: &Question<'_>) -> Guess {
    let Some(rest) = asked.bytes.strip_prefix(b"220").filter(|rest| rest.len() > 1) else {
        return if asked.bytes.len() < 5 { Guess::Unsure } else { Guess::No };
    };
    if !matches!(rest.first(), Some(b' ' | b'-')) {
        return Guess::No;
    }
    let text = rest.get(1..).unwrap_or_default();
    let has_line = text.contains(&b'\n');
    if asked.other == Some(Protocol::Smtp) {
        return if has_line { Guess::Yes } else { Guess::Unsure };
    }
    let client_is_unknown =
        asked.other_bytes > 4 && matches!(asked.other, None | Some(Protocol::Tls));
    if !begins_with_domain(text) {
        return Guess::No;
    }
    if client_is_unknown && has_line { Guess::Yes } else { Guess::Unsure }
}

/// Two labels or more, each beginning with a letter.
fn begins_with_domain(text: &[u8]) -> bool {
    let label = |text: &[u8]| {
        let length =
            text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        let label = text.get(..length)?;
        let fits = label.first()?.is_ascii_alphabetic() && label.last() != Some(&b'-');
        fits.then_some(length)
    };
    let Some(first) = label(text) else { return false };
    let Some(rest) = text.get(first..).and_then(|rest| rest.strip_prefix(b".")) else {
        return false;
    };
    label(rest).is_some()
}

struct Smtp {
    session: Session,
}

impl Parser for Smtp {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        self.session.parse(input, wishes)
    }

    fn count(&self) -> usize {
        self.session.transactions.len()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.session.transactions.at(place).map(|mail| &mail.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.session.transactions.at_mut(place).map(|mail| &mut mail.state)
    }

    fn remove(&mut self, place: usize) {
        self.session.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let mail = &self.session.transactions.at(place)?.data;
        let bytes = match at.buffer {
            HELO => self.session.helo.as_deref().filter(|helo| !helo.is_empty())?,
            MAIL_FROM => mail.from.as_deref()?,
            RCPT_TO => mail.recipients.get(i)?,
            URL => mail.message.as_ref()?.urls.get(i)?,
            RECEIVED => {
                let fields = mail.message.as_ref()?.fields().iter();
                &fields.filter(|field| field.is("received")).nth(i)?.value
            }
            buffer => field(mail.message.as_ref()?, name(buffer)?)?,
        };
        Some(Bytes::whole(bytes))
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(mail) = self.session.transactions.at(place) {
            envelope(&self.session, &mail.data, fields);
            if let Some(message) = &mail.data.message {
                email(message, fields);
            }
        }
    }
}

fn name(buffer: Buffer) -> Option<&'static str> {
    Some(match buffer {
        FROM => "from",
        SUBJECT => "subject",
        TO => "to",
        CC => "cc",
        DATE => "date",
        MESSAGE_ID => "message-id",
        X_MAILER => "x-mailer",
        _ => return None,
    })
}

/// The first field of a name.
fn field<'a>(message: &'a Message, name: &str) -> Option<&'a [u8]> {
    let mut fields = message.fields().iter();
    fields.find(|field| field.is(name)).map(|field| field.value.as_slice())
}

fn envelope(session: &Session, mail: &Mail, fields: &mut Fields) {
    let mut smtp = Fields::default();
    if let Some(helo) = &session.helo {
        smtp.text("helo", helo);
    }
    if let Some(from) = &mail.from {
        smtp.text("mail_from", from);
    }
    if !mail.recipients.is_empty() {
        smtp.list("rcpt_to", mail.recipients.iter().map(|address| text(address)).collect());
    }
    fields.object("smtp", smtp);
}

fn email(message: &Message, fields: &mut Fields) {
    let mut email = Fields::default();
    if let Some(from) = field(message, "from") {
        email.text("from", from);
    }
    for name in ["to", "cc"] {
        let addresses = field(message, name).map(addresses).unwrap_or_default();
        if !addresses.is_empty() {
            email.list(name, addresses);
        }
    }
    email.text("status", b"PARSE_DONE");
    if !message.attachments.is_empty() {
        email.list("attachment", message.attachments.iter().map(|name| text(name)).collect());
    }
    if !message.urls.is_empty() {
        email.list("url", message.urls.iter().rev().map(|url| text(url)).collect());
    }
    if let Some(md5) = message.body_md5() {
        email.text("body_md5", hex(md5).as_bytes());
    }
    fields.object("email", email);
}

/// Addresses between commas that are not in quotes.
fn addresses(value: &[u8]) -> Vec<Value> {
    let mut list = Vec::new();
    let mut begin = 0;
    let mut is_quoted = false;
    for (place, &byte) in value.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                list.push(value.get(begin..place).unwrap_or_default());
                begin = place + 1;
            }
            _ => {}
        }
    }
    list.push(value.get(begin..).unwrap_or_default());
    let list = list.into_iter().map(<[u8]>::trim_ascii_start);
    list.filter(|address| !address.is_empty()).map(text).collect()
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}
