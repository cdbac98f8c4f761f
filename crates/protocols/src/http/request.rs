//! Reads requests, step by step, as far as bytes allow.

use gauntlet_packet::Direction::ToServer;

use super::body::Piece;
use super::connection::{Chunk, Connection, Halt, Status, Step, note_flags};
use super::event::Event;
use super::text::{is_chunk_control_line, is_ignorable, is_space, line, may_be_chunk_length, span};
use super::transaction::{Coding, progress};
use super::values::{ChunkLine, Method, chunk_length};

/// A request that names no protocol may have so much white space behind it.
const SHORT_JUNK_MAX: usize = 16;

impl Connection {
    /// Takes bytes (or a gap) of the client.
    pub(super) fn request_data(&mut self, chunk: &mut Chunk<'_>) -> Status {
        if self.request.status == Status::Error {
            self.log(Event::PARSER_STATE_ERROR);
            return Status::Error;
        }
        if chunk.is_empty() && self.request.status != Status::Closed {
            self.log(Event::ZERO_LENGTH_DATA_CHUNKS);
            return Status::Closed;
        }
        if self.request.status == Status::Tunnel {
            return Status::Tunnel;
        }
        if self.response.status == Status::DataOther {
            self.response.status = Status::Data;
        }
        if chunk.is_gap() {
            let first = self.request_id == 0;
            match self.request_mut() {
                Err(_) => return Status::Error,
                Ok(exchange) => {
                    let begun = exchange.state.progress(ToServer) != progress::NOT_STARTED;
                    if first && !begun {
                        return Status::Closed;
                    }
                }
            }
        }
        loop {
            let step = self.request.step;
            let gap_fits = matches!(step, Step::Body | Step::IgnoreRest | Step::Finalize);
            if chunk.is_gap() && !gap_fits {
                self.log(Event::INVALID_GAP);
                return Status::Closed;
            }
            let result = self.request_step(chunk);
            if result.is_ok() {
                if self.request.status == Status::Tunnel {
                    return Status::Tunnel;
                }
                self.note_step(ToServer, chunk);
                continue;
            }
            let status = match result {
                Ok(()) | Err(Halt::Data) => {
                    self.gather(ToServer, chunk, false);
                    Status::Data
                }
                Err(Halt::Other) if chunk.is_empty() => Status::Data,
                Err(Halt::Other) => Status::DataOther,
                Err(Halt::Error) => Status::Error,
            };
            self.request.status = status;
            return status;
        }
    }

    fn request_step(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        match self.request.step {
            Step::Idle => self.request_idle(chunk),
            Step::Line => self.request_line(chunk),
            Step::Protocol => self.request_protocol(chunk),
            Step::Headers => self.request_headers(chunk),
            Step::ConnectCheck => self.connect_check(),
            Step::ConnectWait => self.connect_wait(),
            Step::ConnectProbe => self.connect_probe(chunk),
            Step::BodyDetermine => self.request_body_determine(),
            Step::ChunkLength => self.request_chunk_length(chunk),
            Step::ChunkData => self.request_chunk_data(chunk),
            Step::ChunkEnd => self.request_chunk_end(chunk),
            Step::Body => self.request_body(chunk),
            Step::Finalize => self.request_finalize(chunk),
            Step::IgnoreRest => {
                chunk.consume(chunk.rest().len());
                Err(Halt::Data)
            }
            Step::BodyToClose => Err(Halt::Error),
        }
    }

    fn request_idle(&mut self, chunk: &Chunk<'_>) -> Result<(), Halt> {
        let closing = self.request.status == Status::Closed && !self.request.buffer.is_empty();
        if chunk.is_empty() && !closing {
            return Err(Halt::Data);
        }
        self.request.content_length = None;
        self.request.left = None;
        self.request.step = Step::Line;
        if let Ok(exchange) = self.request_mut() {
            exchange.state.set(ToServer, progress::LINE);
        }
        let id = self.request_id;
        self.set_raw_depth(ToServer, self.settings.request_inspect_min);
        self.wishes.open_frame("request", chunk.consumed(), None, Some(id));
        Ok(())
    }

