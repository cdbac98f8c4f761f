//! Short forms for the tables that a protocol's module has, and for what parsers whose
//! transactions are in [`crate::transaction::Transactions`] have in common.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Engine, Kind, Number, NumberSpec, Spec};
use crate::parser::Pattern;
use crate::protocol::Carrier;

/// A row of a module's table of buffers.
pub(crate) const fn row(
    buffer: Buffer,
    name: &'static str,
    kind: Kind,
    engines: &'static [Engine],
) -> Spec {
    Spec { buffer, name, aliases: &[], kind, engines }
}

/// The same, with old names.
pub(crate) const fn row_with_aliases(
    buffer: Buffer,
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    engines: &'static [Engine],
) -> Spec {
    Spec { buffer, name, aliases, kind, engines }
}

/// A row of a module's table of numbers.
pub(crate) const fn number_row(
    number: Number,
    name: &'static str,
    engines: &'static [Engine],
) -> NumberSpec {
    NumberSpec { number, name, aliases: &[], engines }
}

/// The methods of [`crate::parser::Parser`] that a field of transactions answers.
macro_rules! transactions_in {
    ($field:ident) => {
        fn count(&self) -> usize {
            self.$field.len()
        }

        fn state(&self, place: usize) -> Option<&crate::transaction::State> {
            self.$field.at(place).map(|transaction| &transaction.state)
        }

        fn state_mut(&mut self, place: usize) -> Option<&mut crate::transaction::State> {
            self.$field.at_mut(place).map(|transaction| &mut transaction.state)
        }

        fn remove(&mut self, place: usize) {
            self.$field.remove(place);
        }
    };
}
pub(crate) use transactions_in;

/// The methods of [`crate::parser::Parser`] that parsers with one transaction a flow answer from a
/// field with its state and one that says whether it was removed.
macro_rules! single_transaction {
    ($state:ident, $removed:ident) => {
        fn count(&self) -> usize {
            usize::from(!self.$removed)
        }

        fn state(&self, place: usize) -> Option<&crate::transaction::State> {
            (place == 0 && !self.$removed).then_some(&self.$state)
        }

        fn state_mut(&mut self, place: usize) -> Option<&mut crate::transaction::State> {
            (place == 0 && !self.$removed).then_some(&mut self.$state)
        }

        fn remove(&mut self, _: usize) {
            self.$removed = true;
        }
    };
}
pub(crate) use single_transaction;

/// A pattern at the very beginning of a stream's direction, letters' case aside.
pub(crate) const fn stream_begins(direction: Direction, bytes: &'static [u8]) -> Pattern {
    Pattern {
        carrier: Carrier::Tcp,
        direction,
        bytes,
        case: false,
        offset: 0,
        depth: bytes.len() as u16,
        confirm: None,
    }
}

/// Names of states of transactions that are there or complete.
pub(crate) const TWO_STATES: [&[&str]; 2] =
    [&["request_started", "request_complete"], &["response_started", "response_complete"]];
