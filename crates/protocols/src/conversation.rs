//! One flow's application layer: its parser, its transactions, and what both want from others.
//! Detection of the protocol is in `conversation/stream.rs` and `conversation/datagram.rs`.

mod datagram;
mod inspect;
mod sink;
mod stream;

use std::sync::Arc;

use gauntlet_packet::Direction;

use crate::detect::Progress;
use crate::event::PacketEvent;
use crate::frames::{FrameNote, Frames};
use crate::mail::{Mail, Tap};
use crate::parser::{Change, Expectation, Flow, Input, Outcome, Parser, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::registry;
use crate::settings::Settings;

/// What those around the conversation have to do after bytes were handed in.
#[derive(Debug, Clone, Default)]
pub struct Orders {
    /// What parsers wish. With a `change`, what is there of the old protocol's transactions must be
    /// inspected and logged before the next bytes are handed in: they go away with it.
    pub wishes: Wishes,
    /// Events of detection, for the packet at hand.
    pub events: Vec<PacketEvent>,
    /// No more bytes of these directions (to the server, to the client) are wanted here: the
    /// stream need not be reassembled for the application layer.
    pub stop: [bool; 2],
    /// Client and server were taken for each other: the flow is to be turned.
    pub reverse: bool,
    /// Parsing has just failed for good.
    pub failed: bool,
    /// Bytes were parsed: transactions may have changed.
    pub updated: bool,
}

impl Orders {
    fn merge(&mut self, other: Orders) {
        self.wishes.merge(other.wishes);
        self.events.extend(other.events);
        for (mine, theirs) in self.stop.iter_mut().zip(other.stop) {
            *mine |= theirs;
        }
        self.reverse ^= other.reverse;
        self.failed |= other.failed;
        self.updated |= other.updated;
    }
}

/// What a direction, or the flow, was recognised as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Known {
    #[default]
    Unknown,
    Failed,
    Is(Protocol),
}

impl Known {
    fn protocol(self) -> Option<Protocol> {
        match self {
            Known::Is(protocol) => Some(protocol),
            Known::Unknown | Known::Failed => None,
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    known: Known,
    progress: Progress,
    /// Detection is over here.
    completed: bool,
    /// It was recognised or given up, and nobody asked yet.
    decided: bool,
    /// Bytes that nobody took yet.
    pending: Vec<u8>,
    /// So many bytes must be pending before the parser is asked again.
    needed: usize,
    /// Bytes since the beginning or the last change.
    seen: u64,
    /// Where the pending bytes begin in the stream.
    position: u64,
    /// The frame of the whole stream is open.
    framed: bool,
    ended: bool,
    /// Progress cannot be told any more.
    disrupted: bool,
}

/// Who sent data first, while it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum First {
    #[default]
    Nobody,
    Seen(Direction),
    /// Data went to a parser.
    Parsed,
}

/// The application layer of one flow.
pub struct Conversation {
    settings: Arc<Settings>,
    flow: Flow,
    known: Known,
    sides: [Side; 2],
    first: First,
    change: Option<Change>,
    announced: Option<Expectation>,
    parser: Option<Box<dyn Parser>>,
    frames: Frames,
    /// The parser before a change of protocol, while the new one is made.
    replaced: Option<Box<dyn Parser>>,
    /// Nothing more is parsed.
    disabled: bool,
    /// Buffers are handed out for a packet that was made up at the flow's end.
    at_end: bool,
    /// For [`Conversation::take_orders`].
    outbox: Orders,
    /// What the stream engine is told once it has handed over the other side's data.
    again: Option<gauntlet_packet::tcp::Orders>,
    /// Reads whole messages, if they are wanted.
    tap: Option<Box<Tap>>,
}

impl Conversation {
    /// Of a new flow.
    pub fn new(settings: Arc<Settings>, flow: Flow) -> Self {
        Self {
            settings,
            flow,
            known: Known::Unknown,
            sides: [Side::default(), Side::default()],
            first: First::Nobody,
            change: None,
            announced: None,
            parser: None,
            frames: Frames::default(),
            replaced: None,
            disabled: false,
            at_end: false,
            outbox: Orders::default(),
            again: None,
            tap: None,
        }
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// This flow was announced by another one.
    pub fn expect(&mut self, expectation: &Expectation) {
        self.announced = Some(expectation.clone());
    }

    /// A segment with data was seen in this direction, though its bytes may not be handed in yet.
    /// Only the first call counts.
    pub fn first_data(&mut self, direction: Direction) {
        if self.first == First::Nobody {
            self.first = First::Seen(direction);
        }
    }

    /// Whether bytes of this direction were handed in.
    pub fn has_data(&self, direction: Direction) -> bool {
        self.side(direction).seen > 0
    }

    /// The flow's protocol, once it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.known.protocol()
    }