    fn request_line(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let found = match line(chunk.rest()) {
            Some(line) => line,
            None if self.request.status == Status::Closed => chunk.rest(),
            None => return Err(self.keep_line(ToServer, chunk)),
        };
        let mut whole = std::mem::take(&mut self.request.buffer);
        whole.extend_from_slice(found);
        chunk.consume(found.len());
        self.check_field(ToServer, whole.len())?;
        if whole.is_empty() {
            return Err(Halt::Data);
        }
        self.request_mut()?;
        if is_ignorable(&whole) {
            return Ok(());
        }
        self.read_request_line(&whole)?;
        self.request.step = Step::Protocol;
        Ok(())
    }

    fn request_protocol(&mut self, chunk: &Chunk<'_>) -> Result<(), Halt> {
        let exchange = self.request_mut()?;
        if exchange.data.request.short {
            let (white, rest) = span(chunk.rest(), is_space);
            if rest.is_empty() && white.len() <= SHORT_JUNK_MAX {
                self.request.step = Step::Finalize;
                return Ok(());
            }
            exchange.data.request.short = false;
            exchange.state.reach(ToServer, progress::HEADERS);
            self.log(Event::REQUEST_LINE_MISSING_PROTOCOL);
        } else {
            exchange.state.reach(ToServer, progress::HEADERS);
        }
        self.request.step = Step::Headers;
        Ok(())
    }

    fn request_headers(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if self.request.status == Status::Closed {
            self.request_mut()?.state.reach(ToServer, progress::TRAILER);
            if let Some(header) = self.request.header.take() {
                self.read_fields(ToServer, &header, true)?;
            }
            self.request.buffer.clear();
            return self.request_headers_over(chunk);
        }
        let data = chunk.rest();
        let Some(first) = line(data) else {
            chunk.consume(data.len());
            self.check_field(ToServer, data.len())?;
            self.request.header.get_or_insert_with(Vec::new).extend_from_slice(data);
            return Err(Halt::Data);
        };
        if self.request.header.is_some() {
            self.check_field(ToServer, first.len())?;
        }
        let mut header = self.request.header.take().unwrap_or_default();
        header.extend_from_slice(data);
        let (consumed, over) = self.read_fields(ToServer, &header, false)?;
        let left = header.get(consumed..).unwrap_or_default();
        let ending = match left {
            [b'\r', b'\n', ..] if consumed == 0 => 2,
            [b'\n', ..] if consumed == 0 => 1,
            _ => 0,
        };
        if over || ending > 0 {
            if left.len() < data.len() {
                chunk.consume(data.len() - left.len());
            } else if ending > 0 {
                chunk.consume(ending.min(data.len()));
            }
            return self.request_headers_over(chunk);
        }
        chunk.consume(data.len());
        self.check_field(ToServer, left.len())?;
        self.request.header = Some(left.to_vec());
        Err(Halt::Data)
    }

    fn request_headers_over(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        self.gather(ToServer, chunk, true);
        let exchange = self.request_mut()?;
        let at = exchange.state.progress(ToServer);
        if at > progress::HEADERS {
            exchange.data.request.trailers = true;
            exchange.state.touch(ToServer);
            self.request.step = Step::Finalize;
        } else if at >= progress::LINE {
            self.judge_request_headers()?;
            self.request.step = Step::ConnectCheck;
        } else {
            self.log(Event::RESPONSE_BODY_INTERNAL_ERROR);
            return Err(Halt::Error);
        }
        Ok(())
    }

    fn connect_check(&mut self) -> Result<(), Halt> {
        if self.request_mut()?.data.request.method == Method::Connect {
            self.request.step = Step::ConnectWait;
            self.request.status = Status::DataOther;
            return Err(Halt::Other);
        }
        self.request.step = Step::BodyDetermine;
        Ok(())
    }

