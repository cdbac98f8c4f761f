//! An HTTP/2 connection: frames of both directions, sorted into streams.

use gauntlet_packet::Direction::{self, ToClient, ToServer};

use super::Settings;
use super::doh::Found;
use super::event::Event;
use super::frame::{self, Frame, HEADER_LEN, Header, Payload, flag, kind};
use super::hpack::{Field, Table};
use super::stream::{Coding, Stream, handle, set, stage};
use crate::files::{self, HashSettings, Opening, Pace};
use crate::http::decompress::Failure;
use crate::http::values::content_range;
use crate::parser::{Change, Input, Outcome, Wishes};
use crate::protocol::Protocol;
use crate::transaction::{Transaction, Transactions};

/// What a client says first.
const MAGIC: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Shorter frames are waited for.
const FRAME_WAIT_MAX: usize = 65_536;
/// Of longer ones at least so many bytes.
const FRAME_PART_MIN: usize = 256;
/// A bomb has more decoded bytes than this for each byte on the wire.
const BOMB_RATIO: u64 = 2048;

/// One direction of the connection.
#[derive(Default)]
struct Side {
    table: Table,
    /// Bytes of a long frame that are skipped.
    skip: usize,
    /// Fields whose end is to come, and their stream.
    fields: Vec<u8>,
    fields_stream: u32,
}

/// A connection.
#[derive(Default)]
pub(super) struct Session {
    settings: Settings,
    hashes: HashSettings,
    /// DNS over HTTP/2 is looked for.
    doh: bool,
    pub streams: Transactions<Stream>,
    sides: [Side; 2],
    magic_seen: bool,
    next_track_id: u32,
    /// Of streams that are over.
    input_len: u64,
    output_len: u64,
}

impl Session {
    pub(super) fn new(settings: Settings, hashes: HashSettings, doh: bool) -> Self {
        Self { settings, hashes, doh, ..Self::default() }
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        let [to_server, to_client] = &mut self.sides;
        if direction == ToServer { to_server } else { to_client }
    }

    fn event(&mut self, event: Event) {
        if let Some(stream) = self.streams.last_mut() {
            stream.state.event(event as u8);
        }
    }