    /// The protocol that this direction was recognised as.
    pub fn protocol_of(&self, direction: Direction) -> Option<Protocol> {
        self.side(direction).known.protocol()
    }

    /// By direction: it was recognised or given up since the last call.
    pub fn take_decided(&mut self) -> [bool; 2] {
        self.sides.each_mut().map(|side| std::mem::take(&mut side.decided))
    }

    /// Whether bytes of this direction wait for more of them, as it is not recognised yet.
    pub fn is_undecided(&self, direction: Direction) -> bool {
        let side = self.side(direction);
        !self.disabled && !side.completed && !side.pending.is_empty()
    }

    /// Whether the protocol is unknown for good.
    pub fn is_unknown(&self) -> bool {
        self.known == Known::Failed
    }

    /// Whether this direction's protocol is unknown for good, whatever the other's is.
    pub fn is_unknown_of(&self, direction: Direction) -> bool {
        self.side(direction).known == Known::Failed
    }

    /// Whether the protocol is to change, and the new one is not known yet.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether nothing more is parsed.
    pub fn is_over(&self) -> bool {
        self.disabled
    }

    /// Whether bytes are read for whole messages, whatever becomes of parsing.
    pub fn is_tapped(&self) -> bool {
        self.tap.as_ref().is_some_and(|tap| !tap.is_over())
    }

    /// Whole messages that have ended since the last call; `at_end`: nothing more comes.
    pub fn take_mail(&mut self, at_end: bool) -> Vec<Mail> {
        let Some(tap) = &mut self.tap else { return Vec::new() };
        if at_end {
            tap.end();
        }
        tap.take()
    }

    fn side(&self, direction: Direction) -> &Side {
        let [to_server, to_client] = &self.sides;
        match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut Side {
        let [to_server, to_client] = &mut self.sides;
        match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
        }
    }

    /// Nothing more is parsed; what was found stays.
    fn disable(&mut self, orders: &mut Orders) {
        self.disabled = true;
        for (side, way) in self.sides.iter_mut().zip([Direction::ToServer, Direction::ToClient]) {
            side.ended = true;
            let pending = std::mem::take(&mut side.pending);
            if let Some(tap) = &mut self.tap {
                tap.data(way, side.position, &pending);
            }
        }
        if !self.is_tapped() {
            orders.stop = [true; 2];
        }
    }

    /// The protocol stays unknown; what was found goes.
    fn give_up(&mut self, orders: &mut Orders) {
        self.disable(orders);
        self.parser = None;
        self.known = Known::Failed;
        self.first = First::Parsed;
        for side in &mut self.sides {
            side.decided |= side.known != Known::Failed;
            if side.known == Known::Unknown {
                side.known = Known::Failed;
            }
        }
    }

    /// Hands pending bytes to the parser. `false`: it failed.
    fn parse(&mut self, direction: Direction, protocol: Protocol, orders: &mut Orders) -> bool {
        if !self.prepare(protocol) {
            self.disable(orders);
            return true;
        }
        let side = self.side_mut(direction);
        let (end, waiting) = (side.ended, side.pending.len() < side.needed);
        if (side.pending.is_empty() || waiting) && !end {
            return true;
        }
        let bytes = std::mem::take(&mut side.pending);
        let (consumed, fine) = self.parse_bytes(direction, protocol, &bytes, orders);
        let side = self.side_mut(direction);
        if fine && consumed < bytes.len() {
            side.pending = bytes;
            side.pending.drain(..consumed);
        } else if side.pending.capacity() == 0 {
            // The room is used again.
            side.pending = bytes;
            side.pending.clear();
        }
        fine
    }

