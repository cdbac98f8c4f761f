//! Reads responses, step by step, as far as bytes allow.

use gauntlet_packet::Direction::{ToClient, ToServer};

use super::body::Piece;
use super::connection::{Chunk, Connection, Halt, Status, Step};
use super::event::Event;
use super::text::{
    chomp, is_body_line, is_chunk_control_line, is_ignorable, line, line_of_either,
    may_be_chunk_length,
};
use super::transaction::{Coding, progress};
use super::uri::Uri;
use super::values::{ChunkLine, Method, chunk_length};

/// What stands for a URI that was not seen.
const URI_NOT_SEEN: &[u8] = b"/libhtp::request_uri_not_seen";

impl Connection {
    /// Takes bytes (or a gap) of the server.
    pub(super) fn response_data(&mut self, chunk: &mut Chunk<'_>) -> Status {
        if self.response.status == Status::Error {
            self.log(Event::PARSER_STATE_ERROR);
            return Status::Error;
        }
        if chunk.is_empty() && self.response.status != Status::Closed {
            self.log(Event::ZERO_LENGTH_DATA_CHUNKS);
            return Status::Closed;
        }
        if self.response.status == Status::Tunnel {
            return Status::Tunnel;
        }
        if chunk.is_gap() {
            let first = self.request_id == 0;
            match self.response_mut() {
                Err(_) => return Status::Error,
                Ok(exchange) => {
                    let begun = exchange.state.progress(ToClient) != progress::NOT_STARTED;
                    if first && !begun {
                        return Status::Closed;
                    }
                }
            }
        }
        loop {
            let step = self.response.step;
            let gap_fits = matches!(step, Step::Body | Step::BodyToClose | Step::Finalize);
            if chunk.is_gap() && !gap_fits {
                self.log(Event::INVALID_GAP);
                return Status::Closed;
            }
            let result = self.response_step(chunk);
            if result.is_ok() {
                if self.response.status == Status::Tunnel {
                    return Status::Tunnel;
                }
                self.note_step(ToClient, chunk);
                continue;
            }
            let status = match result {
                Ok(()) | Err(Halt::Data) => {
                    self.gather(ToClient, chunk, false);
                    Status::Data
                }
                Err(Halt::Other) if chunk.is_empty() => Status::Data,
                Err(Halt::Other) => Status::DataOther,
                Err(Halt::Error) => Status::Error,
            };
            self.response.status = status;
            return status;
        }
    }

    fn response_step(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        match self.response.step {
            Step::Idle => self.response_idle(chunk),
            Step::Line => self.response_line(chunk),
            Step::Headers => self.response_headers(chunk),
            Step::BodyDetermine => self.response_body_determine(chunk),
            Step::ChunkLength => self.response_chunk_length(chunk),
            Step::ChunkData => self.response_chunk_data(chunk),
            Step::ChunkEnd => self.response_chunk_end(chunk),
            Step::Body => self.response_body(chunk),
            Step::BodyToClose => self.response_body_to_close(chunk),
            Step::Finalize => self.response_finalize(chunk),
            Step::Protocol
            | Step::ConnectCheck
            | Step::ConnectWait
            | Step::ConnectProbe
            | Step::IgnoreRest => Err(Halt::Error),
        }
    }

