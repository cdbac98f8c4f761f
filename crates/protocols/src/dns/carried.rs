//! DNS messages that another protocol carries (RFC 8484).

use gauntlet_packet::Direction;

use super::wire::Message;
use super::{Entry, Half, record};
use crate::buffer::{Buffer, Bytes, Number};
use crate::record::Fields;

/// A request or a response.
pub(crate) struct Carried(Entry);

impl Carried {
    /// Reads one that was sent in this direction.
    pub(crate) fn read(direction: Direction, bytes: &[u8]) -> Option<Self> {
        let message = Message::read(bytes)?;
        let half = match direction {
            Direction::ToServer if message.header.is_response() => return None,
            Direction::ToServer => Half::Request,
            Direction::ToClient => Half::Response,
        };
        Some(Self(Entry { half, message }))
    }

    /// The `i`th name of a buffer.
    pub(crate) fn buffer(&self, buffer: Buffer, way: Direction, i: usize) -> Option<Bytes<'_>> {
        self.0.name(buffer, way, i).map(Bytes::whole)
    }

    /// The `i`th number of this name.
    pub(crate) fn number(&self, number: Number, way: Direction, i: usize) -> Option<i64> {
        self.0.number(number, way, i)
    }

    /// The record `dns`.
    pub(crate) fn record(&self, id: u64, fields: &mut Fields) {
        record::unicast(&self.0.message, self.0.half == Half::Request, id, fields);
    }
}
