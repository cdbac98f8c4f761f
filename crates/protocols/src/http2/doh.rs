//! DNS over HTTP/2 (RFC 8484): messages in bodies, and in the path of a request.

use gauntlet_packet::Direction;

use super::event::Event;
use super::hpack::Field;
use crate::dns::carried::Carried;

/// What a path with a message begins with.
const PATH: &[u8] = b"/dns-query?dns=";
/// The media type.
const TYPE: &[u8] = b"application/dns-message";
/// The longest message.
const MESSAGE_MAX: usize = 0xffff;

/// The messages of a stream.
#[derive(Default)]
pub(super) struct Doh {
    /// Bodies of this direction are messages.
    is_body: [bool; 2],
    bodies: [Vec<u8>; 2],
    messages: [Option<Carried>; 2],
}

impl Doh {
    /// The message of a direction.
    pub(super) fn message(&self, direction: Direction) -> Option<&Carried> {
        self.messages.get(direction.index())?.as_ref()
    }

    /// Reads header fields. `true`: a message was found in them.
    pub(super) fn take_fields(&mut self, fields: &[Field], direction: Direction) -> bool {
        let value = |name: &[u8]| {
            let mut pairs = fields.iter().map(Field::pair);
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if value(b"content-type") == Some(TYPE)
            && let Some(is_body) = self.is_body.get_mut(direction.index())
        {
            *is_body = true;
        }
        let (Some(path), Some(TYPE)) = (value(b":path"), value(b"accept")) else { return false };
        let encoded = path.strip_prefix(PATH);
        let bytes = encoded.and_then(|text| base64_simd::STANDARD_NO_PAD.decode_to_vec(text).ok());
        bytes.is_some_and(|bytes| self.set(Direction::ToServer, &bytes))
    }

    /// Takes decoded data of a body; `over`: it ends. What is found is a message, or an event.
    pub(super) fn take_data(&mut self, data: &[u8], over: bool, way: Direction) -> Found {
        let place = way.index();
        let (Some(is_body), Some(body)) = (self.is_body.get_mut(place), self.bodies.get_mut(place))
        else {
            return Found::Nothing;
        };
        if !*is_body {
            return Found::Nothing;
        }
        if body.len() + data.len() > MESSAGE_MAX {
            *is_body = false;
            return Found::Event(match way {
                Direction::ToServer => Event::DnsRequestTooLong,
                Direction::ToClient => Event::DnsResponseTooLong,
            });
        }
        body.extend_from_slice(data);
        if !over || body.is_empty() {
            return Found::Nothing;
        }
        let bytes = std::mem::take(body);
        if self.set(way, &bytes) { Found::Message } else { Found::Nothing }
    }

    fn set(&mut self, direction: Direction, bytes: &[u8]) -> bool {
        let message = Carried::read(direction, bytes);
        match (message, self.messages.get_mut(direction.index())) {
            (Some(message), Some(place)) => {
                *place = Some(message);
                true
            }
            _ => false,
        }
    }
}

/// What data of a body led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Message,
    Event(Event),
}
