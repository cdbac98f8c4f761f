//! SIP over UDP and TCP (RFC 3261) with session descriptions (RFC 4566). Each message is a
//! transaction of its own.

mod record;
pub mod sdp;
pub mod wire;

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, to_client, to_server};
use crate::parser::{At, Flow, Input, Module, Outcome, Parser, Pattern, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, row, row_with_aliases, stream_begins, transactions_in};
use crate::transaction::Transactions;
use sdp::Description;
use wire::{Defect, Message, Start};

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 4096;

const INCOMPLETE_DATA: u8 = 0;
const INVALID_DATA: u8 = 1;

const fn buffer(place: u8) -> Buffer {
    Buffer::new(rooms::SIP, place)
}

const METHOD: Buffer = buffer(0);
const URI: Buffer = buffer(1);
const PROTOCOL: Buffer = buffer(2);
const STAT_CODE: Buffer = buffer(3);
const STAT_MSG: Buffer = buffer(4);
const REQUEST_LINE: Buffer = buffer(5);
const RESPONSE_LINE: Buffer = buffer(6);
const FROM: Buffer = buffer(7);
const TO: Buffer = buffer(8);
const VIA: Buffer = buffer(9);
const USER_AGENT: Buffer = buffer(10);
const CONTENT_TYPE: Buffer = buffer(11);
const CONTENT_LENGTH: Buffer = buffer(12);
const SDP_NAME: Buffer = buffer(13);
const SDP_INFO: Buffer = buffer(14);
const SDP_ORIGIN: Buffer = buffer(15);
const SDP_URI: Buffer = buffer(16);
const SDP_EMAIL: Buffer = buffer(17);
const SDP_PHONE: Buffer = buffer(18);
const SDP_CONNECTION: Buffer = buffer(19);
const SDP_BANDWIDTH: Buffer = buffer(20);
const SDP_TIME: Buffer = buffer(21);
const SDP_REPEAT: Buffer = buffer(22);
const SDP_ZONE: Buffer = buffer(23);
const SDP_KEY: Buffer = buffer(24);
const SDP_ATTRIBUTE: Buffer = buffer(25);
const SDP_MEDIA: Buffer = buffer(26);
const SDP_MEDIA_INFO: Buffer = buffer(27);
const SDP_MEDIA_CONNECTION: Buffer = buffer(28);
const SDP_MEDIA_KEY: Buffer = buffer(29);

