//! What the line and the header fields of a response say.

use gauntlet_packet::Direction::ToClient;

use super::connection::{Chunk, Connection, Halt, Status, Step};
use super::event::Event;
use super::request_line::length_events;
use super::text::{chomp, contains_word, is_space, span, without_nul};
use super::transaction::{Coding, progress};
use super::values::{Method, Version, status, version};

/// What the header fields of a response say of its body.
struct Framing {
    status: Option<u16>,
    method: Method,
    length: Option<Vec<u8>>,
    transfer: Option<Vec<u8>>,
}

impl Framing {
    fn is(&self, code: u16) -> bool {
        self.status == Some(code)
    }

    fn within(&self, first: u16, last: u16) -> bool {
        self.status.is_some_and(|code| (first..=last).contains(&code))
    }
}

impl Connection {
    /// Reads a status line, with its end.
    pub(super) fn read_response_line(&mut self, whole: &[u8]) -> Result<(), Halt> {
        let (_, rest) = span(whole, |byte| is_space(byte) || byte == 0);
        let (protocol, rest) = span(rest, |byte| !is_space(byte));
        let (first, rest) = span(rest, is_space);
        let (code, rest) = span(rest, |byte| !is_space(byte));
        let (second, message) = span(rest, |byte| byte.is_ascii_whitespace());
        let (number, extra) = version(protocol);
        let coded = !first.is_empty() && !code.is_empty();
        let response = &mut self.response_mut()?.data.response;
        response.line = Some(whole.to_vec());
        response.protocol = (!protocol.is_empty()).then(|| protocol.to_vec());
        response.version = number;
        response.status_text = coded.then(|| code.to_vec());
        response.status = if coded { status(code) } else { None };
        let said = coded && !second.is_empty();
        response.message = said.then(|| chomp(message).to_vec());
        let bad_status = response.status.is_none();
        if extra {
            self.log(Event::PROTOCOL_CONTAINS_EXTRA_DATA);
        }
        if number == Version::Invalid {
            self.log(Event::RESPONSE_LINE_INVALID_PROTOCOL);
        }
        if bad_status {
            self.log(Event::RESPONSE_LINE_INVALID_RESPONSE_STATUS);
        }
        Ok(())
    }

    /// Decides whether a body follows, and how it ends.
    pub(super) fn response_body_determine(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        let exchange = self.response_mut()?;
        let response = &exchange.data.response;
        let framing = Framing {
            status: response.status,
            method: exchange.data.request.method,
            length: response.headers.value(b"content-length").map(<[u8]>::to_vec),
            transfer: response.headers.value(b"transfer-encoding").map(<[u8]>::to_vec),
        };
        if framing.method == Method::Connect {
            if framing.within(200, 299) {
                self.response.step = Step::Finalize;
                return self.response_headers_over(chunk);
            }
            if self.request.status != Status::Error {
                self.request.status = Status::Data;
            }
            if !framing.is(407) {
                self.yield_at_end = true;
            }
        }
        if framing.is(101) {
            if framing.transfer.is_none() && framing.length.is_none() {
                self.response.step = Step::Finalize;
                if self.request.status != Status::Error {
                    self.request.status = Status::Tunnel;
                }
                self.response.status = Status::Tunnel;
                return self.response_headers_over(chunk);
            }
            self.log(Event::SWITCHING_PROTO_WITH_CONTENT_LENGTH);
        } else if framing.is(100) && framing.transfer.is_none() {
            if self.interim(&framing)? {
                return Ok(());
            }
        } else if framing.within(400, 499) {
            self.refuse_upload()?;
        }
        self.response_without_body(&framing)?;
        if self.response.step != Step::Finalize {
            self.response_with_body(&framing)?;
        }
        self.response_headers_over(chunk)
    }

    /// "100 Continue": another response follows. `false`: it has a body, so it counts.
    fn interim(&mut self, framing: &Framing) -> Result<bool, Halt> {
        let mut events = Vec::new();
        let length = framing.length.as_deref();
        let length = length.and_then(|length| length_events(length, &mut events));
        for event in events {
            self.log(event);
        }
        if length.is_some_and(|length| length > 0) {
            return Ok(false);
        }
        if self.response_mut()?.data.response.seen_continue {
            self.log(Event::CONTINUE_ALREADY_SEEN);
        }
        self.response.step = Step::Line;
        let exchange = self.response_mut()?;
        exchange.data.response.headers.list.clear();
        exchange.data.response.seen_continue = true;
        exchange.state.reach(ToClient, progress::LINE);
        Ok(true)
    }

