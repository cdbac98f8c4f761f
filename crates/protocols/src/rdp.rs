//! RDP ([MS-RDPBCGR]) up to where its connection is agreed on, or its TLS begins. Each message of
//! that is a transaction of its own.

mod wire;

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::tables::{TWO_STATES, transactions_in};
use crate::transaction::Transactions;
use wire::{Answer, Item, Stop};

/// The most messages that wait for inspection; the oldest go.
const TRANSACTIONS_MAX: usize = 1024;

/// The version of TPKT (RFC 1006, section 6), the first byte of all messages.
const TPKT: u8 = 3;

/// TLS's record type of handshakes.
const HANDSHAKE: u8 = 22;

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Rdp,
    events: &[],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[3389],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: false,
    first: None,
    make: |_, _| Some(Box::new(Rdp::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    if question.bytes.first() == Some(&TPKT) { Guess::Yes } else { Guess::Unsure }
}

#[derive(Default)]
struct Rdp {
    messages: Transactions<Item>,
    /// TLS has begun.
    is_tls: bool,
    /// The rest is of no interest.
    is_over: bool,
}

impl Rdp {
    fn add(&mut self, direction: Direction, item: Item, wishes: &mut Wishes) {
        if self.messages.len() >= TRANSACTIONS_MAX {
            self.messages.remove(0);
        }
        let Some(transaction) = self.messages.push(item) else { return };
        transaction.state.progress = [1, 1];
        transaction.state.touch(direction);
        if let Some(skip) = transaction.state.skip.get_mut(direction.reverse().index()) {
            *skip = true;
        }
        wishes.inspect(direction);
    }

    /// Takes a message; says how long it is.
    fn message(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        wishes: &mut Wishes,
    ) -> Result<usize, Stop> {
        if self.is_tls {
            return self.record(direction, bytes, wishes);
        }
        match wire::read(bytes) {
            Ok((item, length)) => {
                let is_up = direction == Direction::ToServer;
                let item = item.filter(|item| item.is_of_client() == is_up);
                if let Some(item) = item {
                    self.is_over |= matches!(item, Item::Connected);
                    self.add(direction, item, wishes);
                }
                Ok(length)
            }
            Err(Stop::Wrong) if bytes.first() == Some(&HANDSHAKE) => {
                self.is_tls = true;
                self.record(direction, bytes, wishes)
            }
            Err(stop) => Err(stop),
        }
    }

    fn record(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        wishes: &mut Wishes,
    ) -> Result<usize, Stop> {
        let (certificates, length) = wire::read_tls(bytes)?;
        if let Some(certificates) = certificates
            && direction == Direction::ToClient
        {
            self.add(direction, Item::Certificates(certificates), wishes);
            self.is_over = true;
        }
        Ok(length)
    }
}

impl Parser for Rdp {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut consumed = 0;
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            if self.is_over {
                break;
            }
            match self.message(input.direction, rest, wishes) {
                Ok(length) => consumed += length,
                Err(Stop::More) => {
                    return Outcome::Incomplete { consumed, needed: rest.len() + 1 };
                }
                Err(Stop::Wrong) => return Outcome::Failed,
            }
        }
        Outcome::Done
    }

    transactions_in!(messages);

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        if let Some(transaction) = self.messages.at(place) {
            describe(transaction.state.id, &transaction.data, fields);
        }
    }
}

/// Names of the bits that are set.
fn bits(value: u8, names: &[(u8, &str)]) -> Vec<Value> {
    let set = names.iter().filter(|(bit, _)| value & bit != 0);
    set.map(|(_, name)| Value::Text((*name).to_owned())).collect()
}

fn describe(id: u64, item: &Item, fields: &mut Fields) {
    let mut rdp = Fields::default();
    rdp.number("tx_id", i64::try_from(id).unwrap_or(i64::MAX).saturating_add(1));
    match item {
        Item::Request { cookie, flags } => {
            rdp.text("event_type", b"initial_request");
            if let Some(cookie) = cookie {
                rdp.text("cookie", cookie);
            }
            let names = [
                (1, "restricted_admin_mode_required"),
                (2, "redirected_authentication_mode_required"),
                (8, "correlation_info_present"),
            ];
            if let Some(flags) = flags.filter(|flags| *flags != 0) {
                rdp.list("flags", bits(flags, &names));
            }
        }
        Item::Confirm(answer) => {
            rdp.text("event_type", b"initial_response");
            if let Some(answer) = answer {
                describe_answer(answer, &mut rdp);
            }
        }
        Item::Connect { channels } => {
            rdp.text("event_type", b"connect_request");
            if !channels.is_empty() {
                let texts = channels.iter().map(|name| String::from_utf8_lossy(name).into_owned());
                rdp.list("channels", texts.map(Value::Text).collect());
            }
        }
        Item::Connected => rdp.text("event_type", b"connect_response"),
        Item::Certificates(certificates) => {
            rdp.text("event_type", b"tls_handshake");
            let serials = certificates.iter().filter_map(|certificate| {
                let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
                Some(Value::Text(format!("{:x}", read.tbs_certificate.serial)))
            });
            rdp.list("x509_serials", serials.collect());
        }
    }
    fields.object("rdp", rdp);
}

fn describe_answer(answer: &Answer, rdp: &mut Fields) {
    match answer {
        Answer::Protocol { flags, protocol } => {
            let names = [
                (1, "extended_client_data"),
                (2, "dynvc_gfx"),
                (8, "restricted_admin"),
                (16, "redirected_authentication"),
            ];
            if *flags != 0 {
                rdp.list("server_supports", bits(*flags, &names));
            }
            let name: &[u8] = match protocol {
                0 => b"rdp",
                1 => b"ssl",
                2 => b"hybrid",
                4 => b"rds_tls",
                _ => b"hybrid_ex",
            };
            rdp.text("protocol", name);
        }
        Answer::Failure(code) => {
            rdp.number("error_code", i64::from(*code));
        }
    }
}

#[cfg(test)]
mod tests;
