//! The state of one HTTP/1 connection: both directions, their transactions, and what they share.

use std::sync::Arc;

use gauntlet_packet::Direction;

use super::body::BodySink;
use super::event::Event;
use super::settings::Settings;
use super::shared::{MESSAGES_MAX, Shared};
use super::transaction::{Exchange, progress};
use super::values::{Authorization, Method, Version};
use crate::files::HashSettings;
use crate::parser::{Change, Wishes};
use crate::protocol::Protocol;
use crate::transaction::{Transaction, Transactions};

/// How a direction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Status {
    #[default]
    Open,
    /// All bytes so far were taken.
    Data,
    /// It waits for the other direction.
    DataOther,
    Closed,
    /// What follows is not HTTP.
    Tunnel,
    Error,
}

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Step {
    #[default]
    Idle,
    Line,
    Protocol,
    Headers,
    ConnectCheck,
    ConnectWait,
    ConnectProbe,
    BodyDetermine,
    ChunkLength,
    ChunkData,
    ChunkEnd,
    /// A body of known length.
    Body,
    /// A body until the connection closes.
    BodyToClose,
    Finalize,
    IgnoreRest,
}

/// Why reading stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// More bytes are needed.
    Data,
    /// The other direction must go on first.
    Other,
    /// For good.
    Error,
}

/// Bytes (or a gap) of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    gap: Option<u64>,
    place: usize,
    gap_used: u64,
    /// From here on raw header fields are taken.
    raw_from: usize,
}

impl<'a> Chunk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, gap: None, place: 0, gap_used: 0, raw_from: 0 }
    }

    pub(super) fn gap(len: u64) -> Self {
        Self { bytes: &[], gap: Some(len), place: 0, gap_used: 0, raw_from: 0 }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.place..).unwrap_or_default()
    }

    pub(super) fn is_gap(&self) -> bool {
        self.gap.is_some()
    }

    pub(super) fn len(&self) -> u64 {
        match self.gap {
            Some(len) => len - self.gap_used.min(len),
            None => self.rest().len() as u64,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.place = (self.place + count).min(self.bytes.len());
    }

    pub(super) fn consume_gap(&mut self, count: u64) {
        self.gap_used += count;
    }

    pub(super) fn unconsume(&mut self, count: usize) {
        self.place = self.place.saturating_sub(count);
    }

    pub(super) fn consumed(&self) -> usize {
        self.place
    }

    /// Raw bytes since the last call.
    fn raw(&mut self) -> &'a [u8] {
        let raw = self.bytes.get(self.raw_from..self.place).unwrap_or_default();
        if self.raw_from <= self.place {
            self.raw_from = self.place;
        }
        raw
    }
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub status: Status,
    pub step: Step,
    previous: Option<Step>,
    /// A line whose end is to come.
    pub buffer: Vec<u8>,
    /// Header fields whose end is to come.
    pub header: Option<Vec<u8>>,
    pub content_length: Option<u64>,
    pub left: Option<u64>,
    pub chunk_left: Option<u64>,
    /// Raw header fields are gathered.
    gathering: bool,
    pub closed: bool,
}

/// A connection.
pub(super) struct Connection {
    pub settings: Arc<Settings>,
    pub hashes: HashSettings,
    pub exchanges: Transactions<Exchange>,
    pub request: Side,
    pub response: Side,
    /// Ids of the transactions that are read.
    pub request_id: u64,
    pub response_id: u64,
    /// After this response the other direction goes on first.
    pub yield_at_end: bool,
    pub shared: Shared,
    messages: usize,
    /// Responses that are complete.
    pub responses: u64,
    pub wishes: Wishes,
    /// Bytes of the client so far.
    pub stream_end: u64,
}

impl Connection {
    pub(super) fn new(settings: Arc<Settings>, hashes: HashSettings) -> Self {
        Self {
            settings,
            hashes,
            exchanges: Transactions::default(),
            request: Side::default(),
            response: Side::default(),
            request_id: 0,
            response_id: 0,
            yield_at_end: false,
            shared: Shared::default(),
            messages: 0,
            responses: 0,
            wishes: Wishes::default(),
            stream_end: 0,
        }
    }

    /// The transaction whose request is read; it is made if there is room.
    pub(super) fn request_mut(&mut self) -> Result<&mut Transaction<Exchange>, Halt> {
        self.exchange_mut(self.request_id)
    }

    /// The transaction whose response is read; it is made if there is room.
    pub(super) fn response_mut(&mut self) -> Result<&mut Transaction<Exchange>, Halt> {
        self.exchange_mut(self.response_id)
    }

    fn exchange_mut(&mut self, id: u64) -> Result<&mut Transaction<Exchange>, Halt> {
        if self.exchanges.place(id).is_none() {
            if self.exchanges.len() >= self.settings.transactions_max {
                return Err(Halt::Error);
            }
            self.exchanges.insert(id, Exchange::default());
        }
        self.exchanges.of_id_mut(id).ok_or(Halt::Error)
    }

