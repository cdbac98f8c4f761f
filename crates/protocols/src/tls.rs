//! TLS and SSL: one transaction a flow, from the first record to the last.
//!
//! What is encrypted is not looked at: once application data goes by, the payload of the flow is
//! no longer inspected (`encryption-handling`).

mod certificate;
mod chain;
mod event;
mod fingerprint;
mod hello;
mod lists;
mod reading;
mod record;
mod session;
mod side;
mod ssl2;
mod table;
pub mod version;

use gauntlet_packet::Direction;

pub use certificate::Certificate;
pub use event::Event;
pub use fingerprint::{Ja3, ja4};
pub use lists::Hello;
pub use session::{Options, Parsed, Sender, Session, flag};
pub use side::Side;
pub(crate) use table::{MODULE, shared};

use crate::buffer::{Bytes, Number};
use crate::parser::{At, Input, Outcome, Parser, Wishes};
use crate::record::Fields;
pub use crate::settings::Encrypted;
pub use crate::settings::tls::Settings;
use crate::tables::single_transaction;
use crate::transaction::State;

/// The parser of a flow.
struct Tls {
    session: Session,
    state: State,
    ja4: bool,
    encrypted: Encrypted,
    ends: [bool; 2],
    removed: bool,
}

impl Tls {
    fn new(settings: &Settings) -> Self {
        Self {
            session: Session::new(Options { ja3: settings.ja3 }),
            state: State::default(),
            ja4: settings.ja4,
            encrypted: settings.encrypted,
            ends: [false; 2],
            removed: false,
        }
    }

    /// Carries over what the session says of progress and events.
    fn update(&mut self, wishes: &mut Wishes) {
        let progress = [self.session.client_progress as u8, self.session.server_progress as u8];
        self.state.progress = progress;
        for event in self.session.events.drain(..) {
            self.state.event(event as u8);
        }
        if self.session.is_encrypted && self.encrypted != Encrypted::Full {
            wishes.no_payload_inspection = true;
        }
        let skip = self.session.is_encrypted || self.session.is_ssl2_encrypted;
        if skip && self.encrypted == Encrypted::Bypass {
            wishes.no_reassembly = true;
            wishes.no_parsing = true;
        }
        if self.session.is_ssl2_encrypted && self.encrypted != Encrypted::Full {
            wishes.no_payload_inspection = true;
            wishes.no_parsing = true;
        }
    }
}

impl Parser for Tls {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        self.state.updated = [true, true];
        let sender = match input.direction {
            Direction::ToServer => Sender::Client,
            Direction::ToClient => Sender::Server,
        };
        if let Some(end) = self.ends.get_mut(input.direction.index()) {
            *end |= input.end;
        }
        let parsed = if input.bytes.is_empty() {
            if !input.end {
                return Outcome::Failed;
            }
            self.session.finish(sender);
            Parsed::Done
        } else {
            self.session.parse(sender, input.bytes)
        };
        if parsed == Parsed::Done && self.ends == [true, true] {
            self.session.finish(Sender::Client);
            self.session.finish(Sender::Server);
        }
        for (name, at, len) in self.session.marks.drain(..) {
            wishes.open_frame(name, at, Some(len as u64), None);
        }
        if std::mem::take(&mut self.session.record_ended) {
            wishes.inspect(input.direction);
        }
        self.update(wishes);
        match parsed {
            Parsed::Done => Outcome::Done,
            Parsed::Incomplete { consumed, needed } => Outcome::Incomplete { consumed, needed },
            Parsed::Failed => Outcome::Failed,
        }
    }

    single_transaction!(state, removed);

    fn buffer(&self, _: usize, at: At, i: usize) -> Option<Bytes<'_>> {
        table::buffer(&self.session, self.ja4, at, i)
    }

    fn number(&self, _: usize, number: Number, direction: Direction, i: usize) -> Option<i64> {
        table::number(&self.session, number, direction, i)
    }

    fn record(&self, _: usize, fields: &mut Fields) {
        record::write(&self.session, fields);
    }
}