    fn connect_wait(&mut self) -> Result<(), Halt> {
        let exchange = self.request_mut()?;
        if exchange.state.progress(gauntlet_packet::Direction::ToClient) <= progress::LINE {
            return Err(Halt::Other);
        }
        let accepted = exchange.data.response.status.is_some_and(|code| code / 100 == 2);
        self.request.step = if accepted { Step::ConnectProbe } else { Step::Finalize };
        Ok(())
    }

    /// Behind a CONNECT may come HTTP, or anything.
    fn connect_probe(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let rest = chunk.rest();
        let Some(end) = memchr::memchr2(b'\n', 0, rest) else {
            return Err(self.keep_line(ToServer, chunk));
        };
        if !self.request.buffer.is_empty() {
            self.check_field(ToServer, end + 1)?;
        }
        let mut whole = self.request.buffer.clone();
        whole.extend_from_slice(rest.get(..=end).unwrap_or_default());
        let (_, text) = span(&whole, is_space);
        let (method, _) = span(text, |byte| !is_space(byte));
        if Method::of(method) == Method::Unknown {
            self.request.status = Status::Tunnel;
            self.response.status = Status::Tunnel;
            return Ok(());
        }
        self.request_complete(chunk)
    }

    fn request_body_determine(&mut self) -> Result<(), Halt> {
        let exchange = self.request_mut()?;
        let (coding, len) = (exchange.data.request.coding, exchange.data.request.content_length);
        let some = len.is_some_and(|len| len > 0);
        if coding == Coding::Chunked || (coding == Coding::Identity && some) {
            exchange.state.reach(ToServer, progress::BODY);
        }
        self.request.step = match coding {
            Coding::Chunked => Step::ChunkLength,
            Coding::Identity => {
                self.request.content_length = len;
                self.request.left = len;
                if some { Step::Body } else { Step::Finalize }
            }
            Coding::NoBody => Step::Finalize,
            Coding::Unknown | Coding::Invalid => return Err(Halt::Error),
        };
        Ok(())
    }

    fn request_chunk_length(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        loop {
            let Some(found) = line(chunk.rest()) else {
                if may_be_chunk_length(chunk.rest()) {
                    return Err(self.keep_line(ToServer, chunk));
                }
                self.log(Event::INVALID_REQUEST_CHUNK_LEN);
                return Err(Halt::Error);
            };
            chunk.consume(found.len());
            if !self.request.buffer.is_empty() {
                self.check_field(ToServer, found.len())?;
            }
            let mut whole = std::mem::take(&mut self.request.buffer);
            whole.extend_from_slice(found);
            self.request_mut()?.data.request.body.message_len += whole.len() as u64;
            if is_chunk_control_line(&whole) {
                continue;
            }
            return match chunk_length(&whole) {
                ChunkLine::Length { len, extension } => self.request_chunk(len, extension),
                ChunkLine::Nothing => {
                    self.log(Event::INVALID_REQUEST_CHUNK_LEN);
                    Err(Halt::Error)
                }
                ChunkLine::Invalid => Err(Halt::Error),
            };
        }
    }

    fn request_chunk(&mut self, len: u64, extension: bool) -> Result<(), Halt> {
        if extension {
            self.log(Event::REQUEST_CHUNK_EXTENSION);
        }
        self.request.chunk_left = Some(len);
        if len == 0 {
            self.request.step = Step::Headers;
            self.request_mut()?.state.reach(ToServer, progress::TRAILER);
        } else {
            self.request.step = Step::ChunkData;
        }
        Ok(())
    }

    fn request_chunk_data(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let left = self.request.chunk_left.unwrap_or(0);
        let rest = chunk.rest();
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        if count == 0 {
            return Err(Halt::Data);
        }
        self.request_bytes(rest.get(..count).unwrap_or_default())?;
        chunk.consume(count);
        let left = left - count as u64;
        self.request.chunk_left = Some(left);
        if left > 0 {
            return Err(Halt::Data);
        }
        self.request.step = Step::ChunkEnd;
        Ok(())
    }

