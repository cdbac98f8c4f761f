//! A stream of HTTP/2: a request with its response.

use std::sync::Arc;

use gauntlet_packet::Direction::{self, ToClient, ToServer};

use super::doh::Doh;
use super::event::Event;
use super::frame::{Frame, Header, Payload, flag, kind};
use super::hpack::Field;
use crate::http::decompress::{Encoding, Single};
use crate::transaction::Transaction;

/// Where a stream is. The numbers are progress.
pub(super) mod stage {
    pub(crate) const OPEN: u8 = 1;
    pub(crate) const RESERVED: u8 = 2;
    pub(crate) const DATA_CLIENT: u8 = 3;
    pub(crate) const HALF_CLOSED_CLIENT: u8 = 4;
    pub(crate) const DATA_SERVER: u8 = 5;
    pub(crate) const HALF_CLOSED_SERVER: u8 = 6;
    pub(crate) const CLOSED: u8 = 7;
    /// Not a stream: frames of the connection.
    pub(crate) const GLOBAL: u8 = 8;
    /// There were too many.
    pub(crate) const DROPPED: u8 = 9;
}

/// One direction of a stream.
#[derive(Default)]
pub(super) struct Half {
    pub frames: Vec<Frame>,
    pub encoding: Coding,
    pub file_open: bool,
    /// Compressed bytes, and what became of them.
    pub input_len: u64,
    pub output_len: u64,
}

/// What a body is compressed with.
#[derive(Default)]
pub(super) enum Coding {
    /// No header said anything.
    #[default]
    Unknown,
    /// Nothing that is undone.
    Plain,
    Decoder(Box<Single>),
}

/// A stream.
#[derive(Default)]
pub(super) struct Stream {
    pub id: u32,
    /// A stream that was promised, whose header fields are still to come.
    pub child: u32,
    pub halves: [Half; 2],
    pub doh: Doh,
}

impl Stream {
    pub(super) fn half(&self, direction: Direction) -> &Half {
        let [to_server, to_client] = &self.halves;
        if direction == Direction::ToServer { to_server } else { to_client }
    }

    pub(super) fn half_mut(&mut self, direction: Direction) -> &mut Half {
        let [to_server, to_client] = &mut self.halves;
        if direction == Direction::ToServer { to_server } else { to_client }
    }

    /// The first value of this name.
    pub(super) fn first(&self, direction: Direction, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.half(direction).frames.iter().flat_map(|one| one.payload.fields());
        fields.find(|field| field.pair().0 == name).map(|field| field.pair().1)
    }

    /// All values of this name, joined. Fields that a table repeats are not joined.
    pub(super) fn joined(&self, direction: Direction, name: &[u8]) -> Option<Vec<u8>> {
        let mut all: Option<Vec<u8>> = None;
        let fields = self.half(direction).frames.iter().flat_map(|one| one.payload.fields());
        for field in fields {
            let super::hpack::Field::Pair(key, value) = field else { continue };
            if **key != *name {
                continue;
            }
            match &mut all {
                None => all = Some(value.to_vec()),
                Some(all) if Arc::strong_count(key) <= 2 => {
                    all.extend_from_slice(b", ");
                    all.extend_from_slice(value);
                }
                Some(_) => {}
            }
        }
        all
    }

    /// The first encoding that is named counts.
    pub(super) fn set_encoding(&mut self, direction: Direction, value: &[u8]) {
        let half = self.half_mut(direction);
        if !matches!(half.encoding, Coding::Unknown) {
            return;
        }
        let encoding = match value {
            b"gzip" => Encoding::Gzip,
            b"deflate" => Encoding::Deflate,
            b"br" => Encoding::Brotli,
            _ => {
                half.encoding = Coding::Plain;
                return;
            }
        };
        half.encoding = Coding::Decoder(Box::new(Single::new(encoding)));
    }
}

/// Sets the stage of a stream, which is progress of both directions.
pub(super) fn set(stream: &mut Transaction<Stream>, stage: u8) {
    stream.state.set(ToServer, stage);
    stream.state.set(ToClient, stage);
}

/// What a frame does to its stream.
pub(super) fn handle(
    stream: &mut Transaction<Stream>,
    header: Header,
    payload: &Payload,
    direction: Direction,
) {
    match payload {
        Payload::Promise(_, id) if direction == ToClient => {
            if !header.has(flag::END_HEADERS) {
                stream.data.child = *id;
            }
            set(stream, stage::RESERVED);
        }
        Payload::Continuation(_) if direction == ToClient && header.has(flag::END_HEADERS) => {
            stream.data.child = 0;
        }
        Payload::Headers(..) if direction == ToClient => stream.data.child = 0,
        Payload::Reset(_) => stream.data.child = 0,
        _ => {}
    }
    note_fields(stream, payload.fields(), direction);
    let at = stream.state.progress(ToServer);
    let data = header.kind == kind::DATA;
    let ends = header.has(flag::END_STREAM) && (data || matches!(payload, Payload::Headers(..)));
    let next = if ends {
        match (at, direction) {
            (stage::HALF_CLOSED_CLIENT | stage::DATA_SERVER, ToClient)
            | (stage::HALF_CLOSED_SERVER, ToServer) => stage::CLOSED,
            (
                stage::HALF_CLOSED_CLIENT
                | stage::DATA_SERVER
                | stage::HALF_CLOSED_SERVER
                | stage::CLOSED
                | stage::GLOBAL,
                _,
            ) => at,
            (_, ToClient) => stage::HALF_CLOSED_SERVER,
            (_, ToServer) => stage::HALF_CLOSED_CLIENT,
        }
    } else if data && direction == ToServer {
        at.max(stage::DATA_CLIENT)
    } else if data {
        at.max(stage::DATA_SERVER)
    } else {
        at
    };
    set(stream, next);
}

/// Encodings of bodies, and contradictions about the server's name.
fn note_fields(stream: &mut Transaction<Stream>, fields: &[Field], direction: Direction) {
    let (mut authority, mut host) = (None, None);
    for field in fields {
        let (name, value) = field.pair();
        if name == b"content-encoding" {
            stream.data.set_encoding(direction, value);
        } else if name.eq_ignore_ascii_case(b":authority") {
            authority = Some(value);
            if value.contains(&b'@') {
                stream.state.event(Event::UserinfoInUri as u8);
            }
        } else if name.eq_ignore_ascii_case(b"host") {
            host = Some(value);
        }
    }
    if let (Some(authority), Some(host)) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        stream.state.event(Event::AuthorityHostMismatch as u8);
    }
}
