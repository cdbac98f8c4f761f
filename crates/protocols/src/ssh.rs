//! SSH (RFC 4253): banners, the algorithms that both sides offer (HASSH), and the end of what can
//! be read.

use gauntlet_packet::Direction;
use md5::{Digest as _, Md5};

use crate::buffer::{Buffer, Bytes, Engine, Kind, to_client, to_server};
use crate::parser::{At, Input, Module, Outcome, Parser, Wishes};
use crate::protocol::Protocol;
use crate::reader::Reader;
use crate::record::Fields;
use crate::rooms;
pub use crate::settings::Encrypted;
pub use crate::settings::ssh::Settings;
use crate::tables::{row_with_aliases, single_transaction, stream_begins};
use crate::text::hex;
use crate::transaction::State;

/// Longest banner; the rest of a longer one is skipped.
const BANNER_BYTES_MAX: usize = 256;
/// Longest key exchange message that is waited for.
const KEX_BYTES_MAX: usize = 65_535;
/// Length, padding and type.
const RECORD_HEADER_BYTES: usize = 6;
const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;

const INVALID_BANNER: u8 = 0;
const LONG_BANNER: u8 = 1;
const INVALID_RECORD: u8 = 2;
const LONG_KEX_RECORD: u8 = 3;

const PROTO: Buffer = Buffer::new(rooms::SSH, 0);
const SOFTWARE: Buffer = Buffer::new(rooms::SSH, 1);
const HASSH: Buffer = Buffer::new(rooms::SSH, 2);
const HASSH_STRING: Buffer = Buffer::new(rooms::SSH, 3);
const HASSH_SERVER: Buffer = Buffer::new(rooms::SSH, 4);
const HASSH_SERVER_STRING: Buffer = Buffer::new(rooms::SSH, 5);

const BANNERS: &[Engine] = &[to_server(Protocol::Ssh, 2), to_client(Protocol::Ssh, 2)];
const CLIENT: &[Engine] = &[to_server(Protocol::Ssh, 2)];
const SERVER: &[Engine] = &[to_client(Protocol::Ssh, 2)];

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Ssh,
    events: &["invalid_banner", "long_banner", "invalid_record", "long_kex_record"],
    states: [
        &[
            "request_in_progress",
            "request_banner_wait_eol",
            "request_banner_done",
            "request_finished",
        ],
        &[
            "response_in_progress",
            "response_banner_wait_eol",
            "response_banner_done",
            "response_finished",
        ],
    ],
    buffers: &[
        row_with_aliases(PROTO, "ssh.proto", &["ssh_proto"], Kind::Single, BANNERS),
        row_with_aliases(SOFTWARE, "ssh.software", &["ssh_software"], Kind::Single, BANNERS),
        row_with_aliases(HASSH, "ssh.hassh", &["ssh-hassh"], Kind::Single, CLIENT),
        row_with_aliases(
            HASSH_STRING,
            "ssh.hassh.string",
            &["ssh-hassh-string"],
            Kind::Single,
            CLIENT,
        ),
        row_with_aliases(
            HASSH_SERVER,
            "ssh.hassh.server",
            &["ssh-hassh-server"],
            Kind::Single,
            SERVER,
        ),
        row_with_aliases(
            HASSH_SERVER_STRING,
            "ssh.hassh.server.string",
            &["ssh-hassh-server-string"],
            Kind::Single,
            SERVER,
        ),
    ],
    numbers: &[],
    patterns: &[
        stream_begins(Direction::ToServer, b"SSH-"),
        stream_begins(Direction::ToClient, b"SSH-"),
    ],
    probes: &[],
    accepts_gaps: false,
    first: None,
    make: |settings, _| Some(Box::new(Ssh::new(settings.ssh.clone()))),
};

/// How far a side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
enum Progress {
    #[default]
    Begin,
    BannerWithoutEnd,
    BannerDone,
    Encrypts,
}

/// One side.
#[derive(Debug, Default)]
struct Side {
    progress: Progress,
    proto: Vec<u8>,
    software: Vec<u8>,
    hassh_string: Vec<u8>,
    hassh: String,
    /// Bytes of the current record that are still to come.
    left: usize,
    /// The current record is a key exchange that is waited for.
    is_kex: bool,
}

struct Ssh {
    settings: Settings,
    client: Side,
    server: Side,
    state: State,
    removed: bool,
}

/// Key exchange lists (RFC 4253 section 7.1): of the client those to the server, and of the
/// server those to the client.
fn read_kex(bytes: &[u8], direction: Direction) -> Option<Vec<u8>> {
    let mut reader = Reader::new(bytes);
    reader.skip(16)?;
    let mut lists = [&[][..]; 10];
    for list in &mut lists {
        let length = usize::try_from(reader.be32()?).ok()?;
        *list = reader.take(length)?;
    }
    reader.skip(5)?;
    let [kex, _, to_server, to_client, mac_to_server, mac_to_client, rest @ ..] = lists;
    let [compression_to_server, compression_to_client, ..] = rest;
    let parts = match direction {
        Direction::ToServer => [kex, to_server, mac_to_server, compression_to_server],
        Direction::ToClient => [kex, to_client, mac_to_client, compression_to_client],
    };
    Some(parts.join(&b';'))
}

