//! What the line and the header fields of a request say.

use gauntlet_packet::Direction::{self, ToServer};

use super::connection::{Connection, Halt, note_flags};
use super::decompress::{Chain, Encoding};
use super::event::Event;
use super::headers::{Field, Oddities, Of, Reader};
use super::text::{chomp, contains_word, is_space, span, split_trimmed, trimmed, without_nul};
use super::transaction::{Coding, Exchange, Flags, Header, Headers};
use super::uri::Uri;
use super::values::{Method, Version, authorization, content_length, host_port, is_host, version};

/// So many repetitions of fields are joined.
const REPETITIONS_MAX: u32 = 64;

impl Connection {
    /// Reads a request line, with its end.
    pub(super) fn read_request_line(&mut self, whole: &[u8]) -> Result<(), Halt> {
        let line = chomp(whole);
        self.split_request_line(line)?;
        let settings = self.settings.clone();
        let exchange = self.request_mut()?;
        let request = &mut exchange.data.request;
        let uri = match (&request.uri, request.method) {
            (Some(uri), Method::Connect) => Uri::authority(&settings, uri),
            (None, Method::Connect) => return Err(Halt::Error),
            (Some(uri), _) => Uri::parse(&settings, uri),
            (None, _) => Uri::default(),
        };
        let bad = uri.host.as_ref().is_some_and(|host| !is_host(host));
        exchange.data.flags.uri_host_invalid |= bad || uri.invalid_host;
        note_flags(exchange);
        let normalized = uri.normalized(&settings);
        let request = &mut exchange.data.request;
        request.parsed = Some(uri);
        request.normalized =
            if settings.uri_include_all { normalized.complete } else { normalized.partial };
        if normalized.double_encoded {
            self.log(Event::DOUBLE_ENCODED_URI);
        }
        Ok(())
    }

    fn split_request_line(&mut self, line: &[u8]) -> Result<(), Halt> {
        let (apache, space_in_method) =
            (self.settings.apache, self.settings.leading_space_in_method);
        let mut data = line;
        if apache {
            data = span(data, |byte| byte != 0).0;
        }
        let (leading, rest) = span(data, is_space);
        let (name, rest) = span(rest, |byte| !is_space(byte));
        let (delimiter, rest) = span(rest, is_space);
        if !leading.is_empty() {
            self.log(Event::REQUEST_LINE_LEADING_WHITESPACE);
        }
        let text = if space_in_method { [leading, name].concat() } else { name.to_vec() };
        let method = Method::of(&text);
        let request = &mut self.request_mut()?.data.request;
        request.line = Some(line.to_vec());
        request.method_text = Some(text);
        request.method = method;
        let unknown = method == Method::Unknown;
        if rest.is_empty() {
            request.short = true;
            request.version = Version::V09;
        }
        if delimiter.iter().any(|byte| *byte != b' ') {
            self.log(Event::METHOD_DELIM_NON_COMPLIANT);
        }
        if rest.is_empty() {
            if unknown {
                self.log(Event::REQUEST_LINE_UNKNOWN_METHOD);
            }
            return Ok(());
        }
        let rest = trimmed(rest);
        let (mut uri, mut protocol) = split_trimmed(rest, true, |byte| *byte == b' ');
        if uri.iter().any(|byte| is_space(*byte) && *byte != b' ') {
            self.log(Event::URI_DELIM_NON_COMPLIANT);
            if uri.len() == rest.len() {
                (uri, protocol) = split_trimmed(rest, true, |byte| is_space(*byte));
            }
        }
        self.take_uri_and_protocol(uri, protocol, unknown)
    }

    fn take_uri_and_protocol(
        &mut self,
        uri: &[u8],
        protocol: &[u8],
        unknown: bool,
    ) -> Result<(), Halt> {
        let request = &mut self.request_mut()?.data.request;
        request.uri = Some(uri.to_vec());
        if protocol.is_empty() {
            request.short = true;
            request.version = Version::V09;
            if unknown {
                self.log(Event::REQUEST_LINE_UNKNOWN_METHOD_NO_PROTOCOL);
            }
            return Ok(());
        }
        let (version, extra) = version(protocol);
        request.protocol = Some(protocol.to_vec());
        request.version = version;
        if extra {
            self.log(Event::PROTOCOL_CONTAINS_EXTRA_DATA);
        }
        if unknown && version == Version::Invalid {
            self.log(Event::REQUEST_LINE_UNKNOWN_METHOD_INVALID_PROTOCOL);
        }
        Ok(())
    }

    /// Reads header fields: how many bytes were read, and whether they are over.
    pub(super) fn read_fields(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        complete: bool,
    ) -> Result<(usize, bool), Halt> {
        let of = if direction == ToServer { Of::Request } else { Of::Response };
        let Some(block) = (Reader { of, complete }).read(bytes) else { return Ok((0, false)) };
        for field in block.fields {
            self.take_field(direction, field)?;
        }
        Ok((block.consumed, block.end))
    }