    fn response_idle(&mut self, chunk: &Chunk<'_>) -> Result<(), Halt> {
        if chunk.is_empty() {
            return Err(Halt::Data);
        }
        if self.response_mut()?.state.progress(ToServer) == progress::NOT_STARTED {
            self.log(Event::UNABLE_TO_MATCH_RESPONSE_TO_REQUEST);
            if self.request.step == Step::Finalize {
                let _ = self.request_complete(&mut Chunk::new(&[]));
            }
            let exchange = self.response_mut()?;
            exchange.data.request.uri = Some(URI_NOT_SEEN.to_vec());
            let uri = Uri { path: Some(URI_NOT_SEEN.to_vec()), ..Uri::default() };
            exchange.data.request.parsed = Some(uri);
            exchange.state.reach(ToServer, progress::COMPLETE);
            self.request_id += 1;
        }
        self.response.content_length = None;
        self.response.left = None;
        let exchange = self.response_mut()?;
        if exchange.data.request.short {
            exchange.data.response.coding = Coding::Identity;
            exchange.data.response.body.compressed = false;
            exchange.state.set(ToClient, progress::BODY);
            self.response.step = Step::BodyToClose;
        } else {
            exchange.state.set(ToClient, progress::LINE);
            self.response.step = Step::Line;
        }
        let id = self.response_id;
        self.set_raw_depth(ToClient, self.settings.response_inspect_min);
        self.wishes.open_frame("response", chunk.consumed(), None, Some(id));
        let request = &self.response_mut()?.data.request;
        let nothing = request.method_text.is_none() && request.uri.is_none();
        if nothing && self.request.step == Step::Line {
            self.log(Event::REQUEST_LINE_INCOMPLETE);
        }
        Ok(())
    }

    fn response_line(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let found = match line_of_either(chunk.rest()) {
            Some(line) => line,
            None if self.response.status == Status::Closed => chunk.rest(),
            None => return Err(self.keep_line(ToClient, chunk)),
        };
        let mut whole = std::mem::take(&mut self.response.buffer);
        whole.extend_from_slice(found);
        chunk.consume(found.len());
        self.check_field(ToClient, whole.len())?;
        if whole.is_empty() {
            return Err(Halt::Data);
        }
        if is_ignorable(&whole) {
            if self.response.status == Status::Closed {
                self.response.step = Step::Finalize;
            }
            return Ok(());
        }
        let response = &mut self.response_mut()?.data.response;
        response.line = None;
        response.protocol = None;
        response.status_text = None;
        response.message = None;
        if is_body_line(&whole) {
            return self.line_as_body(&whole, chunk);
        }
        self.read_response_line(&whole)?;
        self.response.step = Step::Headers;
        self.response_mut()?.state.reach(ToClient, progress::HEADERS);
        Ok(())
    }

    /// What does not look like a status line is taken for a body, as browsers do.
    fn line_as_body(&mut self, whole: &[u8], chunk: &Chunk<'_>) -> Result<(), Halt> {
        let rest = chunk.rest();
        if rest.len() > 1 && (rest.starts_with(b"H") || chomp(whole).len() <= 2) {
            return Ok(());
        }
        self.response_mut()?.data.response.body.compressed = false;
        self.response_bytes(whole)?;
        if rest.is_empty() {
            let exchange = self.response_mut()?;
            exchange.data.response.coding = Coding::Identity;
            exchange.state.reach(ToClient, progress::BODY);
            self.response.left = None;
            self.response.step = Step::Finalize;
        }
        Ok(())
    }

    fn response_headers(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if self.response.status == Status::Closed {
            if let Some(header) = self.response.header.take() {
                self.read_fields(ToClient, &header, true)?;
            }
            self.trailer_over(chunk)?;
            self.response.step = Step::Finalize;
            return Ok(());
        }
        let data = chunk.rest();
        let Some(first) = line(data) else {
            chunk.consume(data.len());
            self.check_field(ToClient, data.len())?;
            self.response.header.get_or_insert_with(Vec::new).extend_from_slice(data);
            return Err(Halt::Data);
        };
        if self.response.header.is_some() {
            self.check_field(ToClient, first.len())?;
        }
        let mut header = self.response.header.take().unwrap_or_default();
        header.extend_from_slice(data);
        let (consumed, over) = self.read_fields(ToClient, &header, false)?;
        let left = header.get(consumed..).unwrap_or_default();
        let ending = consumed == 0 && matches!(left, b"\r\n" | b"\n");
        if over || ending {
            if ending {
                chunk.consume(data.len());
            } else if left.len() <= data.len() {
                chunk.consume(data.len() - left.len());
            }
            let at = self.response_mut()?.state.progress(ToClient);
            if at == progress::HEADERS {
                self.response.step = Step::BodyDetermine;
            } else {
                self.trailer_over(chunk)?;
                self.response.step = Step::Finalize;
            }
            return Ok(());
        }
        chunk.consume(data.len());
        self.check_field(ToClient, left.len())?;
        self.response.header = Some(left.to_vec());
        Err(Halt::Data)
    }