const BOTH: &[Engine] = &[to_server(Protocol::Sip, 0), to_client(Protocol::Sip, 0)];
const REQUEST: &[Engine] = &[to_server(Protocol::Sip, 0)];
const RESPONSE: &[Engine] = &[to_client(Protocol::Sip, 0)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Sip,
    events: &["incomplete_data", "invalid_data"],
    states: TWO_STATES,
    buffers: &[
        row(METHOD, "sip.method", Kind::Single, REQUEST),
        row(URI, "sip.uri", Kind::Single, REQUEST),
        row(PROTOCOL, "sip.protocol", Kind::Single, BOTH),
        row(STAT_CODE, "sip.stat_code", Kind::Single, RESPONSE),
        row(STAT_MSG, "sip.stat_msg", Kind::Single, RESPONSE),
        row(REQUEST_LINE, "sip.request_line", Kind::Single, REQUEST),
        row(RESPONSE_LINE, "sip.response_line", Kind::Single, RESPONSE),
        row(FROM, "sip.from", Kind::Multi, BOTH),
        row(TO, "sip.to", Kind::Multi, BOTH),
        row(VIA, "sip.via", Kind::Multi, BOTH),
        row_with_aliases(USER_AGENT, "sip.user_agent", &["sip.ua"], Kind::Multi, BOTH),
        row(CONTENT_TYPE, "sip.content_type", Kind::Multi, BOTH),
        row(CONTENT_LENGTH, "sip.content_length", Kind::Multi, BOTH),
        row(SDP_NAME, "sdp.session_name", Kind::Single, BOTH),
        row(SDP_INFO, "sdp.session_info", Kind::Single, BOTH),
        row(SDP_ORIGIN, "sdp.origin", Kind::Single, BOTH),
        row(SDP_URI, "sdp.uri", Kind::Single, BOTH),
        row(SDP_EMAIL, "sdp.email", Kind::Single, BOTH),
        row(SDP_PHONE, "sdp.phone_number", Kind::Single, BOTH),
        row(SDP_CONNECTION, "sdp.connection_data", Kind::Single, BOTH),
        row(SDP_BANDWIDTH, "sdp.bandwidth", Kind::Multi, BOTH),
        row(SDP_TIME, "sdp.time", Kind::Multi, BOTH),
        row(SDP_REPEAT, "sdp.repeat_time", Kind::Multi, BOTH),
        row(SDP_ZONE, "sdp.timezone", Kind::Single, BOTH),
        row(SDP_KEY, "sdp.encryption_key", Kind::Single, BOTH),
        row(SDP_ATTRIBUTE, "sdp.attribute", Kind::Multi, BOTH),
        row(SDP_MEDIA, "sdp.media.media", Kind::Multi, BOTH),
        row(SDP_MEDIA_INFO, "sdp.media.media_info", Kind::Multi, BOTH),
        row(SDP_MEDIA_CONNECTION, "sdp.media.connection_data", Kind::Multi, BOTH),
        row(SDP_MEDIA_KEY, "sdp.media.encryption_key", Kind::Multi, BOTH),
    ],
    numbers: &[],
    patterns: &[
        method(Carrier::Udp, b"REGISTER"),
        method(Carrier::Udp, b"INVITE"),
        method(Carrier::Udp, b"ACK"),
        method(Carrier::Udp, b"BYE"),
        method(Carrier::Udp, b"CANCEL"),
        method(Carrier::Udp, b"REFER"),
        method(Carrier::Udp, b"PRACK"),
        method(Carrier::Udp, b"SUBSCRIBE"),
        method(Carrier::Udp, b"NOTIFY"),
        method(Carrier::Udp, b"PUBLISH"),
        method(Carrier::Udp, b"MESSAGE"),
        method(Carrier::Udp, b"INFO"),
        method(Carrier::Udp, b"UPDATE"),
        version(Carrier::Udp),
        method(Carrier::Tcp, b"REGISTER"),
        method(Carrier::Tcp, b"INVITE"),
        method(Carrier::Tcp, b"ACK"),
        method(Carrier::Tcp, b"BYE"),
        method(Carrier::Tcp, b"CANCEL"),
        method(Carrier::Tcp, b"REFER"),
        method(Carrier::Tcp, b"PRACK"),
        method(Carrier::Tcp, b"SUBSCRIBE"),
        method(Carrier::Tcp, b"NOTIFY"),
        method(Carrier::Tcp, b"PUBLISH"),
        method(Carrier::Tcp, b"MESSAGE"),
        method(Carrier::Tcp, b"INFO"),
        version(Carrier::Tcp),
    ],
    probes: &[],
    accepts_gaps: false,
    first: None,
    make: |_, flow| Some(Box::new(Sip::new(flow))),
};

const fn method(carrier: Carrier, bytes: &'static [u8]) -> Pattern {
    Pattern { carrier, case: true, ..stream_begins(Direction::ToServer, bytes) }
}

/// Within the first eight bytes.
const fn version(carrier: Carrier) -> Pattern {
    Pattern { carrier, case: true, depth: 8, ..stream_begins(Direction::ToClient, b"SIP/2.0") }
}

struct Sip {
    carrier: Carrier,
    transactions: Transactions<Message>,
    /// The frame of a message is open, by direction.
    open: [bool; 2],
}

impl Sip {
    fn new(flow: &Flow) -> Self {
        Self { carrier: flow.carrier, transactions: Transactions::default(), open: [false; 2] }
    }

    fn event(&mut self, event: u8) {
        if let Some(last) = self.transactions.last_mut() {
            last.state.event(event);
        }
    }

    fn add(&mut self, direction: Direction, message: Message) {
        if self.transactions.len() >= TRANSACTIONS_MAX {
            self.transactions.remove(0);
        }
        let Some(transaction) = self.transactions.push(message) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
    }

    /// Marks the parts of a message; says the number of its transaction, which Suricata counts
    /// from 1 for frames. As there, the parts are counted from the beginning of the bytes at hand.
    fn mark(&self, direction: Direction, message: &Message, wishes: &mut Wishes) -> u64 {
        let id = self.transactions.total() + 1;
        let [line, headers, body] = match direction {
            Direction::ToServer => ["request.line", "request.headers", "request.body"],
            Direction::ToClient => ["response.line", "response.headers", "response.body"],
        };
        let [line_bytes, fields_bytes, body_bytes] = message.lengths;
        wishes.open_frame(line, 0, Some(line_bytes as u64), Some(id));
        wishes.open_frame(headers, line_bytes, Some(fields_bytes as u64), Some(id));
        if body_bytes > 0 {
            let at = line_bytes + fields_bytes + 2;
            wishes.open_frame(body, at, Some(body_bytes as u64), Some(id));
        }
        id
    }