    fn take_field(&mut self, direction: Direction, field: Field) -> Result<(), Halt> {
        let max = self.settings.headers_max;
        let exchange = match direction {
            Direction::ToServer => self.request_mut()?,
            Direction::ToClient => self.response_mut()?,
        };
        let mut events = Vec::new();
        oddity_events(&mut exchange.data.flags, field.odd, direction, &mut events);
        let Exchange { request, response, flags } = &mut exchange.data;
        let headers = match direction {
            Direction::ToServer => &mut request.headers,
            Direction::ToClient => &mut response.headers,
        };
        let added = add_field(headers, field, max, direction, flags, &mut events);
        for event in events {
            self.log(event);
        }
        added
    }

    /// What the header fields of a request mean for its body and its host.
    pub(super) fn judge_request_headers(&mut self) -> Result<(), Halt> {
        let exchange = self.request_mut()?;
        let mut events = Vec::new();
        judge_body(&mut exchange.data, &mut events);
        judge_host(&mut exchange.data);
        let request = &mut exchange.data.request;
        if let Some(value) = request.headers.value(b"authorization") {
            request.authorization = authorization(value);
        }
        let encodings = request.headers.value(b"content-encoding").map(<[u8]>::to_vec);
        for event in events {
            self.log(event);
        }
        self.prepare_decoder(ToServer, encodings.as_deref())
    }

    /// Makes the decoder of a body, by its `Content-Encoding`.
    pub(super) fn prepare_decoder(
        &mut self,
        direction: Direction,
        value: Option<&[u8]>,
    ) -> Result<(), Halt> {
        let Some(value) = value else { return Ok(()) };
        let (list, events) = encodings(value, self.settings.layers_max, direction);
        for event in events {
            self.log(event);
        }
        if list.is_empty() {
            return Ok(());
        }
        let bombed = self.shared.bombs >= self.settings.bombs_max;
        let memory = self.settings.lzma_bytes_max;
        let exchange = match direction {
            Direction::ToServer => self.request_mut()?,
            Direction::ToClient => self.response_mut()?,
        };
        let body = match direction {
            Direction::ToServer => &mut exchange.data.request.body,
            Direction::ToClient => &mut exchange.data.response.body,
        };
        body.compressed = true;
        body.decoder = (!bombed).then(|| Chain::new(&list, memory));
        Ok(())
    }
}

/// Events of what is odd about a field; some are told once in a transaction.
fn oddity_events(flags: &mut Flags, odd: Oddities, direction: Direction, out: &mut Vec<Event>) {
    let of = |request: Event, response: Event| {
        if direction == ToServer { request } else { response }
    };
    if odd.odd_end && direction == Direction::ToClient {
        out.push(Event::DEFORMED_EOL);
    }
    let mut once = |noticed: bool, flag: &mut bool, event: Event| {
        if noticed && !std::mem::replace(flag, true) {
            out.push(event);
        }
    };
    once(
        odd.space_after_name,
        &mut flags.field_invalid,
        of(Event::REQUEST_INVALID_LWS_AFTER_NAME, Event::RESPONSE_INVALID_LWS_AFTER_NAME),
    );
    once(
        odd.space_before_name,
        &mut flags.invalid_folding,
        of(Event::INVALID_REQUEST_FIELD_FOLDING, Event::INVALID_RESPONSE_FIELD_FOLDING),
    );
    once(
        odd.name_not_token,
        &mut flags.field_invalid,
        of(Event::REQUEST_HEADER_INVALID, Event::RESPONSE_HEADER_NAME_NOT_TOKEN),
    );
    // A colon without a name before it is told as one that is missing, as in Suricata 8, where
    // nothing is `request_invalid_empty_name` any more.
    once(
        odd.no_colon || odd.name_empty,
        &mut flags.field_unparseable,
        of(Event::REQUEST_FIELD_MISSING_COLON, Event::RESPONSE_FIELD_MISSING_COLON),
    );
}

/// Adds a field, or joins its value to that of the same name.
fn add_field(
    headers: &mut Headers,
    field: Field,
    max: usize,
    direction: Direction,
    flags: &mut Flags,
    out: &mut Vec<Event>,
) -> Result<(), Halt> {
    let of = |request: Event, response: Event| {
        if direction == ToServer { request } else { response }
    };
    let count = headers.list.len();
    let existing =
        headers.list.iter_mut().find(|other| other.name.eq_ignore_ascii_case(&field.name));
    let Some(existing) = existing else {
        if count > max {
            if !std::mem::replace(&mut flags.too_many_headers, true) {
                let event = of(Event::REQUEST_TOO_MANY_HEADERS, Event::RESPONSE_TOO_MANY_HEADERS);
                out.push(event);
            }
            return Err(Halt::Error);
        }
        headers.list.push(Header { name: field.name, value: field.value, repeated: false });
        return Ok(());
    };
    let first = !std::mem::replace(&mut existing.repeated, true);
    if !first {
        if headers.repetitions >= REPETITIONS_MAX {
            return Ok(());
        }
        headers.repetitions += 1;
    }
    if field.name.eq_ignore_ascii_case(b"content-length") {
        let number = |value: &[u8]| content_length(value).and_then(|digits| digits.number);
        let (old, new) = (number(&existing.value), number(&field.value));
        if old.is_none() || old != new {
            out.push(of(
                Event::DUPLICATE_CONTENT_LENGTH_FIELD_IN_REQUEST,
                Event::DUPLICATE_CONTENT_LENGTH_FIELD_IN_RESPONSE,
            ));
        }
    } else {
        existing.value.extend_from_slice(b", ");
        existing.value.extend_from_slice(&field.value);
    }
    if first {
        out.push(of(Event::REQUEST_HEADER_REPETITION, Event::RESPONSE_HEADER_REPETITION));
    }
    Ok(())
}