    /// The body of the request or response that is read.
    pub(super) fn body(&mut self, direction: Direction) -> Result<BodySink<'_>, Halt> {
        let id = match direction {
            Direction::ToServer => self.request_id,
            Direction::ToClient => self.response_id,
        };
        self.exchange_mut(id)?;
        Ok(BodySink {
            settings: &self.settings,
            hashes: self.hashes,
            direction,
            transaction: self.exchanges.of_id_mut(id).ok_or(Halt::Error)?,
            shared: &mut self.shared,
        })
    }

    /// How many transactions there have been.
    fn total(&self) -> u64 {
        let last = self.request_id.max(self.response_id);
        let begun = self.exchanges.of_id(last).is_some_and(is_begun);
        last + u64::from(begun)
    }

    /// How many transactions there are that have begun.
    pub(super) fn count(&self) -> usize {
        let total = self.total();
        self.exchanges.iter().filter(|exchange| exchange.state.id < total).count()
    }

    pub(super) fn log(&mut self, event: Event) {
        self.shared.log(event);
    }

    /// Gives the oddities that were noticed to the transaction at hand.
    pub(super) fn deliver(&mut self, direction: Direction) {
        let log = std::mem::take(&mut self.shared.log);
        for event in log {
            if self.messages >= MESSAGES_MAX {
                return;
            }
            self.deliver_one(direction, event);
            self.messages += 1;
            if self.messages >= MESSAGES_MAX {
                self.deliver_one(direction, Event::TOO_MANY_WARNINGS.0);
            }
        }
    }

    fn deliver_one(&mut self, direction: Direction, event: u8) {
        let id = match direction {
            Direction::ToServer => self.total().saturating_sub(1),
            Direction::ToClient => self.responses,
        };
        let place = self.exchanges.place(id);
        let place = place.or_else(|| self.exchanges.place(id.checked_sub(1)?));
        if let Some(exchange) = place.and_then(|place| self.exchanges.at_mut(place)) {
            exchange.state.event(event);
            exchange.state.touch(direction);
        }
    }

    /// Whether a line with what is buffered keeps within the limit.
    pub(super) fn check_field(&mut self, direction: Direction, len: usize) -> Result<(), Halt> {
        let side = self.side(direction);
        let all = side.buffer.len() + side.header.as_ref().map_or(0, Vec::len) + len;
        if len == 0 || all <= self.settings.field_bytes_max {
            return Ok(());
        }
        self.log(match direction {
            Direction::ToServer => Event::REQUEST_FIELD_TOO_LONG,
            Direction::ToClient => Event::RESPONSE_FIELD_TOO_LONG,
        });
        Err(Halt::Error)
    }

    pub(super) fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::ToServer => &mut self.request,
            Direction::ToClient => &mut self.response,
        }
    }

    /// All that is left belongs to a line whose end is to come.
    pub(super) fn keep_line(&mut self, direction: Direction, chunk: &mut Chunk<'_>) -> Halt {
        let rest = chunk.rest();
        if let Err(halt) = self.check_field(direction, rest.len()) {
            return halt;
        }
        self.side(direction).buffer.extend_from_slice(rest);
        chunk.consume(rest.len());
        Halt::Data
    }

    /// Begins to gather raw header fields where they begin.
    pub(super) fn note_step(&mut self, direction: Direction, chunk: &mut Chunk<'_>) {
        let side = self.side(direction);
        if side.previous == Some(side.step) {
            return;
        }
        side.previous = Some(side.step);
        if side.step == Step::Headers {
            chunk.raw_from = chunk.place;
            side.gathering = true;
        }
    }

    /// Takes raw bytes of header fields.
    pub(super) fn gather(&mut self, direction: Direction, chunk: &mut Chunk<'_>, over: bool) {
        let side = self.side(direction);
        if !side.gathering {
            return;
        }
        side.gathering = !over;
        let raw = chunk.raw();
        if raw.is_empty() {
            return;
        }
        let max = self.settings.field_bytes_max.saturating_mul(64);
        let exchange = match direction {
            Direction::ToServer => self.request_mut(),
            Direction::ToClient => self.response_mut(),
        };
        let Ok(exchange) = exchange else { return };
        let place = match direction {
            Direction::ToServer => &mut exchange.data.request.raw_headers,
            Direction::ToClient => &mut exchange.data.response.raw_headers,
        };
        if place.len() + raw.len() <= max {
            place.extend_from_slice(raw);
        }
        exchange.state.touch(direction);
        if direction == Direction::ToServer {
            note_flags(exchange);
        }
    }

    /// Raw inspection shall see so many bytes again.
    pub(super) fn set_raw_depth(&mut self, direction: Direction, bytes: u64) {
        if let Some(place) = self.wishes.raw_depth.get_mut(direction.index()) {
            *place = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// A change of protocol, if none is under way.
    pub(super) fn change(&mut self, expect: Option<Protocol>, port: Option<u16>) -> bool {
        if self.wishes.changing {
            return false;
        }
        self.wishes.change = Some(Change { expect, forced: false, port });
        self.wishes.changing = true;
        true
    }
}

fn is_begun(exchange: &Transaction<Exchange>) -> bool {
    exchange.state.progress != [progress::NOT_STARTED; 2]
}

/// Makes events of what was noticed in a request.
pub(super) fn note_flags(exchange: &mut Transaction<Exchange>) {
    let (request, flags) = (&exchange.data.request, exchange.data.flags);
    let short = request.short && request.method == Method::Unknown;
    let no_version = matches!(request.version, Version::Invalid | Version::Unknown);
    let unrecognized = request.authorization == Authorization::Unrecognized;
    let events = [
        (flags.invalid_transfer_encoding, Event::INVALID_TRANSFER_ENCODING_VALUE_IN_REQUEST),
        (flags.invalid_content_length, Event::INVALID_CONTENT_LENGTH_FIELD_IN_REQUEST),
        (flags.host_missing, Event::MISSING_HOST_HEADER),
        (flags.host_ambiguous, Event::HOST_HEADER_AMBIGUOUS),
        (flags.uri_host_invalid, Event::REQUEST_URI_HOST_INVALID),
        (flags.header_host_invalid, Event::REQUEST_HEADER_HOST_INVALID),
        (unrecognized, Event::REQUEST_AUTH_UNRECOGNIZED),
        (short && no_version, Event::REQUEST_LINE_INVALID),
    ];
    for (noticed, event) in events {
        if noticed {
            exchange.state.event(event.0);
        }
    }
}
