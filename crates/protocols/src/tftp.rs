//! TFTP (RFC 1350): requests to read and write. Each is a transaction of its own.

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::Fields;
use crate::tables::{TWO_STATES, transactions_in};
use crate::transaction::Transactions;

/// The most requests that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 1024;

/// Shorter datagrams are not taken for TFTP.
const MESSAGE_BYTES_MIN: usize = 4;

const READ: u8 = 1;
const WRITE: u8 = 2;

/// The highest kind of message.
const ERROR: u8 = 5;

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Tftp,
    events: &[],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[69],
        direction: Direction::ToServer,
        min: 0,
        max: 4,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Tftp::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    let is_long = question.bytes.len() >= MESSAGE_BYTES_MIN;
    if is_long && question.bytes.first() == Some(&0) { Guess::Yes } else { Guess::Unsure }
}

struct Request {
    kind: u8,
    file: String,
    mode: String,
}

/// Text up to a zero.
fn text(reader: &mut Reader<'_>) -> Option<String> {
    let end = memchr::memchr(0, reader.rest())?;
    let text = std::str::from_utf8(reader.take(end)?).ok()?.to_owned();
    reader.skip(1)?;
    Some(text)
}

fn read(bytes: &[u8]) -> Option<Request> {
    let mut reader = Reader::new(bytes);
    let kind = reader.be16().and_then(|kind| u8::try_from(kind).ok())?;
    let (file, mode) = (text(&mut reader)?, text(&mut reader)?.to_lowercase());
    let is_known = matches!(mode.as_str(), "netascii" | "mail" | "octet");
    (is_known && (READ..=ERROR).contains(&kind)).then_some(Request { kind, file, mode })
}

#[derive(Default)]
struct Tftp {
    requests: Transactions<Request>,
}

impl Parser for Tftp {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() || input.direction == Direction::ToClient {
            return Outcome::Done;
        }
        let Some(request) = read(input.bytes) else { return Outcome::Failed };
        if self.requests.len() >= TRANSACTIONS_MAX {
            self.requests.remove(0);
        }
        if let Some(transaction) = self.requests.push(request) {
            transaction.state.progress = [1, 1];
            transaction.state.updated = [true, true];
        }
        Outcome::Done
    }

    transactions_in!(requests);

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.requests.at(place) else { return };
        let request = &transaction.data;
        let mut tftp = Fields::default();
        let kind: &[u8] = match request.kind {
            READ => b"read",
            WRITE => b"write",
            _ => b"error",
        };
        tftp.text("packet", kind);
        tftp.text("file", request.file.as_bytes());
        tftp.text("mode", request.mode.as_bytes());
        fields.object("tftp", tftp);
    }
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::parser::{Guess, Outcome};
    use crate::protocol::Carrier::Udp;
    use crate::record::{Fields, Value};
    use crate::testing::{DOWN, UP, guess, play, walk};

    const REQUEST: &[u8] = b"\x00\x02notes.txt\x00OCTET\x00blksize\x00512\x00";

    #[test]
    fn a_request_is_a_transaction() {
        let (parser, _) = play(&MODULE, Udp, &[(UP, REQUEST), (DOWN, b"\x00\x04\x00\x00")]);
        assert_eq!(parser.count(), 1);
        let mut fields = Fields::default();
        parser.record(0, &mut fields);
        let Some((_, Value::Object(inner))) = fields.0.first() else { panic!("no record") };
        assert_eq!(inner.0[0], ("packet", Value::Text("write".to_owned())));
        assert_eq!(inner.0[1], ("file", Value::Text("notes.txt".to_owned())));
        assert_eq!(inner.0[2], ("mode", Value::Text("octet".to_owned())));
        walk(&MODULE, Udp, &[(UP, REQUEST)]);
    }

    #[test]
    fn what_is_no_request_fails() {
        for bytes in [&b"\x00\x06a\x00octet\x00"[..], b"\x00\x01a\x00odd\x00", b"\x00\x01a"] {
            let (parser, outcome) = play(&MODULE, Udp, &[(UP, bytes)]);
            assert_eq!((outcome, parser.count()), (Outcome::Failed, 0));
        }
    }

    #[test]
    fn what_is_recognised() {
        assert_eq!(guess(&MODULE, Udp, UP, REQUEST), Guess::Yes);
        assert_eq!(guess(&MODULE, Udp, UP, b"\x00\x01a"), Guess::Unsure);
        assert_eq!(guess(&MODULE, Udp, UP, b"\x01\x01ab"), Guess::Unsure);
    }
}