/// Events of a `Content-Length` with something around its number.
pub(super) fn length_events(value: &[u8], out: &mut Vec<Event>) -> Option<u64> {
    let digits = content_length(value)?;
    if digits.before {
        out.push(Event::CONTENT_LENGTH_EXTRA_DATA_START);
    }
    if digits.behind {
        out.push(Event::CONTENT_LENGTH_EXTRA_DATA_END);
    }
    digits.number
}

fn judge_body(exchange: &mut Exchange, out: &mut Vec<Event>) {
    let Exchange { request, flags, .. } = exchange;
    let length = request.headers.value(b"content-length");
    if let Some(coding) = request.headers.value(b"transfer-encoding") {
        if !contains_word(&without_nul(coding), b"chunked") {
            request.coding = Coding::Invalid;
            flags.invalid_transfer_encoding = true;
            return;
        }
        if request.version < Version::V11 {
            flags.invalid_transfer_encoding = true;
        }
        request.coding = Coding::Chunked;
        return;
    }
    let Some(length) = length else {
        request.coding = Coding::NoBody;
        return;
    };
    request.content_length = length_events(length, out);
    if request.content_length.is_some() {
        request.coding = Coding::Identity;
    } else {
        request.coding = Coding::Invalid;
        flags.invalid_content_length = true;
    }
}

fn judge_host(exchange: &mut Exchange) {
    let Exchange { request, flags, .. } = exchange;
    if let Some(uri) = &request.parsed {
        request.host.clone_from(&uri.host);
        request.port = uri.port;
    }
    let Some(value) = request.headers.value(b"host") else {
        flags.host_missing |= request.version >= Version::V11;
        return;
    };
    let Some(found) = host_port(value) else {
        flags.host_ambiguous |= request.host.is_some();
        return;
    };
    flags.header_host_invalid |= !found.valid;
    let port_differs =
        found.port.is_some() && request.port.is_some() && request.port != found.number;
    match &request.host {
        None => {
            request.host = Some(found.host.to_ascii_lowercase());
            if found.port.is_some() {
                request.port = found.number;
            }
        }
        Some(host) => {
            let host_differs = !host.eq_ignore_ascii_case(found.host);
            flags.host_ambiguous |= host_differs || port_differs;
        }
    }
}

/// The encodings that a value of `Content-Encoding` names, and what is odd about it.
fn encodings(value: &[u8], max: u32, direction: Direction) -> (Vec<Encoding>, Vec<Event>) {
    let plain = without_nul(value);
    let is = |word: &[u8]| plain.eq_ignore_ascii_case(word);
    let single = if is(b"gzip") || is(b"x-gzip") {
        Some(Encoding::Gzip)
    } else if is(b"deflate") || is(b"x-deflate") {
        Some(Encoding::Deflate)
    } else if is(b"br") {
        Some(Encoding::Brotli)
    } else if is(b"lzma") {
        Some(Encoding::Lzma)
    } else {
        None
    };
    if let Some(encoding) = single {
        return (vec![encoding], Vec::new());
    }
    if is(b"inflate") || is(b"none") {
        return (Vec::new(), Vec::new());
    }
    let (mut list, mut events, mut layers) = (Vec::new(), Vec::new(), 0);
    for word in value.split(|byte| matches!(byte, b',' | b' ')) {
        if word.is_empty() {
            continue;
        }
        layers += 1;
        if max > 0 && layers > max {
            events.push(Event::TOO_MANY_ENCODING_LAYERS);
            break;
        }
        let identity = word == b"identity" && direction == Direction::ToClient;
        if contains_word(word, b"gzip") {
            if word != b"gzip" && word != b"x-gzip" {
                events.push(Event::ABNORMAL_CE_HEADER);
            }
            list.push(Encoding::Gzip);
        } else if contains_word(word, b"deflate") {
            if word != b"deflate" && word != b"x-deflate" {
                events.push(Event::ABNORMAL_CE_HEADER);
            }
            list.push(Encoding::Deflate);
        } else if word == b"lzma" {
            list.push(Encoding::Lzma);
        } else if !(identity || word == b"inflate" || word == b"none") {
            events.push(Event::ABNORMAL_CE_HEADER);
        }
    }
    (list, events)
}
