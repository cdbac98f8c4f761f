//! How FTP is recognised, what rules may look at, and its record.

use gauntlet_packet::Direction;

use super::session::{EVENTS, Exchange, Session};
use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Pattern, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, stream_begins};
use crate::transaction::State;

const COMMAND: Buffer = Buffer::new(rooms::FTP, 0);
const COMMAND_DATA: Buffer = Buffer::new(rooms::FTP, 1);
const REPLY: Buffer = Buffer::new(rooms::FTP, 2);
const COMPLETION_CODE: Buffer = Buffer::new(rooms::FTP, 3);

/// The port that was agreed on.
const DYNAMIC_PORT: Number = Number::new(rooms::FTP, 0);
/// 1 if the server connects for data, 0 if the client does.
const MODE: Number = Number::new(rooms::FTP, 1);
/// 1 once a final reply was seen.
const REPLY_RECEIVED: Number = Number::new(rooms::FTP, 2);
/// The IPv4 address that PORT names; a rule compares it with the client's.
const BOUNCE: Number = Number::new(rooms::FTP, 3);

const REQUEST: &[Engine] = &[to_server(Protocol::Ftp, 1)];
const RESPONSE: &[Engine] = &[to_client(Protocol::Ftp, 1)];
const BOTH: &[Engine] = &[to_server(Protocol::Ftp, 1), to_client(Protocol::Ftp, 1)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Ftp,
    events: EVENTS,
    states: TWO_STATES,
    buffers: &[
        row(COMMAND, "ftp.command", Kind::Single, REQUEST),
        row(COMMAND_DATA, "ftp.command_data", Kind::Single, REQUEST),
        row(REPLY, "ftp.reply", Kind::Multi, RESPONSE),
        row(COMPLETION_CODE, "ftp.completion_code", Kind::Multi, RESPONSE),
    ],
    numbers: &[
        number_row(DYNAMIC_PORT, "ftp.dynamic_port", BOTH),
        number_row(MODE, "ftp.mode", BOTH),
        number_row(REPLY_RECEIVED, "ftp.reply_received", &[to_client(Protocol::Ftp, 0)]),
        number_row(BOUNCE, "ftpbounce", REQUEST),
    ],
    patterns: &[
        stream_begins(Direction::ToClient, b"220 ("),
        stream_begins(Direction::ToServer, b"FEAT"),
        Pattern {
            confirm: Some((probe_user, 5, 5)),
            case: true,
            ..stream_begins(Direction::ToServer, b"USER ")
        },
        stream_begins(Direction::ToServer, b"PASS "),
        stream_begins(Direction::ToServer, b"PORT "),
    ],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[21],
        direction: Direction::ToServer,
        min: 0,
        max: 5,
        to_port: None,
        from_port: Some(probe_greeting),
    }],
    accepts_gaps: false,
    first: None,
    make: |settings, _| Some(Box::new(Ftp { session: Session::new(&settings.ftp) })),
};

/// POP3 begins with the same command.
fn probe_user(asked: &Question<'_>) -> Guess {
    if asked.other == Some(Protocol::Pop3) { Guess::No } else { Guess::Yes }
}

/// A greeting; SMTP has the same, so that the client's side must have spoken.
fn probe_greeting(asked: &Question<'_>) -> Guess {
    let rest = match asked.bytes {
        [b'2', b'2', b'0', b' ' | b'-', rest @ ..] => rest,
        [_, _, _, _, _, ..] => return Guess::No,
        _ => return Guess::Unsure,
    };
    let client_fits =
        asked.other == Some(Protocol::Ftp) || (asked.other_bytes > 4 && asked.other.is_none());
    if client_fits && rest.contains(&b'\n') { Guess::Yes } else { Guess::Unsure }
}

struct Ftp {
    session: Session,
}

impl Parser for Ftp {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        self.session.parse(input, wishes)
    }

    fn count(&self) -> usize {
        self.session.exchanges.len()
    }

    fn state(&self, place: usize) -> Option<&State> {
        self.session.exchanges.at(place).map(|exchange| &exchange.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut State> {
        self.session.exchanges.at_mut(place).map(|exchange| &mut exchange.state)
    }

    fn remove(&mut self, place: usize) {
        self.session.exchanges.remove(place);
    }

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let exchange = &self.session.exchanges.at(place)?.data;
        let command = exchange.command?;
        match at.buffer {
            COMMAND => Some(Bytes::whole(command.as_bytes())),
            // With the zero byte at its end, as Suricata shows it.
            COMMAND_DATA => {
                let data = exchange.line.get(command.len()..).filter(|data| !data.is_empty())?;
                Some(Bytes::made([data.get(1..)?, b"\0"].concat()))
            }
            REPLY => Some(Bytes::whole(&exchange.replies.get(i)?.text)),
            COMPLETION_CODE => Some(Bytes::whole(&exchange.replies.get(i)?.code)),
            _ => None,
        }
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let exchange = &self.session.exchanges.at(place)?.data;
        if i > 0 {
            return None;
        }
        match number {
            BOUNCE => self.session.port_address().map(i64::from),
            REPLY_RECEIVED => exchange.command.map(|_| i64::from(exchange.is_done)),
            DYNAMIC_PORT => exchange.command.and(exchange.port).map(i64::from),
            MODE => exchange.command.and(exchange.port).map(|_| i64::from(exchange.is_active)),
            _ => None,
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(exchange) = self.session.exchanges.at(place) {
            write(&exchange.data, fields);
        }
    }
}

fn write(exchange: &Exchange, fields: &mut Fields) {
    let mut ftp = Fields::default();
    if let Some(command) = exchange.command {
        ftp.text("command", command.as_bytes());
        if let Some(data) = exchange.line.get(command.len() + 1..) {
            ftp.text("command_data", data);
            ftp.truth("command_truncated", exchange.is_cut);
        }
    }
    let codes = exchange.replies.iter().filter(|reply| !reply.code.is_empty());
    let codes: Vec<Value> = codes.map(|reply| text(&reply.code)).collect();
    if !codes.is_empty() {
        ftp.list("completion_code", codes);
    }
    let texts = exchange.replies.iter().filter(|reply| !reply.text.is_empty());
    let texts: Vec<Value> = texts.map(|reply| text(&reply.text)).collect();
    if !texts.is_empty() {
        ftp.list("reply", texts);
    }
    if let Some(port) = exchange.port {
        ftp.number("dynamic_port", i64::from(port));
    }
    if matches!(exchange.command, Some("PORT" | "EPRT" | "PASV" | "EPSV")) {
        ftp.text("mode", if exchange.is_active { b"active" } else { b"passive" });
    }
    ftp.text("reply_received", if exchange.is_done { b"yes" } else { b"no" });
    ftp.truth("reply_truncated", exchange.replies.iter().any(|reply| reply.is_cut));
    fields.object("ftp", ftp);
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}
