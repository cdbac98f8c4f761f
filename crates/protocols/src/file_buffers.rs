//! Buffers of files, for all protocols that have them.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Engine, Kind, Number, NumberSpec, Spec, to_client, to_server};
use crate::files::{FileState, Look};
use crate::protocol::Protocol;
use crate::transaction::State;

/// Their room.
pub(crate) const ROOM: u8 = 255;

pub(crate) const DATA: Buffer = Buffer::new(ROOM, 0);
const NAME: Buffer = Buffer::new(ROOM, 1);
const BODY: Buffer = Buffer::new(ROOM, 2);
const MAGIC: Buffer = Buffer::new(ROOM, 3);
const SIZE: Number = Number::new(ROOM, 0);

/// Progress of HTTP/1 and HTTP/2 at which files are looked at.
const HTTP1_BODY: u8 = 3;
const HTTP2_DATA_TO_SERVER: u8 = 3;
const HTTP2_DATA_TO_CLIENT: u8 = 5;

const ENGINES: &[Engine] = &[
    to_server(Protocol::Http1, HTTP1_BODY),
    to_client(Protocol::Http1, HTTP1_BODY),
    to_server(Protocol::Http2, HTTP2_DATA_TO_SERVER),
    to_client(Protocol::Http2, HTTP2_DATA_TO_CLIENT),
    to_server(Protocol::Nfs, 0),
    to_client(Protocol::Nfs, 0),
    to_server(Protocol::Smb, 0),
    to_client(Protocol::Smb, 0),
    to_server(Protocol::Ftp, 0),
    to_client(Protocol::Ftp, 0),
    to_server(Protocol::FtpData, 0),
    to_client(Protocol::FtpData, 0),
    to_server(Protocol::Smtp, 0),
];

const BODY_ENGINES: &[Engine] =
    &[to_client(Protocol::Http1, HTTP1_BODY), to_client(Protocol::Http2, HTTP2_DATA_TO_CLIENT)];

/// The buffers of files.
pub(crate) static BUFFERS: &[Spec] = &[
    Spec {
        buffer: DATA,
        name: "file.data",
        aliases: &["file_data"],
        kind: Kind::Bodies,
        engines: ENGINES,
    },
    Spec { buffer: NAME, name: "file.name", aliases: &[], kind: Kind::Multi, engines: ENGINES },
    Spec { buffer: MAGIC, name: "file.magic", aliases: &[], kind: Kind::Bodies, engines: ENGINES },
    Spec {
        buffer: BODY,
        name: "http.response_body",
        aliases: &["http_server_body"],
        kind: Kind::Bodies,
        engines: BODY_ENGINES,
    },
];

/// The numbers of files.
pub(crate) static NUMBERS: &[NumberSpec] =
    &[NumberSpec { number: SIZE, name: "filesize", aliases: &[], engines: ENGINES }];

/// The `i`th file's buffer.
pub(crate) fn buffer(
    state: &State,
    buffer: Buffer,
    direction: Direction,
    i: usize,
    look: Look,
) -> Option<Bytes<'_>> {
    let file = state.files(direction).get(i).filter(|file| !file.passed)?;
    match buffer {
        NAME => Some(Bytes::whole(&file.name)),
        DATA | BODY => file.data(look),
        MAGIC => file.magic.as_deref().map(|text| Bytes::whole(text.as_bytes())),
        _ => None,
    }
}

/// The `i`th file's number: its size is known once it is over.
pub(crate) fn number(state: &State, number: Number, direction: Direction, i: usize) -> Option<i64> {
    let file = state.files(direction).get(i).filter(|file| !file.passed)?;
    let known = number == SIZE && file.state == FileState::Closed;
    known.then(|| i64::try_from(file.size).unwrap_or(i64::MAX))
}