/// Marks a record whose length field has this value.
fn mark(at: usize, length: u32, wishes: &mut Wishes) {
    let (head, length) = (RECORD_HEADER_BYTES as u64, u64::from(length));
    wishes.open_frame("record.hdr", at, Some(head), Some(0));
    wishes.open_frame("record.data", at + RECORD_HEADER_BYTES, Some(length - 2), Some(0));
    wishes.open_frame("record.pdu", at, Some(length + 4), Some(0));
}

/// What is at the beginning of a line.
enum Line<'a> {
    /// The line, and how many bytes it takes with its end.
    Whole(&'a [u8], usize),
    Wait,
    Broken,
}

/// A line ends with a newline, a carriage return, or both; a return at the very end may be either.
fn line(input: &[u8]) -> Line<'_> {
    let Some(end) = memchr::memchr2(b'\r', b'\n', input) else { return Line::Wait };
    let text = input.get(..end).unwrap_or_default();
    match input.get(end..) {
        Some([b'\r', b'\n', ..]) => Line::Whole(text, end + 2),
        Some([b'\n', ..] | [b'\r', _, ..]) => Line::Whole(text, end + 1),
        Some([b'\r']) => Line::Wait,
        _ => Line::Broken,
    }
}

impl Ssh {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            client: Side::default(),
            server: Side::default(),
            // Rules look at it once in each direction, whoever spoke: events may be there.
            state: State { updated: [true, true], ..State::default() },
            removed: false,
        }
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::ToServer => &mut self.client,
            Direction::ToClient => &mut self.server,
        }
    }

    /// `SSH-2.0-software comment`.
    fn read_banner(&mut self, direction: Direction, text: &[u8]) -> bool {
        let Some(rest) = text.strip_prefix(b"SSH-") else { return false };
        let dash = rest.iter().position(|&byte| byte == b'-').filter(|&dash| dash > 0);
        let Some(dash) = dash else { return false };
        let software = rest.get(dash + 1..).unwrap_or_default();
        let end = software.iter().position(|byte| b" \r\n".contains(byte));
        // A banner whose software begins with a space is taken whole.
        let end = end.filter(|&end| end > 0).unwrap_or(software.len());
        let side = self.side(direction);
        side.proto.extend_from_slice(rest.get(..dash).unwrap_or_default());
        side.software.extend_from_slice(software.get(..end).unwrap_or_default());
        true
    }

    fn banner(&mut self, direction: Direction, input: &[u8], wishes: &mut Wishes) -> Outcome {
        let waits_for_end = self.side(direction).progress == Progress::BannerWithoutEnd;
        let (text, taken) = match line(input) {
            Line::Whole(text, taken) => (text, taken),
            // The banner was read; its rest is skipped.
            Line::Wait if waits_for_end => return Outcome::Done,
            Line::Wait if input.len() < BANNER_BYTES_MAX => {
                return Outcome::Incomplete { consumed: 0, needed: input.len() + 1 };
            }
            Line::Wait => {
                if !self.read_banner(direction, input) {
                    self.state.event(INVALID_BANNER);
                    return Outcome::Failed;
                }
                self.side(direction).progress = Progress::BannerWithoutEnd;
                self.state.event(LONG_BANNER);
                return Outcome::Done;
            }
            Line::Broken => {
                self.state.event(INVALID_BANNER);
                return Outcome::Failed;
            }
        };
        if !waits_for_end {
            if !self.read_banner(direction, text) {
                self.state.event(INVALID_BANNER);
                return Outcome::Failed;
            }
            self.side(direction).progress = Progress::BannerDone;
            if text.len() >= BANNER_BYTES_MAX {
                self.state.event(LONG_BANNER);
            }
        }
        match self.records(direction, input, taken, wishes) {
            Outcome::Done => {
                wishes.inspect(direction);
                Outcome::Done
            }
            other => other,
        }
    }

    /// Records before encryption (RFC 4253 section 6).
    fn records(
        &mut self,
        direction: Direction,
        input: &[u8],
        begin: usize,
        wishes: &mut Wishes,
    ) -> Outcome {
        let Some(mut reader) = self.rest_of_record(direction, Reader::at(input, begin)) else {
            return Outcome::Done;
        };
        while !reader.is_empty() {
            let begin = reader.position();
            let Some(length) = reader.be32() else {
                return Outcome::Incomplete { consumed: begin, needed: RECORD_HEADER_BYTES };
            };
            if length < 2 {
                self.state.event(INVALID_RECORD);
                return Outcome::Failed;
            }
            let Some((_padding, kind)) = reader.u8().zip(reader.u8()) else {
                return Outcome::Incomplete { consumed: begin, needed: RECORD_HEADER_BYTES };
            };
            mark(begin, length, wishes);
            let body = usize::try_from(length - 2).unwrap_or(usize::MAX);
            if let Some(body) = reader.take(body) {
                self.record(direction, kind, body, wishes);
                continue;
            }
            let consumed = reader.position();
            return self.begin_of_record(direction, kind, body, consumed, reader.left());
        }
        Outcome::Done
    }

    /// Steps over what is left of the last record; `None` if the input ends within it.
    fn rest_of_record<'a>(
        &mut self,
        direction: Direction,
        mut reader: Reader<'a>,
    ) -> Option<Reader<'a>> {
        let side = self.side(direction);
        if side.left > 0 {
            let Some(rest) = reader.take(side.left) else {
                side.left -= reader.left();
                return None;
            };
            side.left = 0;
            if std::mem::take(&mut side.is_kex) {
                self.kex(direction, rest);
            }
        }
        Some(reader)
    }

    fn begin_of_record(
        &mut self,
        direction: Direction,
        kind: u8,
        body: usize,
        consumed: usize,
        available: usize,
    ) -> Outcome {
        let wants_kex = self.settings.hassh && kind == KEXINIT;
        let side = self.side(direction);
        side.left = body - available;
        if kind == NEWKEYS {
            side.progress = Progress::Encrypts;
        }
        if wants_kex {
            side.left = body;
            if body < KEX_BYTES_MAX {
                side.is_kex = true;
                return Outcome::Incomplete { consumed, needed: body };
            }
            self.state.event(LONG_KEX_RECORD);
        }
        Outcome::Done
    }

    fn record(&mut self, direction: Direction, kind: u8, body: &[u8], wishes: &mut Wishes) {
        match kind {
            KEXINIT if self.settings.hassh => self.kex(direction, body),
            NEWKEYS => {
                self.side(direction).progress = Progress::Encrypts;
                if self.side(direction.reverse()).progress < Progress::Encrypts {
                    return;
                }
                let hides = self.settings.encrypted != Encrypted::Full;
                wishes.no_payload_inspection |= hides;
                wishes.no_parsing |= hides;
                if self.settings.encrypted == Encrypted::Bypass {
                    wishes.no_reassembly = true;
                    wishes.no_parsing = true;
                }
            }
            _ => {}
        }
    }

    fn kex(&mut self, direction: Direction, body: &[u8]) {
        if let Some(lists) = read_kex(body, direction) {
            let side = self.side(direction);
            side.hassh_string.extend_from_slice(&lists);
            side.hassh.push_str(&hex(&Md5::digest(&side.hassh_string)));
        }
    }

    fn update_progress(&mut self) {
        let both = self.client.progress.min(self.server.progress);
        let of = |side: &Side| {
            if both == Progress::Encrypts {
                Progress::Encrypts as u8
            } else if side.progress >= Progress::BannerDone {
                Progress::BannerDone as u8
            } else {
                Progress::Begin as u8
            }
        };
        self.state.progress = [of(&self.client), of(&self.server)];
    }
}

