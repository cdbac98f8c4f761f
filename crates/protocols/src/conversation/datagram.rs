//! Datagrams: each is detected and parsed by itself.

use gauntlet_packet::Direction;

use super::{Conversation, Known, Orders};
use crate::detect::{self, Found, Hints};
use crate::event::PacketEvent;
use crate::parser::Question;

impl Conversation {
    /// Takes a datagram.
    pub fn datagram(&mut self, direction: Direction, bytes: &[u8]) -> Orders {
        let mut orders = Orders::default();
        let failed = self.sides.iter().all(|side| side.known == Known::Failed);
        if self.disabled || failed {
            return orders;
        }
        let mut direction = direction;
        if self.side(direction).known == Known::Unknown {
            let found = self.ask_datagram(direction, bytes);
            self.take_found(direction, found, &mut orders);
            // The other side is not waited for.
            self.sides.iter_mut().for_each(|side| side.decided = true);
            if let (Some(_), Some(Found { reversed: true, .. })) = (self.known.protocol(), found) {
                self.sides.reverse();
                self.flow.ports = (self.flow.ports.1, self.flow.ports.0);
                orders.reverse = true;
                direction = direction.reverse();
            }
        }
        let Some(protocol) = self.known.protocol() else { return orders };
        if !self.prepare(protocol) {
            self.disable(&mut orders);
            return orders;
        }
        self.parse_bytes(direction, protocol, bytes, &mut orders);
        self.side_mut(direction).needed = 0;
        orders
    }

    fn ask_datagram(&mut self, direction: Direction, bytes: &[u8]) -> Option<Found> {
        let other = self.side(direction.reverse()).known.protocol();
        let (flow, settings) = (self.flow, self.settings.clone());
        let announced = self.announced.as_ref().map(|announced| announced.protocol);
        let question = Question { flow: &flow, direction, bytes, other, other_bytes: 0 };
        let hints = Hints { other, expected: None };
        let side = self.side_mut(direction);
        let found = detect::detect(&settings, &question, &mut side.progress, hints);
        found.or(announced.map(|protocol| Found { protocol, reversed: false, by_pattern: false }))
    }

    fn take_found(&mut self, direction: Direction, found: Option<Found>, orders: &mut Orders) {
        let other = self.side(direction.reverse()).known;
        let Some(found) = found else {
            self.side_mut(direction).known = match other {
                Known::Unknown => Known::Failed,
                other => {
                    self.known = other;
                    other
                }
            };
            if other == Known::Unknown && self.known == Known::Unknown {
                self.known = Known::Failed;
            }
            return;
        };
        self.side_mut(direction).known = Known::Is(found.protocol);
        match other {
            Known::Is(other) if other != found.protocol => {
                orders.events.push(PacketEvent::MismatchProtocolBothDirections);
            }
            Known::Is(_) => {}
            Known::Unknown | Known::Failed => self.known = Known::Is(found.protocol),
        }
    }
}