    /// Takes bytes.
    pub(super) fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let mut place = 0;
        if input.direction == ToServer && !self.magic_seen {
            let Some(start) = input.bytes.get(..MAGIC.len()) else {
                return Outcome::Incomplete { consumed: 0, needed: MAGIC.len() };
            };
            if start == MAGIC {
                place = MAGIC.len();
            } else if std::str::from_utf8(start).is_ok() {
                self.event(Event::InvalidClientMagic);
            } else {
                return Outcome::Failed;
            }
            self.magic_seen = true;
        }
        let left = input.bytes.len() - place;
        let side = self.side(input.direction);
        let skip = side.skip.min(left);
        side.skip -= skip;
        place += skip;
        self.frames(input, place, wishes)
    }

    fn frames(&mut self, input: Input<'_>, start: usize, wishes: &mut Wishes) -> Outcome {
        let (direction, mut place) = (input.direction, start);
        loop {
            let rest = input.bytes.get(place..).unwrap_or_default();
            if rest.is_empty() {
                return Outcome::Done;
            }
            let Some(header) = Header::read(rest) else {
                return Outcome::Incomplete { consumed: place, needed: HEADER_LEN };
            };
            let body = rest.get(HEADER_LEN..).unwrap_or_default();
            let complete = body.len() >= header.len;
            if !complete {
                let wanted = if header.len < FRAME_WAIT_MAX { header.len } else { FRAME_PART_MIN };
                if body.len() < wanted {
                    let needed = HEADER_LEN + wanted;
                    return Outcome::Incomplete { consumed: place, needed };
                }
                self.event(Event::LongFrameData);
                self.side(direction).skip = header.len - body.len();
            }
            let len = header.len as u64;
            wishes.open_frame("hdr", place, Some(HEADER_LEN as u64), None);
            wishes.open_frame("data", place + HEADER_LEN, Some(len), None);
            wishes.open_frame("pdu", place, Some(len + HEADER_LEN as u64), None);
            let body = body.get(..header.len).unwrap_or(body);
            place += HEADER_LEN + body.len();
            if header.len == 0 && header.kind == kind::SETTINGS {
                continue;
            }
            if !self.frame(header, body, complete, direction, wishes) {
                return Outcome::Failed;
            }
            if let Some(inspect) = wishes.inspect_raw.get_mut(direction.index()) {
                *inspect = true;
            }
        }
    }

    /// Takes a frame. `false`: the connection cannot go on.
    fn frame(
        &mut self,
        header: Header,
        body: &[u8],
        complete: bool,
        direction: Direction,
        wishes: &mut Wishes,
    ) -> bool {
        let mut limited = false;
        let payload = self.payload(header, body, complete, direction, &mut limited);
        let Some(place) = self.find_or_make(header, &payload, direction) else { return false };
        let frames_max = self.settings.frames_max;
        let Some(stream) = self.streams.at_mut(place) else { return false };
        handle(stream, header, &payload, direction);
        if self.doh && stream.data.doh.take_fields(payload.fields(), direction) {
            wishes.change = Some(DOH);
        }
        if limited {
            stream.state.event(Event::ReassemblyLimitReached as u8);
        }
        let frames = &mut stream.data.half_mut(direction).frames;
        if frames.len() < frames_max {
            frames.push(Frame { kind: header.kind, payload });
        } else {
            stream.state.event(Event::TooManyFrames as u8);
        }
        if header.kind != kind::DATA {
            return true;
        }
        if header.stream == 0 {
            stream.state.event(Event::DataStreamZero as u8);
            return true;
        }
        self.data(place, header, body, direction, wishes)
    }

    fn payload(
        &mut self,
        header: Header,
        body: &[u8],
        complete: bool,
        direction: Direction,
        limited: &mut bool,
    ) -> Payload {
        let exact = match header.kind {
            kind::RST_STREAM | kind::WINDOW_UPDATE => body.len() == 4,
            kind::PRIORITY => body.len() == 5,
            kind::GO_AWAY => body.len() >= 8,
            _ => true,
        };
        if !exact {
            self.event(Event::InvalidFrameLength);
            return Payload::Other;
        }
        let value = frame::number(body).unwrap_or_default();
        match header.kind {
            kind::RST_STREAM => Payload::Reset(value),
            kind::WINDOW_UPDATE => Payload::WindowUpdate(value & 0x7fff_ffff),
            kind::PRIORITY => Payload::Priority(body.get(4).copied().unwrap_or_default()),
            kind::GO_AWAY => {
                let code = body.get(4..).and_then(frame::number).unwrap_or_default();
                Payload::GoAway(code)
            }
            kind::SETTINGS => self.take_settings(body, direction),
            kind::HEADERS => self.headers(header, body, complete, direction),
            kind::PUSH_PROMISE => self.promise(header, body, complete, direction),
            kind::CONTINUATION => self.continuation(header, body, complete, direction, limited),
            _ => Payload::Other,
        }
    }

    fn take_settings(&mut self, body: &[u8], direction: Direction) -> Payload {
        const HEADER_TABLE_SIZE: u16 = 1;
        let kept_max = self.settings.table_bytes_max;
        let list = frame::settings(body);
        for (id, value) in &list {
            if *id == HEADER_TABLE_SIZE {
                // It is what this side accepts from the other one.
                let size = usize::try_from(*value).unwrap_or(usize::MAX);
                self.side(direction.reverse()).table.allow(size, kept_max);
            }
        }
        Payload::Settings(list)
    }

    fn headers(
        &mut self,
        header: Header,
        body: &[u8],
        complete: bool,
        direction: Direction,
    ) -> Payload {
        if !header.has(flag::END_HEADERS) {
            let side = self.side(direction);
            side.fields = body.to_vec();
            side.fields_stream = header.stream;
            return Payload::Headers(Vec::new(), None);
        }
        let mut rest = body;
        if header.has(flag::PADDED) {
            rest = rest.get(1..).unwrap_or_default();
        }
        let mut weight = None;
        if header.has(flag::PRIORITY) {
            weight = rest.get(4).copied();
            rest = rest.get(5..).unwrap_or_default();
        }
        match self.fields(rest, complete, direction) {
            Some(fields) => Payload::Headers(fields, weight),
            None => Payload::Other,
        }
    }

    fn promise(
        &mut self,
        header: Header,
        body: &[u8],
        complete: bool,
        direction: Direction,
    ) -> Payload {
        let skip = usize::from(header.has(flag::PADDED));
        let rest = body.get(skip..).unwrap_or_default();
        let Some(stream) = frame::number(rest) else {
            if complete {
                self.event(Event::InvalidFrameData);
            }
            return Payload::Other;
        };
        let rest = rest.get(4..).unwrap_or_default();
        match self.fields(rest, complete, direction) {
            Some(fields) => Payload::Promise(fields, stream & 0x7fff_ffff),
            None => Payload::Other,
        }
    }

    fn continuation(
        &mut self,
        header: Header,
        body: &[u8],
        complete: bool,
        direction: Direction,
        limited: &mut bool,
    ) -> Payload {
        let max = self.settings.fields_bytes_max;
        let side = self.side(direction);
        if header.stream != side.fields_stream {
            return match self.fields(body, complete, direction) {
                Some(fields) => Payload::Continuation(fields),
                None => Payload::Other,
            };
        }
        let len = side.fields.len();
        if len + body.len() < max {
            side.fields.extend_from_slice(body);
        } else if len < max {
            side.fields.extend_from_slice(body.get(..max - len).unwrap_or(body));
            *limited = true;
        }
        if !header.has(flag::END_HEADERS) {
            return Payload::Continuation(Vec::new());
        }
        let all = std::mem::take(&mut side.fields);
        side.fields_stream = 0;
        match self.fields(&all, complete, direction) {
            Some(fields) => Payload::Continuation(fields),
            None => Payload::Other,
        }
    }

    /// Reads header fields and tells what is odd about them.
    fn fields(&mut self, bytes: &[u8], complete: bool, direction: Direction) -> Option<Vec<Field>> {
        let kept_max = self.settings.table_bytes_max;
        let Some(fields) = self.side(direction).table.read(bytes, kept_max) else {
            if complete {
                self.event(Event::InvalidFrameData);
            }
            return None;
        };
        let mut update = None;
        for field in &fields {
            match field {
                Field::Pair(..) => {}
                Field::SizeUpdate(size) => update = update.max(Some(*size)),
                Field::NotIndexed | Field::IndexZero | Field::Overflow => {
                    self.event(Event::InvalidHeader);
                }
            }
        }
        if let Some(size) = update {
            self.side(direction).table.size_max = usize::try_from(size).unwrap_or(usize::MAX);
        }
        Some(fields)
    }

    /// The place of the stream that a frame belongs to.
    fn find_or_make(
        &mut self,
        header: Header,
        payload: &Payload,
        direction: Direction,
    ) -> Option<usize> {
        if header.stream == 0 {
            return self.make(0, stage::GLOBAL);
        }
        let id = match payload {
            Payload::Promise(_, stream) => *stream,
            Payload::Continuation(_) if direction == ToClient => {
                let child = self.find(header.stream).and_then(|place| self.streams.at(place));
                child
                    .map(|found| found.data.child)
                    .filter(|child| *child > 0)
                    .unwrap_or(header.stream)
            }
            _ => header.stream,
        };
        let Some(place) = self.find(id) else { return self.make(id, stage::OPEN) };
        let closed = self.streams.at(place)?.state.progress(ToServer) == stage::CLOSED;
        let late = matches!(header.kind, kind::RST_STREAM | kind::WINDOW_UPDATE | kind::PRIORITY);
        if closed && !late {
            self.event(Event::StreamIdReuse);
        }
        let stream = self.streams.at_mut(place)?;
        stream.state.touch(ToServer);
        stream.state.touch(ToClient);
        Some(place)
    }

    fn find(&self, id: u32) -> Option<usize> {
        let from_end = self.streams.iter().rev().position(|stream| stream.data.id == id)?;
        self.streams.len().checked_sub(from_end + 1)
    }

    fn make(&mut self, id: u32, at: u8) -> Option<usize> {
        if self.streams.len() >= self.settings.streams_max {
            for stream in self.streams.iter_mut() {
                if stream.state.progress(ToServer) == stage::DROPPED {
                    break;
                }
                stream.state.event(Event::TooManyStreams as u8);
                set(stream, stage::DROPPED);
            }
            return None;
        }
        let stream = self.streams.push(Stream { id, ..Stream::default() })?;
        set(stream, at);
        self.streams.len().checked_sub(1)
    }

    /// Takes the data of a body. `false`: it is a bomb.
    fn data(
        &mut self,
        place: usize,
        header: Header,
        body: &[u8],
        direction: Direction,
        wishes: &mut Wishes,
    ) -> bool {
        let over = header.has(flag::END_STREAM);
        let mut bytes = body;
        if header.has(flag::PADDED)
            && let Some((&pad, _)) = body.split_first()
            && usize::from(pad) < body.len()
        {
            bytes = body.get(1..body.len() - usize::from(pad)).unwrap_or_default();
        }
        let max = self.settings.bomb_bytes_max;
        let Some(stream) = self.streams.at_mut(place) else { return false };
        let half = stream.data.half_mut(direction);
        let decoded = match &mut half.encoding {
            Coding::Decoder(decoder) => {
                let result = decoder.decode(bytes, max);
                half.input_len += bytes.len() as u64;
                result.map(Some)
            }
            Coding::Unknown | Coding::Plain => Ok(None),
        };
        match decoded {
            Ok(decoded) => {
                if let Some(decoded) = &decoded {
                    half.output_len += decoded.len() as u64;
                }
                let data = decoded.as_deref().unwrap_or(bytes);
                let track_id = self.next_track_id;
                let opening =
                    Opening { name: &[], track_id, pace: Pace::default(), hashes: self.hashes };
                if store(stream, direction, opening, data, over) {
                    self.next_track_id = track_id.wrapping_add(1);
                }
                if self.doh {
                    match stream.data.doh.take_data(data, over, direction) {
                        Found::Message => wishes.change = Some(DOH),
                        Found::Event(event) => stream.state.event(event as u8),
                        Found::Nothing => {}
                    }
                }
            }
            Err(failure) => {
                half.encoding = Coding::Plain;
                let event = match failure {
                    Failure::Bomb => Event::CompressionBomb,
                    Failure::Broken => Event::FailedDecompression,
                };
                stream.state.event(event as u8);
            }
        }
        self.weigh(place, direction, over)
    }

    /// Whether what was decoded so far is in proportion.
    fn weigh(&mut self, place: usize, direction: Direction, over: bool) -> bool {
        let Some(stream) = self.streams.at_mut(place) else { return false };
        let half = stream.data.half(direction);
        let (input, output) = (half.input_len + self.input_len, half.output_len + self.output_len);
        if output <= input.saturating_mul(BOMB_RATIO) {
            return true;
        }
        if output > self.settings.bomb_bytes_max {
            stream.state.event(Event::CompressionBomb as u8);
            return false;
        }
        if over {
            self.input_len += input;
            self.output_len += output;
        }
        true
    }

    /// Settings that a client sent with its request of HTTP/1 (RFC 7540 section 3.2.1).
    pub(super) fn begin_with_settings(&mut self, value: &[u8]) {
        let bytes = base64_simd::STANDARD.decode_to_vec(value);
        let broken = bytes.as_ref().map_or(true, |bytes| bytes.len() % 6 != 0);
        if broken {
            self.event(Event::InvalidHttp1Settings);
        }
        let Ok(bytes) = bytes else { return };
        let Some(place) = self.make(0, stage::GLOBAL) else { return };
        let payload = Payload::Settings(frame::settings(&bytes));
        if let Some(stream) = self.streams.at_mut(place) {
            let frame = Frame { kind: kind::SETTINGS, payload };
            stream.data.half_mut(ToServer).frames.push(frame);
        }
    }

    /// The request that led here by an upgrade of HTTP/1.
    pub(super) fn begin_with(&mut self, fields: Vec<(Vec<u8>, Vec<u8>)>) {
        let Some(place) = self.make(1, stage::OPEN) else { return };
        let Some(stream) = self.streams.at_mut(place) else { return };
        for (name, value) in fields {
            let field = Field::Pair(name.into(), value.into());
            let payload = Payload::Headers(vec![field], None);
            let frame = Frame { kind: kind::HEADERS, payload };
            stream.data.half_mut(ToServer).frames.push(frame);
        }
        set(stream, stage::HALF_CLOSED_CLIENT);
    }
}

