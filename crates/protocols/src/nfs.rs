//! NFS 2 and NFS 3 over TCP and UDP: calls with their replies, and files that are read and
//! written. Of NFS 4 only the frames are known.

mod session;
#[cfg(test)]
mod tests;
mod transfer;
mod wire;

use gauntlet_packet::Direction;

use crate::buffer::{Bytes, Engine, Number, to_server};
use crate::parser::{At, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, number_row};
use session::Session;
use wire::Defect;

/// The fewest bytes of a record that tell.
const PROBE_BYTES_MAX: u16 = 32;

const VERSION: Number = Number::new(rooms::NFS, 0);
const PROCEDURE: Number = Number::new(rooms::NFS, 1);

const REQUEST: &[Engine] = &[to_server(Protocol::Nfs, 0)];

const fn probe_over(carrier: Carrier) -> Probe {
    Probe {
        carrier,
        ports: &[2049],
        direction: Direction::ToServer,
        min: 0,
        max: PROBE_BYTES_MAX,
        to_port: Some(probe),
        from_port: Some(probe),
    }
}

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Nfs,
    events: &[
        "malformed_data",
        "non_existing_version",
        "unsupported_version",
        "too_many_transactions",
    ],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[
        number_row(VERSION, "nfs.version", REQUEST),
        number_row(PROCEDURE, "nfs_procedure", REQUEST),
    ],
    patterns: &[],
    probes: &[probe_over(Carrier::Tcp), probe_over(Carrier::Udp)],
    accepts_gaps: true,
    first: None,
    make: |settings, flow| {
        let is_stream = flow.carrier == Carrier::Tcp;
        Some(Box::new(Nfs { session: Session::new(settings.hashes, is_stream), is_stream }))
    },
};

fn probe(question: &Question<'_>) -> Guess {
    let is_stream = question.flow.carrier == Carrier::Tcp;
    let guess = |direction, yes| match wire::probe(question.bytes, direction, is_stream) {
        Ok(()) => yes,
        Err(Defect::Incomplete) if is_stream => Guess::Unsure,
        Err(_) => Guess::No,
    };
    if !(is_stream && question.flow.midstream) {
        return guess(question.direction, Guess::Yes);
    }
    match wire::Header::peek(question.bytes, Direction::ToClient) {
        Ok((header, _)) if header.is_reply != (question.direction == Direction::ToClient) => {
            guess(question.direction.reverse(), Guess::Reversed)
        }
        Ok(_) => guess(question.direction, Guess::Yes),
        Err(Defect::Incomplete) => Guess::Unsure,
        Err(Defect::Invalid) => Guess::No,
    }
}

struct Nfs {
    session: Session,
    is_stream: bool,
}

impl Nfs {
    fn exchange(&self, place: usize) -> Option<&session::Exchange> {
        Some(&self.session.exchanges.at(place)?.data)
    }
}

impl Parser for Nfs {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() {
            return Outcome::Done;
        }
        if self.is_stream {
            return self.session.stream(input.direction, input.bytes, wishes);
        }
        self.session.datagram(input.direction, input.bytes, wishes);
        Outcome::Done
    }

    fn gap(&mut self, direction: Direction, len: u64, _: &mut Wishes) -> Outcome {
        self.session.missing(direction, len);
        Outcome::Done
    }

    fn count(&self) -> usize {
        self.session.exchanges.len()
    }

    fn state(&self, place: usize) -> Option<&crate::transaction::State> {
        self.session.exchanges.at(place).map(|exchange| &exchange.state)
    }

    fn state_mut(&mut self, place: usize) -> Option<&mut crate::transaction::State> {
        self.session.exchanges.at_mut(place).map(|exchange| &mut exchange.state)
    }

    fn remove(&mut self, place: usize) {
        self.session.exchanges.remove(place);
    }

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }

    fn number(&self, place: usize, number: Number, _: Direction, i: usize) -> Option<i64> {
        let exchange = self.exchange(place)?;
        match number {
            VERSION => (i == 0).then_some(exchange.version.into()),
            _ => exchange.procedure(i).map(i64::from),
        }
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(exchange) = self.exchange(place) else { return };
        let mut nfs = Fields::default();
        nfs.number("version", exchange.version.into());
        nfs.number("procedure", exchange.procedure.into());
        nfs.text("filename", &exchange.name);
        if !exchange.new_name.is_empty() {
            nfs.text("new_filename", &exchange.new_name);
        }
        nfs.truth("file_tx", exchange.is_file());
        fields.object("nfs", nfs);
    }
}
