//! Bytes of streams: detection while the protocol is unknown, then the parser.

use gauntlet_packet::Direction;

use super::{Conversation, First, Known, Orders};
use crate::detect::{self, Found, Hints, Progress};
use crate::event::PacketEvent;
use crate::parser::{Outcome, Question, Wishes};
use crate::protocol::Protocol;
use crate::registry;

/// After a change of protocol, so many bytes are enough to give up.
const CHANGE_BYTES_MAX: usize = 4096;
/// One direction may have so many bytes before the other one has any.
const LONELY_BYTES_MAX: u64 = 100_000;

/// Bytes of the headers of a packet of TCP over IP, at least.
const HEADERS_MIN: u64 = 40;

/// How detection went on.
enum Step {
    /// Done, or more bytes are needed.
    Fine,
    /// Detection or parsing ended for good.
    Over,
}

impl Conversation {
    /// Takes bytes of a stream, each once and in order. `end`: none follow in this direction.
    pub fn data(&mut self, direction: Direction, bytes: &[u8], end: bool) -> Orders {
        let mut orders = Orders::default();
        if self.disabled {
            return self.only_tapped(direction, bytes);
        }
        if !bytes.is_empty() {
            self.first_data(direction);
        }
        let side = self.side_mut(direction);
        side.seen += bytes.len() as u64;
        side.ended |= end;
        let is_lost = self.side(direction).completed && self.known == Known::Unknown;
        if !is_lost && !self.pass_on(direction, bytes, &mut orders) {
            let side = self.side_mut(direction);
            side.pending.extend_from_slice(bytes);
            if !side.pending.is_empty() || end {
                self.handle(direction, &mut orders);
            }
        }
        self.order_stops(&mut orders);
        orders
    }

    /// Bytes that no parser wants any more.
    fn only_tapped(&mut self, direction: Direction, bytes: &[u8]) -> Orders {
        if let Some(tap) = &mut self.tap {
            tap.more(direction, bytes);
        }
        let mut orders = Orders::default();
        self.order_stops(&mut orders);
        orders
    }

    /// Hands bytes to the parser without keeping them, if nothing waits before them.
    fn pass_on(&mut self, direction: Direction, bytes: &[u8], orders: &mut Orders) -> bool {
        let side = self.side(direction);
        let (true, Some(protocol)) = (self.change.is_none(), self.known.protocol()) else {
            return false;
        };
        let settled = side.known != Known::Unknown || side.completed;
        if !settled || !side.pending.is_empty() || side.needed > 0 || self.parser.is_none() {
            return false;
        }
        if !bytes.is_empty() || side.ended {
            let (consumed, fine) = self.parse_bytes(direction, protocol, bytes, orders);
            let rest = bytes.get(consumed..).unwrap_or_default();
            if fine && !rest.is_empty() {
                self.side_mut(direction).pending.extend_from_slice(rest);
            }
        }
        true
    }

    /// So many bytes of a stream are missing for good.
    pub fn gap(&mut self, direction: Direction, len: u64) -> Orders {
        let mut orders = Orders::default();
        if let Some(tap) = &mut self.tap {
            tap.gap();
        }
        if self.disabled || len == 0 {
            return orders;
        }
        if self.side(direction).known == Known::Unknown {
            self.side_mut(direction).completed = true;
        }
        let Some(protocol) = self.known.protocol() else {
            // The other direction may still tell; this one is not asked any more.
            self.side_mut(direction).pending = Vec::new();
            orders.failed = true;
            return orders;
        };
        if self.change.take().is_some() {
            orders.failed = true;
            return orders;
        }
        self.side_mut(direction).seen += len;
        orders.updated = true;
        let accepts = registry::module(protocol).is_some_and(|module| module.accepts_gaps);
        if !accepts || !self.prepare(protocol) {
            if let Some(inspect) = orders.wishes.inspect_raw.get_mut(direction.index()) {
                *inspect = true;
            }
            self.fail(&mut orders);
            return orders;
        }
        // What was left of the bytes before the gap will never be complete.
        let side = self.side_mut(direction);
        side.position += side.pending.len() as u64 + len;
        side.pending.clear();
        side.needed = 0;
        let mut wishes = Wishes { changing: self.change.is_some(), ..Wishes::default() };
        let outcome = match &mut self.parser {
            Some(parser) => parser.gap(direction, len, &mut wishes),
            None => Outcome::Done,
        };
        if outcome == Outcome::Failed {
            self.fail(&mut orders);
        }
        self.take_wishes(wishes, &mut orders);
        self.order_stops(&mut orders);
        orders
    }

    fn order_stops(&self, orders: &mut Orders) {
        if self.disabled && !self.is_tapped() {
            orders.stop = [true; 2];
        }
    }