    fn request_chunk_end(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let Some(found) = line(chunk.rest()) else {
            return Err(self.keep_line(ToServer, chunk));
        };
        chunk.consume(found.len());
        self.request.step = Step::ChunkLength;
        Ok(())
    }

    fn request_body(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let left = self.request.left.ok_or(Halt::Error)?;
        let count = chunk.len().min(left);
        if count == 0 {
            return Err(Halt::Data);
        }
        if chunk.is_gap() {
            let mut body = self.body(ToServer)?;
            body.transaction.data.request.body.message_len += count;
            body.piece(Piece::Gap(count));
            chunk.consume_gap(count);
        } else {
            let len = usize::try_from(count).unwrap_or(usize::MAX);
            self.request_bytes(chunk.rest().get(..len).unwrap_or_default())?;
            chunk.consume(len);
        }
        self.request.left = Some(left - count);
        if left > count {
            return Err(Halt::Data);
        }
        self.request.step = Step::Finalize;
        self.body(ToServer)?.finish();
        Ok(())
    }

    fn request_bytes(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        if self.body(ToServer)?.bytes(bytes) { Ok(()) } else { Err(Halt::Error) }
    }

    fn request_finalize(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if chunk.is_gap() {
            return self.request_complete(chunk);
        }
        let mut work = chunk.rest();
        let mut feed = false;
        if self.request.status != Status::Closed {
            if work.is_empty() {
                return self.request_complete(chunk);
            }
            let Some(found) = line(work) else { return Err(self.keep_line(ToServer, chunk)) };
            work = found.strip_suffix(b"\n").unwrap_or(found);
            feed = true;
            chunk.consume(work.len());
        }
        if !self.request.buffer.is_empty() {
            self.check_field(ToServer, work.len())?;
        }
        let buffered = std::mem::take(&mut self.request.buffer);
        let mut data = buffered.clone();
        data.extend_from_slice(work);
        if data.is_empty() {
            return self.request_complete(chunk);
        }
        let (_, text) = span(&data, is_space);
        let (method, _) = span(text, |byte| !is_space(byte));
        if method.is_empty() || Method::of(method) == Method::Unknown {
            if !method.is_empty() {
                if self.request.left.unwrap_or(0) == 0 {
                    self.log(Event::REQUEST_BODY_UNEXPECTED);
                } else {
                    self.request.left = Some(1);
                }
            }
            if feed {
                chunk.consume(1);
                data.push(b'\n');
            }
            return self.request_bytes(&data);
        }
        self.request.left = None;
        // It is the next request: back to where it begins.
        self.request.buffer = buffered;
        chunk.unconsume(data.len());
        self.request_complete(chunk)
    }

    /// The request is over.
    pub(super) fn request_complete(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let exchange = self.request_mut()?;
        let short = exchange.data.request.short;
        if exchange.state.progress(ToServer) != progress::COMPLETE {
            let coding = exchange.data.request.coding;
            if matches!(coding, Coding::Identity | Coding::Chunked) {
                self.body(ToServer)?.finish();
            }
            let mut body = self.body(ToServer)?;
            let had_file = body.transaction.data.request.body.file_open;
            if had_file {
                body.close_file(false);
            }
            let end = self.stream_end.saturating_sub(chunk.len());
            if had_file && end < u64::from(u32::MAX) {
                self.set_raw_depth(ToServer, end);
            }
            let [since, _] = &mut self.shared.since_last;
            *since = chunk.len();
            let exchange = self.request_mut()?;
            exchange.state.set(ToServer, progress::COMPLETE);
            note_flags(exchange);
            let [to_server, _] = &mut self.shared.inspect_raw;
            *to_server = true;
            self.gather(ToServer, chunk, true);
            self.wishes.close_frame("request", chunk.consumed(), None);
        }
        self.request.step = if short { Step::IgnoreRest } else { Step::Idle };
        self.request_id += 1;
        Ok(())
    }

    /// No more bytes come from the client.
    pub(super) fn request_close(&mut self) {
        if self.request.status != Status::Error {
            self.request.status = Status::Closed;
        }
        self.request_data(&mut Chunk::new(&[]));
    }
}