    /// Hands bytes to the parser: how many it took, and whether it can go on.
    fn parse_bytes(
        &mut self,
        direction: Direction,
        protocol: Protocol,
        bytes: &[u8],
        orders: &mut Orders,
    ) -> (usize, bool) {
        let wanted = self.settings.frames;
        let mut wishes =
            Wishes { changing: self.change.is_some(), frames_wanted: wanted, ..Wishes::default() };
        let end = self.side(direction).ended;
        self.tap(direction, protocol, bytes, orders);
        let input = Input { direction, bytes, end };
        let outcome = match &mut self.parser {
            Some(parser) => parser.parse(input, &mut wishes),
            None => Outcome::Done,
        };
        orders.updated = true;
        if wanted {
            self.take_frames(direction, protocol, &wishes.frames, bytes);
        }
        let (consumed, fine) = self.take_outcome(direction, outcome, bytes.len(), orders);
        self.take_wishes(wishes, orders);
        (consumed, fine)
    }

    /// Hands bytes that a parser gets to who reads messages.
    fn tap(&mut self, direction: Direction, protocol: Protocol, bytes: &[u8], orders: &mut Orders) {
        let Some(settings) = &self.settings.mail else { return };
        if self.tap.is_none() {
            self.tap = Tap::new(protocol, settings, !self.flow.midstream).map(Box::new);
            // A stream of messages is read to its end.
            orders.wishes.depth = self.tap.as_ref().map(|_| 0).or(orders.wishes.depth);
        }
        let place = self.side(direction).position;
        match &mut self.tap {
            Some(tap) if tap.protocol() == protocol => tap.data(direction, place, bytes),
            // Another protocol has begun (STARTTLS).
            Some(tap) => tap.end(),
            None => {}
        }
    }

    fn take_frames(
        &mut self,
        direction: Direction,
        protocol: Protocol,
        notes: &[FrameNote],
        bytes: &[u8],
    ) {
        let tcp = self.flow.carrier == Carrier::Tcp;
        let settings = self.settings.clone();
        let side = self.side_mut(direction);
        let base = side.position;
        if tcp && !std::mem::replace(&mut side.framed, true) && settings.wants_frame("stream") {
            self.frames.open(protocol, direction, ("stream", base, None), None);
        }
        self.frames.take(&settings, protocol, direction, notes, (base, bytes));
        if !tcp {
            self.frames.end_datagram(direction);
        }
    }

    /// Makes the parser if there is none. `false`: the protocol is only detected.
    fn prepare(&mut self, protocol: Protocol) -> bool {
        if self.parser.is_some() {
            return true;
        }
        if self.settings.detected_only.contains(&protocol) {
            return false;
        }
        let make = registry::module(protocol).map(|module| module.make);
        let flow = Flow { inline: self.settings.inline, ..self.flow };
        self.parser = make.and_then(|make| make(&self.settings, &flow));
        if let (Some(parser), Some(before)) = (&mut self.parser, &self.replaced) {
            parser.replaces(before.as_ref());
        }
        if let (Some(parser), Some(announced)) = (&mut self.parser, &self.announced) {
            parser.announced(announced);
        }
        self.parser.is_some()
    }

    /// How many bytes were taken, and whether the parser can go on.
    fn take_outcome(
        &mut self,
        direction: Direction,
        outcome: Outcome,
        len: usize,
        orders: &mut Orders,
    ) -> (usize, bool) {
        let max = self.settings.pending_bytes_max;
        let side = self.side_mut(direction);
        side.needed = 0;
        let consumed = match outcome {
            Outcome::Done => len,
            Outcome::Incomplete { consumed, needed }
                if consumed <= len && len - consumed <= max =>
            {
                side.needed = needed;
                consumed
            }
            Outcome::Incomplete { .. } | Outcome::Failed => return (len, self.fail(orders)),
        };
        side.position += consumed as u64;
        (consumed, true)
    }

    fn fail(&mut self, orders: &mut Orders) -> bool {
        orders.failed = true;
        // The next datagram may be fine.
        if self.flow.carrier == Carrier::Tcp {
            self.disable(orders);
        }
        false
    }

    fn take_wishes(&mut self, wishes: Wishes, orders: &mut Orders) {
        if let Some(change) = wishes.change {
            self.begin_change(change);
        }
        if wishes.no_parsing || wishes.no_reassembly {
            self.disable(orders);
        }
        orders.wishes.merge(wishes);
    }

    fn begin_change(&mut self, change: Change) {
        if let (true, Some(protocol)) = (change.forced, change.expect) {
            self.known = Known::Is(protocol);
            for side in &mut self.sides {
                side.known = self.known;
            }
            return;
        }
        if self.change.is_some() {
            return;
        }
        self.change = Some(change);
        let known = self.known;
        for side in &mut self.sides {
            if side.known == Known::Unknown {
                side.known = known;
            }
        }
    }
}