    fn handle(&mut self, direction: Direction, orders: &mut Orders) {
        let side = self.side(direction);
        match (side.known, self.change.is_some()) {
            (Known::Unknown, _) if !side.completed => {
                self.detect_stream(direction, orders);
            }
            (known, true) if known != Known::Unknown => self.redetect(direction, orders),
            _ => {
                if let Some(protocol) = self.known.protocol() {
                    self.parse(direction, protocol, orders);
                }
            }
        }
    }

    /// Detection after CONNECT, STARTTLS and the like.
    fn redetect(&mut self, direction: Direction, orders: &mut Orders) {
        let Some(change) = self.change else { return };
        let (old, known) = (self.parser.take(), self.known);
        let sides = self.sides.each_ref().map(|side| side.known);
        self.known = Known::Unknown;
        for side in &mut self.sides {
            side.known = Known::Unknown;
            side.progress = Progress::default();
            side.completed = false;
        }
        self.replaced = old;
        self.detect_stream(direction, orders);
        if self.disabled {
            self.replaced = None;
            return;
        }
        if self.known == Known::Unknown {
            // Not enough yet: as it was, and again with more bytes.
            self.parser = self.replaced.take();
            self.known = known;
            for (side, known) in self.sides.iter_mut().zip(sides) {
                side.known = known;
            }
            return;
        }
        self.replaced = None;
        if self.change == Some(change) {
            self.change = None;
        }
        if let (Some(expected), Some(found)) = (change.expect, self.known.protocol())
            && expected != found
        {
            orders.events.push(PacketEvent::UnexpectedProtocol);
            if expected == Protocol::Tls {
                orders.events.push(PacketEvent::NoTlsAfterStarttls);
            }
        }
    }

    fn detect_stream(&mut self, direction: Direction, orders: &mut Orders) {
        match self.ask(direction) {
            Some(found) => {
                self.found(direction, found, orders);
            }
            None => self.not_found(direction, orders),
        }
    }

    /// Asks the detector about the pending bytes.
    fn ask(&mut self, direction: Direction) -> Option<Found> {
        let opposite = self.side(direction.reverse());
        // It has sent packets, those of the handshake or the one that acknowledges these bytes.
        let has_sent = !(self.flow.midstream && self.flow.inline);
        let headers = if has_sent { HEADERS_MIN } else { 0 };
        let (other, other_bytes) = (opposite.known.protocol(), opposite.seen + headers);
        let change = self.change;
        let flow = detect::with_port(&self.flow, change.and_then(|change| change.port));
        let hints = Hints { other, expected: change.and_then(|change| change.expect) };
        let settings = self.settings.clone();
        let announced = self.announced.as_ref().map(|announced| announced.protocol);
        let side = self.side_mut(direction);
        let question =
            Question { flow: &flow, direction, bytes: &side.pending, other, other_bytes };
        let found = detect::detect(&settings, &question, &mut side.progress, hints);
        let by_pattern = found.is_some_and(|found| found.by_pattern);
        let other_side = self.side_mut(direction.reverse());
        if by_pattern && other_side.known == Known::Unknown {
            // The protocol's own probe gets a chance, now that it is the one to expect.
            other_side.progress.probes_done = false;
        }
        let announced =
            announced.map(|protocol| Found { protocol, reversed: false, by_pattern: false });
        found.or(announced)
    }

    fn found(&mut self, direction: Direction, found: Found, orders: &mut Orders) -> Step {
        let protocol = found.protocol;
        self.side_mut(direction).known = Known::Is(protocol);
        let other = self.side(direction.reverse()).known;
        self.known = match other {
            Known::Unknown => Known::Is(protocol),
            known if known == Known::Is(protocol) => Known::Is(protocol),
            known => {
                orders.events.push(PacketEvent::MismatchProtocolBothDirections);
                // The server is trusted more, unless data went to a parser already.
                let server = self.first != First::Parsed && direction == Direction::ToClient;
                if server { Known::Is(protocol) } else { known }
            }
        };
        let depth = self.known.protocol().and_then(|p| self.settings.stream_depths.get(&p));
        orders.wishes.depth = depth.copied().or(orders.wishes.depth);
        let side = self.side_mut(direction);
        (side.completed, side.decided) = (true, true);
        let mut direction = direction;
        if found.reversed && self.flow.midstream && other == Known::Unknown {
            self.turn();
            orders.reverse = true;
            direction = direction.reverse();
        }
        let mut is_over = false;
        if let First::Seen(first) = self.first
            && first != direction
        {
            is_over = self.other_first(direction, orders);
            if self.change.take().is_some() {
                orders.events.push(PacketEvent::UnexpectedProtocol);
            }
        }
        let step = self.parse_first(direction, orders);
        if is_over {
            self.disable(orders);
            return Step::Over;
        }
        step
    }