impl Parser for Ssh {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        self.state.touch(input.direction);
        let outcome = if self.side(input.direction).progress < Progress::BannerDone {
            self.banner(input.direction, input.bytes, wishes)
        } else {
            self.records(input.direction, input.bytes, 0, wishes)
        };
        self.update_progress();
        outcome
    }

    single_transaction!(state, removed);

    fn buffer(&self, _: usize, at: At, _: usize) -> Option<Bytes<'_>> {
        let side = match at.direction {
            Direction::ToServer => &self.client,
            Direction::ToClient => &self.server,
        };
        let bytes = match at.buffer {
            PROTO => side.proto.as_slice(),
            SOFTWARE => side.software.as_slice(),
            HASSH | HASSH_SERVER => side.hassh.as_bytes(),
            HASSH_STRING | HASSH_SERVER_STRING => side.hassh_string.as_slice(),
            _ => return None,
        };
        Some(bytes).filter(|bytes| !bytes.is_empty()).map(Bytes::whole)
    }

    fn record(&self, _: usize, fields: &mut Fields) {
        let mut ssh = Fields::default();
        for (name, side) in [("client", &self.client), ("server", &self.server)] {
            if side.proto.is_empty() {
                continue;
            }
            let cut = |bytes: &[u8]| bytes.get(..BANNER_BYTES_MAX).unwrap_or(bytes).to_vec();
            let mut object = Fields::default();
            object.text("proto_version", &cut(&side.proto));
            if !side.software.is_empty() {
                object.text("software_version", &cut(&side.software));
            }
            if !side.hassh.is_empty() {
                let mut hassh = Fields::default();
                hassh.text("hash", side.hassh.as_bytes());
                hassh.text("string", &side.hassh_string);
                object.object("hassh", hassh);
            }
            ssh.object(name, object);
        }
        fields.object("ssh", ssh);
    }
}