    fn stream(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            if let Some(open) = self.open.get_mut(input.direction.index())
                && !std::mem::replace(open, true)
            {
                wishes.open_frame("pdu", consumed, None, None);
            }
            match read(input.direction, rest) {
                Ok((message, taken)) => {
                    let id = self.mark(input.direction, &message, wishes);
                    wishes.close_frame("pdu", consumed + taken, Some(id));
                    if let Some(open) = self.open.get_mut(input.direction.index()) {
                        *open = false;
                    }
                    self.add(input.direction, message);
                    wishes.inspect(input.direction);
                    consumed += taken;
                }
                Err(Defect::Incomplete) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Defect::Invalid) => {
                    self.event(INVALID_DATA);
                    return Outcome::Failed;
                }
            }
        }
        let fine = !input.bytes.is_empty() || input.end;
        if fine { Outcome::Done } else { Outcome::Failed }
    }
}

fn read(direction: Direction, bytes: &[u8]) -> Result<(Message, usize), Defect> {
    match direction {
        Direction::ToServer => Message::read_request(bytes),
        Direction::ToClient => Message::read_response(bytes),
    }
}

impl Parser for Sip {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if self.carrier == Carrier::Tcp {
            return self.stream(input, wishes);
        }
        wishes.open_frame("pdu", 0, Some(input.bytes.len() as u64), None);
        let event = match read(input.direction, input.bytes) {
            Ok((message, _)) => {
                self.mark(input.direction, &message, wishes);
                self.add(input.direction, message);
                return Outcome::Done;
            }
            Err(Defect::Incomplete) => INCOMPLETE_DATA,
            Err(Defect::Invalid) => INVALID_DATA,
        };
        self.event(event);
        Outcome::Failed
    }

    transactions_in!(transactions);

    fn buffer(&self, place: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        let message = &self.transactions.at(place)?.data;
        let is_request = matches!(message.start, Start::Request { .. });
        if is_request != (at.direction == Direction::ToServer) {
            return None;
        }
        let description = message.description.as_ref();
        let bytes = match field_name(at.buffer) {
            Some(name) => message.values(name).nth(i)?,
            None => start(message, at.buffer)
                .or_else(|| described(description?, at.buffer, i).map(str::as_bytes))?,
        };
        Some(Bytes::whole(bytes))
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.transactions.at(place) {
            record::write(&transaction.data, fields);
        }
    }
}

fn field_name(buffer: Buffer) -> Option<&'static str> {
    Some(match buffer {
        FROM => "From",
        TO => "To",
        VIA => "Via",
        USER_AGENT => "User-Agent",
        CONTENT_TYPE => "Content-Type",
        CONTENT_LENGTH => "Content-Length",
        _ => return None,
    })
}

/// Buffers of the first line; empty ones are not there.
fn start(message: &Message, buffer: Buffer) -> Option<&[u8]> {
    let bytes = match (&message.start, buffer) {
        (Start::Request { method, .. }, METHOD) => method.as_bytes(),
        (Start::Request { uri, .. }, URI) => uri.as_bytes(),
        (Start::Request { version, .. } | Start::Response { version, .. }, PROTOCOL) => {
            version.as_bytes()
        }
        (Start::Response { code, .. }, STAT_CODE) => code.as_bytes(),
        (Start::Response { reason, .. }, STAT_MSG) => reason.as_bytes(),
        (Start::Request { .. }, REQUEST_LINE) | (Start::Response { .. }, RESPONSE_LINE) => {
            message.line.as_slice()
        }
        _ => return None,
    };
    Some(bytes).filter(|bytes| !bytes.is_empty())
}

/// Buffers of session descriptions.
fn described(description: &Description, buffer: Buffer, i: usize) -> Option<&str> {
    let media = || description.media.get(i);
    match buffer {
        SDP_NAME => Some(&description.name),
        SDP_INFO => description.info.as_deref(),
        SDP_ORIGIN => Some(&description.origin),
        SDP_URI => description.uri.as_deref(),
        SDP_EMAIL => description.email.as_deref(),
        SDP_PHONE => description.phone.as_deref(),
        SDP_CONNECTION => description.connection.as_deref(),
        SDP_BANDWIDTH => description.bandwidths.get(i).map(String::as_str),
        SDP_TIME => description.times.get(i).map(|(time, _)| time.as_str()),
        SDP_REPEAT => description.times.get(i)?.1.as_deref(),
        SDP_ZONE => description.zone.as_deref(),
        SDP_KEY => description.key.as_deref(),
        SDP_ATTRIBUTE => description.attributes.get(i).map(String::as_str),
        SDP_MEDIA => media().map(|media| media.media.as_str()),
        SDP_MEDIA_INFO => media()?.info.as_deref(),
        SDP_MEDIA_CONNECTION => media()?.connection.as_deref(),
        SDP_MEDIA_KEY => media()?.key.as_deref(),
        _ => None,
    }
}