    fn trailer_over(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        self.gather(ToClient, chunk, true);
        let exchange = self.response_mut()?;
        exchange.data.response.trailers = true;
        exchange.state.touch(ToClient);
        Ok(())
    }

    fn response_chunk_length(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        loop {
            let empty = self.response.buffer.is_empty();
            let Some(found) = line(chunk.rest()) else {
                if !empty || may_be_chunk_length(chunk.rest()) {
                    return Err(self.keep_line(ToClient, chunk));
                }
                return self.no_chunks();
            };
            chunk.consume(found.len());
            if !empty {
                self.check_field(ToClient, found.len())?;
            }
            let mut whole = std::mem::take(&mut self.response.buffer);
            whole.extend_from_slice(found);
            self.response_mut()?.data.response.body.message_len += whole.len() as u64;
            if is_chunk_control_line(&whole) {
                continue;
            }
            match chunk_length(&whole) {
                ChunkLine::Length { len, extension } => {
                    if extension {
                        self.log(Event::RESPONSE_CHUNK_EXTENSION);
                    }
                    self.response.chunk_left = Some(len);
                    if len == 0 {
                        self.response.step = Step::Headers;
                        self.response_mut()?.state.reach(ToClient, progress::TRAILER);
                    } else {
                        self.response.step = Step::ChunkData;
                    }
                }
                ChunkLine::Nothing => {}
                ChunkLine::Invalid => {
                    chunk.unconsume(found.len());
                    return self.no_chunks();
                }
            }
            return Ok(());
        }
    }

    /// There are no chunks although the header said so: all is body.
    fn no_chunks(&mut self) -> Result<(), Halt> {
        self.response.step = Step::BodyToClose;
        self.response_mut()?.data.response.coding = Coding::Identity;
        self.log(Event::INVALID_RESPONSE_CHUNK_LEN);
        Ok(())
    }

    fn response_chunk_data(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if self.response.status == Status::Closed {
            return self.response_cut_off(chunk);
        }
        let left = self.response.chunk_left.unwrap_or(0);
        let rest = chunk.rest();
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        if count == 0 {
            return Err(Halt::Data);
        }
        self.response_bytes(rest.get(..count).unwrap_or_default())?;
        chunk.consume(count);
        let left = left - count as u64;
        self.response.chunk_left = Some(left);
        if left > 0 {
            return Err(Halt::Data);
        }
        self.response.step = Step::ChunkEnd;
        Ok(())
    }

    /// The connection closed within a body.
    fn response_cut_off(&mut self, chunk: &Chunk<'_>) -> Result<(), Halt> {
        self.response.step = Step::Finalize;
        if chunk.is_empty() {
            self.body(ToClient)?.finish();
            return Ok(());
        }
        self.response_bytes(chunk.rest())
    }

    fn response_chunk_end(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let Some(found) = line(chunk.rest()) else {
            chunk.consume(chunk.rest().len());
            return Err(Halt::Data);
        };
        chunk.consume(found.len());
        self.response.step = Step::ChunkLength;
        Ok(())
    }

    fn response_body(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if self.response.status == Status::Closed {
            return self.response_cut_off(chunk);
        }
        let left = self.response.left.ok_or(Halt::Error)?;
        let count = chunk.len().min(left);
        if count == 0 {
            return Err(Halt::Data);
        }
        if chunk.is_gap() {
            let mut body = self.body(ToClient)?;
            if body.transaction.data.response.body.compressed {
                body.finish();
            } else {
                body.transaction.data.response.body.message_len += count;
                body.piece(Piece::Gap(count));
            }
            chunk.consume_gap(count);
        } else {
            let len = usize::try_from(count).unwrap_or(usize::MAX);
            self.response_bytes(chunk.rest().get(..len).unwrap_or_default())?;
            chunk.consume(len);
        }
        self.response.left = Some(left - count);
        if left > count {
            return Err(Halt::Data);
        }
        self.response.step = Step::Finalize;
        self.body(ToClient)?.finish();
        Ok(())
    }