    /// The client waits for "100 Continue" and is refused: its body does not come.
    fn refuse_upload(&mut self) -> Result<(), Halt> {
        let waits = self.request.content_length.is_some_and(|length| length > 0)
            && self.request.left == self.request.content_length;
        if !waits {
            return Ok(());
        }
        let headers = &self.response_mut()?.data.request.headers;
        let expects = headers.list.iter().any(|header| {
            header.name.eq_ignore_ascii_case(b"expect") && header.value == b"100-continue"
        });
        if expects {
            self.request.step = Step::Finalize;
        }
        Ok(())
    }

    fn response_without_body(&mut self, framing: &Framing) -> Result<(), Halt> {
        let none = framing.within(100, 199) || framing.is(204) || framing.is(304);
        if framing.method == Method::Head {
            self.response_mut()?.data.response.coding = Coding::NoBody;
            self.response.step = Step::Finalize;
        } else if none {
            if framing.transfer.is_none() && framing.length.is_none() {
                self.response_mut()?.data.response.coding = Coding::NoBody;
                self.response.step = Step::Finalize;
            } else {
                // Clients read it all the same.
                self.log(Event::RESPONSE_BODY_UNEXPECTED);
            }
        }
        Ok(())
    }

    fn response_with_body(&mut self, framing: &Framing) -> Result<(), Halt> {
        let transfer = framing.transfer.as_deref().map(without_nul);
        let chunked = transfer.filter(|value| contains_word(value, b"chunked"));
        if chunked.is_some() {
            let plain = framing.transfer.as_deref().unwrap_or_default();
            if !plain.eq_ignore_ascii_case(b"chunked") {
                self.log(Event::RESPONSE_ABNORMAL_TRANSFER_ENCODING);
            }
            if self.response_mut()?.data.response.version < Version::V11 {
                self.log(Event::RESPONSE_CHUNKED_OLD_PROTO);
            }
            let exchange = self.response_mut()?;
            exchange.data.response.coding = Coding::Chunked;
            exchange.state.reach(ToClient, progress::BODY);
            self.response.step = Step::ChunkLength;
            return Ok(());
        }
        if let Some(value) = &framing.length {
            return self.response_with_length(value);
        }
        let exchange = self.response_mut()?;
        let kind = exchange.data.response.headers.value(b"content-type").unwrap_or_default();
        let (kind, _) = span(kind, |byte| byte != b';' && !is_space(byte));
        if contains_word(kind, b"multipart/byteranges") {
            self.log(Event::RESPONSE_MULTIPART_BYTERANGES);
            return Err(Halt::Error);
        }
        exchange.data.response.coding = Coding::Identity;
        exchange.state.reach(ToClient, progress::BODY);
        self.response.step = Step::BodyToClose;
        self.response.left = None;
        Ok(())
    }

    fn response_with_length(&mut self, value: &[u8]) -> Result<(), Halt> {
        let mut events = Vec::new();
        let length = length_events(value, &mut events);
        for event in events {
            self.log(event);
        }
        self.response_mut()?.data.response.coding = Coding::Identity;
        self.response.content_length = length;
        self.response.left = length;
        match length {
            None => {
                self.log(Event::INVALID_CONTENT_LENGTH_FIELD_IN_RESPONSE);
                Err(Halt::Error)
            }
            Some(0) => {
                self.response.step = Step::Finalize;
                Ok(())
            }
            Some(_) => {
                self.response.step = Step::Body;
                self.response_mut()?.state.reach(ToClient, progress::BODY);
                Ok(())
            }
        }
    }

    fn response_headers_over(&mut self, chunk: &mut Chunk<'_>) -> Result<(), Halt> {
        self.gather(ToClient, chunk, true);
        let headers = &self.response_mut()?.data.response.headers;
        let encodings = headers.value(b"content-encoding").map(<[u8]>::to_vec);
        self.prepare_decoder(ToClient, encodings.as_deref())
    }
}