    /// Handles what the other side said before this one was recognised; whether that ended
    /// parsing. What was recognised is parsed nevertheless, once: a server that greets before its
    /// version (RFC 4253 section 4.2) does not hide the client's.
    fn other_first(&mut self, direction: Direction, orders: &mut Orders) -> bool {
        let side = self.side_mut(direction);
        let kept = (std::mem::take(&mut side.pending), side.ended);
        self.handle(direction.reverse(), orders);
        let side = self.side_mut(direction);
        (side.pending, side.ended) = kept;
        self.disabled
    }

    /// The first bytes for a parser, if the right side speaks first.
    fn parse_first(&mut self, direction: Direction, orders: &mut Orders) -> Step {
        let Some(protocol) = self.known.protocol() else { return Step::Over };
        let wanted = registry::module(protocol).and_then(|module| module.first);
        if self.first != First::Parsed
            && let Some(wanted) = wanted
        {
            if self.first != First::Seen(wanted) {
                orders.events.push(PacketEvent::WrongDirectionFirstData);
                self.give_up(orders);
                return Step::Over;
            }
            if wanted != direction {
                // The other side's data is still to come: detect again then.
                self.parser = None;
                self.known = Known::Unknown;
                let side = self.side_mut(direction);
                side.completed = false;
                side.known = Known::Unknown;
                side.progress = Progress::default();
                return Step::Fine;
            }
        }
        self.first = First::Parsed;
        if self.parse(direction, protocol, orders) { Step::Fine } else { Step::Over }
    }

    fn not_found(&mut self, direction: Direction, orders: &mut Orders) {
        let server = self.side(Direction::ToServer).progress;
        if self.flow.midstream && server.patterns_done && server.probes_done {
            self.give_up(orders);
            return;
        }
        let other = self.side(direction.reverse()).known;
        match other {
            Known::Unknown => self.both_unknown(direction, orders),
            other => self.only_other(direction, other, orders),
        }
    }

    /// The other direction was recognised (or given up), this one was not.
    fn only_other(&mut self, direction: Direction, other: Known, orders: &mut Orders) {
        let first = other.protocol().and_then(registry::module).and_then(|module| module.first);
        if self.first != First::Parsed && first.is_some_and(|first| first != direction) {
            self.give_up(orders);
            return;
        }
        let side = self.side(direction);
        let (progress, ended) = (side.progress, side.ended);
        if progress.patterns_done && progress.probes_done {
            if !side.pending.is_empty() {
                self.first = First::Parsed;
            }
            if let Some(protocol) = self.known.protocol() {
                orders.events.push(PacketEvent::DetectProtocolOnlyOneDirection);
                self.side_mut(direction).known = other;
                self.side_mut(direction).completed = true;
                if !self.parse(direction, protocol, orders) {
                    return;
                }
            }
            let side = self.side_mut(direction);
            side.known = Known::Failed;
            (side.completed, side.decided) = (true, true);
        } else if ended {
            self.side_mut(direction).known = self.known;
            self.side_mut(direction).completed = true;
        }
    }

    /// Nothing is known of either direction: is it time to give up?
    fn both_unknown(&mut self, direction: Direction, orders: &mut Orders) {
        if self.change.is_some() {
            let side = self.side(direction);
            if side.pending.len() >= CHANGE_BYTES_MAX || side.ended {
                self.change = None;
                self.give_up(orders);
            }
            return;
        }
        let state = |side: &super::Side| {
            let progress = side.progress;
            (progress.patterns_done, progress.probes_done, side.seen)
        };
        let [to_server, to_client] = &self.sides;
        let ((ts_patterns, ts_probes, ts), (tc_patterns, tc_probes, tc)) =
            (state(to_server), state(to_client));
        let (ts_done, tc_done) = (ts_patterns && ts_probes, tc_patterns && tc_probes);
        let max = LONELY_BYTES_MAX;
        let skipped = ts > 2 * max
            || tc > 2 * max
            || (ts_done && ts > max && tc == 0)
            || (tc_done && tc > max && ts == 0)
            || (tc > max && ts_probes && !ts_patterns && tc_done)
            || (ts > max && tc_probes && !tc_patterns && ts_done);
        if ts_done && tc_done {
            self.give_up(orders);
        } else if skipped {
            orders.events.push(PacketEvent::ProtoDetectionSkipped);
            self.give_up(orders);
        }
    }

    /// Client and server were taken for each other.
    fn turn(&mut self) {
        self.sides.reverse();
        let (client, server) = self.flow.ports;
        self.flow.ports = (server, client);
        if let First::Seen(first) = self.first {
            self.first = First::Seen(first.reverse());
        }
    }
}