    fn response_body_to_close(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if chunk.is_gap() {
            if !chunk.is_empty() {
                self.body(ToClient)?.finish();
                chunk.consume_gap(chunk.len());
            }
        } else if !chunk.is_empty() {
            let rest = chunk.rest();
            self.response_bytes(rest)?;
            chunk.consume(rest.len());
        }
        if self.response.status == Status::Closed {
            self.response.step = Step::Finalize;
            return Ok(());
        }
        Err(Halt::Data)
    }

    fn response_bytes(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        if self.body(ToClient)?.bytes(bytes) { Ok(()) } else { Err(Halt::Error) }
    }

    fn response_finalize(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        if chunk.is_gap() {
            return self.response_complete(chunk);
        }
        let mut work = chunk.rest();
        if self.response.status != Status::Closed {
            match work.first() {
                None => return self.response_complete(chunk),
                Some(b'\n') => chunk.consume(work.len()),
                Some(_) => {
                    let Some(found) = line(work) else {
                        return Err(self.keep_line(ToClient, chunk));
                    };
                    chunk.consume(found.len());
                    work = found;
                }
            }
        }
        if !self.response.buffer.is_empty() {
            self.check_field(ToClient, work.len())?;
        }
        let buffered = std::mem::take(&mut self.response.buffer);
        let mut data = buffered.clone();
        data.extend_from_slice(work);
        if data.is_empty() {
            return self.response_complete(chunk);
        }
        if is_body_line(&data) {
            self.log(Event::RESPONSE_BODY_UNEXPECTED);
            return self.response_bytes(&data);
        }
        // It is the next response: back to where it begins.
        self.response.buffer = buffered;
        chunk.unconsume(data.len());
        self.response_complete(chunk)
    }

    /// The response is over.
    fn response_complete(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let exchange = self.response_mut()?;
        if exchange.state.progress(ToClient) != progress::COMPLETE {
            exchange.state.set(ToClient, progress::COMPLETE);
            let mut body = self.body(ToClient)?;
            if body.transaction.data.response.coding != Coding::NoBody {
                body.finish();
            }
            if body.transaction.data.response.body.file_open {
                body.close_file(false);
            }
            self.note_response()?;
            let [_, since] = &mut self.shared.since_last;
            *since = chunk.len();
            self.gather(ToClient, chunk, true);
            self.wishes.close_frame("response", chunk.consumed(), None);
        }
        let same = self.response_id == self.request_id;
        if self.response.status == Status::DataOther && same {
            return Err(Halt::Other);
        }
        if std::mem::take(&mut self.yield_at_end) && same {
            return Err(Halt::Other);
        }
        self.response_id += 1;
        self.response.step = Step::Idle;
        Ok(())
    }

    /// A complete response: the raw stream is inspected, and CONNECT may change the protocol.
    fn note_response(&mut self) -> Result<(), Halt> {
        self.responses += 1;
        let [_, to_client] = &mut self.shared.inspect_raw;
        *to_client = true;
        let exchange = self.response_mut()?;
        let (request, response) = (&exchange.data.request, &exchange.data.response);
        let accepted = response.status.is_some_and(|code| code / 100 == 2);
        let port = request.port;
        if request.method == Method::Connect
            && accepted
            && self.responses == 1
            && !self.change(None, port)
        {
            self.response_mut()?.state.event(Event::FAILED_PROTOCOL_CHANGE.0);
        }
        Ok(())
    }

    /// No more bytes come from either side.
    pub(super) fn close(&mut self) {
        for side in [&mut self.request, &mut self.response] {
            if side.status != Status::Error {
                side.status = Status::Closed;
            }
        }
        self.request_data(&mut Chunk::new(&[]));
        self.response_data(&mut Chunk::new(&[]));
    }
}
