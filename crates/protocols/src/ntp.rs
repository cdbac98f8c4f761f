//! NTP 3 and 4 (RFC 1305, RFC 5905). Each message is a transaction of its own.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, to_client, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row, row, transactions_in};
use crate::transaction::Transactions;

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 1024;

/// Bytes of a message behind the reference: four times.
const TIMES_BYTES: usize = 32;

const MALFORMED: u8 = 1;

const REFERENCE: Buffer = Buffer::new(rooms::NTP, 0);
const VERSION: Number = Number::new(rooms::NTP, 0);
const MODE: Number = Number::new(rooms::NTP, 1);
const STRATUM: Number = Number::new(rooms::NTP, 2);

const BOTH: &[Engine] = &[to_server(Protocol::Ntp, 1), to_client(Protocol::Ntp, 1)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Ntp,
    events: &["unsolicited_response", "malformed_data"],
    states: TWO_STATES,
    buffers: &[row(REFERENCE, "ntp.reference_id", Kind::Single, BOTH)],
    numbers: &[
        number_row(VERSION, "ntp.version", BOTH),
        number_row(MODE, "ntp.mode", BOTH),
        number_row(STRATUM, "ntp.stratum", BOTH),
    ],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Udp,
        ports: &[123],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Ntp::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    match (question.bytes.first().map(|first| first >> 3 & 7), read(question.bytes)) {
        (None, _) => Guess::Unsure,
        (_, Some(_)) => Guess::Yes,
        (Some(3 | 4), None) => Guess::Unsure,
        (Some(_), None) => Guess::No,
    }
}

struct Message {
    version: u8,
    mode: u8,
    stratum: u8,
    reference: [u8; 4],
}

fn read(bytes: &[u8]) -> Option<Message> {
    let mut reader = Reader::new(bytes);
    let (first, stratum) = (reader.u8()?, reader.u8()?);
    let version = first >> 3 & 7;
    // Poll, precision, delay and dispersion.
    reader.skip(10)?;
    let reference = reader.array()?;
    reader.skip(TIMES_BYTES)?;
    matches!(version, 3 | 4).then_some(Message { version, mode: first & 7, stratum, reference })
}

#[derive(Default)]
struct Ntp {
    messages: Transactions<Message>,
}

impl Parser for Ntp {
    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        let Some(message) = read(input.bytes) else {
            if let Some(last) = self.messages.last_mut() {
                last.state.event(MALFORMED);
            }
            return Outcome::Failed;
        };
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        if let Some(transaction) = self.messages.push(message) {
            transaction.state.progress = [1, 1];
            transaction.state.touch(input.direction);
            if let Some(skip) = transaction.state.skip.get_mut(input.direction.reverse().index()) {
                *skip = true;
            }
        }
        Outcome::Done
    }

    transactions_in!(messages);

    fn buffer(&self, place: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        Some(Bytes::whole(&self.messages.at(place)?.data.reference))
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let message = &self.messages.at(place)?.data;
        let value = match number {
            VERSION => message.version,
            MODE => message.mode,
            _ => message.stratum,
        };
        (i == 0).then_some(i64::from(value))
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.messages.at(place) else { return };
        let message = &transaction.data;
        let mut ntp = Fields::default();
        ntp.number("version", i64::from(message.version));
        ntp.number("mode", i64::from(message.mode));
        ntp.number("stratum", i64::from(message.stratum));
        let reference = message.reference.map(|byte| format!("{byte:02x}"));
        ntp.text("reference_id", reference.join(":").as_bytes());
        fields.object("ntp", ntp);
    }
}

#[cfg(test)]
mod tests {
    use super::MODULE;
    use crate::parser::{Guess, Outcome};
    use crate::protocol::Carrier::Udp;
    use crate::testing::{DOWN, UP, guess, number, play, text, walk};

    fn message(first: u8) -> Vec<u8> {
        let mut all = vec![first, 2];
        all.extend([0; 10]);
        all.extend(b"GPS\0");
        all.extend([0; 32]);
        all
    }

    #[test]
    fn a_message_is_a_transaction() {
        let (request, response) = (message(0x23), message(0x1c));
        let (parser, outcome) = play(&MODULE, Udp, &[(UP, &request), (DOWN, &response)]);
        assert_eq!((outcome, parser.count()), (Outcome::Done, 2));
        assert_eq!(number(parser.as_ref(), 0, "ntp.version"), Some(4));
        assert_eq!(number(parser.as_ref(), 1, "ntp.version"), Some(3));
        assert_eq!(number(parser.as_ref(), 0, "ntp.mode"), Some(3));
        assert_eq!(number(parser.as_ref(), 0, "ntp.stratum"), Some(2));
        assert_eq!(text(parser.as_ref(), 0, "ntp.reference_id", 0).as_deref(), Some(&b"GPS\0"[..]));
        walk(&MODULE, Udp, &[(UP, &request)]);
    }

    #[test]
    fn what_is_recognised() {
        assert_eq!(guess(&MODULE, Udp, UP, &message(0x23)), Guess::Yes);
        assert_eq!(guess(&MODULE, Udp, UP, &message(0x23)[..40]), Guess::Unsure);
        assert_eq!(guess(&MODULE, Udp, UP, &message(0x13)), Guess::No);
        assert_eq!(play(&MODULE, Udp, &[(UP, &message(0x13))]).1, Outcome::Failed);
    }
}