/// From now on the flow is one of DNS over HTTP/2.
const DOH: Change = Change { expect: Some(Protocol::Doh2), forced: true, port: None };

/// Adds data to the file of a direction. `true`: a file was opened for it.
fn store(
    stream: &mut Transaction<Stream>,
    direction: Direction,
    opening: Opening<'_>,
    data: &[u8],
    over: bool,
) -> bool {
    let range = stream.data.joined(direction, b"content-range");
    let list = stream.state.files.get_mut(direction.index());
    let Some(list) = list else { return false };
    let open = stream.data.half(direction).file_open;
    let mut opened = false;
    if !open {
        let first = list.is_empty();
        opened = files::add(list, opening);
        if !opened {
            return false;
        }
        if first
            && direction == ToClient
            && let Some(range) = range
        {
            match content_range(&range) {
                Some(range) if range.start <= range.end => {
                    let (start, end) = (u64::try_from(range.start), u64::try_from(range.end));
                    if let (Some(file), Ok(start), Ok(end)) = (list.last_mut(), start, end) {
                        file.range = Some((start, end));
                    }
                }
                _ => stream.state.event(Event::InvalidRange as u8),
            }
        }
    }
    let list = stream.state.files.get_mut(direction.index());
    if let Some(file) = list.and_then(|list| list.last_mut()) {
        file.append(data);
        if over {
            file.close(false);
        }
    }
    stream.data.half_mut(direction).file_open = !over;
    opened
}
