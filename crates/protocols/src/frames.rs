//! Frames: parts of a stream that a protocol's parser marks (`frame:tls.pdu`), with their bytes.
//! They are only kept where rules ask for frames.

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::protocol::Protocol;
use crate::settings::Settings;
use crate::window::Window;

/// The most frames of one flow that wait for inspection.
const FRAMES_MAX: usize = 1024;
/// The most bytes of one frame that wait for inspection.
const WINDOW_MAX: usize = 1024 * 1024;
/// The most gaps of one frame before which bytes are kept.
const GAPS_MAX: usize = 64;
/// Of a frame that is not complete so many new bytes are waited for.
const PART_MIN: u64 = 2500;

/// What a parser says of frames in the bytes at hand. Places are in those bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameNote {
    /// One begins.
    Open {
        /// Its name without the protocol.
        name: &'static str,
        /// Where.
        at: usize,
        /// Bytes of it, if known.
        len: Option<u64>,
        /// The transaction that it belongs to.
        transaction: Option<u64>,
    },
    /// The open one of this name ends.
    Close {
        /// Its name.
        name: &'static str,
        /// Where.
        at: usize,
        /// The transaction that it belongs to, if that was not known before.
        transaction: Option<u64>,
    },
}

/// A frame.
#[derive(Debug)]
pub struct Frame {
    /// Its name in rules without the protocol.
    pub name: &'static str,
    /// Whose it is.
    pub protocol: Protocol,
    /// Who sent it.
    pub direction: Direction,
    /// The transaction that it belongs to.
    pub transaction: Option<u64>,
    start: u64,
    len: Option<u64>,
    /// What is there behind the last gap.
    window: Window,
    /// What is there before gaps, and was not inspected yet.
    before_gaps: Vec<Window>,
    inspected: u64,
    handed: bool,
}

impl Frame {
    /// What of it is to be looked at now, in one piece but for gaps: all of it, once it is
    /// complete; before that (or without a known end) parts of 2,500 bytes, or whatever there is
    /// if no more comes. Where streams are inspected before they are acknowledged, it is all that
    /// there is, with the last 2,500 bytes of what was looked at before.
    pub fn look(&self, end: bool, inline: bool) -> Vec<Bytes<'_>> {
        if !self.is_due(end, inline) {
            return Vec::new();
        }
        let (size, complete) = (self.window.end(), self.is_complete());
        let windows = self.before_gaps.iter().chain([&self.window]);
        let pieces = windows.map(|window| window.from(self.inspected));
        pieces
            .filter(|(data, _)| !data.is_empty())
            .map(|(data, offset)| Bytes {
                data: data.into(),
                offset,
                begin: offset == 0,
                end: complete && offset + data.len() as u64 == size,
            })
            .collect()
    }

    fn is_due(&self, end: bool, inline: bool) -> bool {
        let size = self.window.end();
        let new = size.saturating_sub(self.inspected);
        let is_known = new == 0 && self.handed && !inline;
        size > 0 && !is_known && (self.is_complete() || end || inline || new >= PART_MIN)
    }

    /// Whether all of its bytes were seen.
    pub fn is_complete(&self) -> bool {
        self.len.is_some_and(|len| self.window.end() >= len)
    }

    /// Bytes before this place of the stream will not come any more.
    fn skip_gap(&mut self, base: u64) {
        let Some(place) = base.checked_sub(self.start).filter(|place| *place > self.window.end())
        else {
            return;
        };
        if self.len.is_none_or(|len| self.window.end() < len) {
            let before = std::mem::replace(&mut self.window, Window::at(place));
            if before.end() > self.inspected && self.before_gaps.len() < GAPS_MAX {
                self.before_gaps.push(before);
            }
        }
    }

    fn fill(&mut self, base: u64, bytes: &[u8]) {
        self.skip_gap(base);
        let next = self.start + self.window.end();
        let limit = self.len.map_or(u64::MAX, |len| self.start.saturating_add(len));
        let (Some(skip), true) = (next.checked_sub(base), next < limit) else { return };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let rest = bytes.get(skip..).unwrap_or_default();
        let room = usize::try_from(limit - next).unwrap_or(usize::MAX);
        self.window.append(rest.get(..room).unwrap_or(rest), WINDOW_MAX);
    }
}

/// The frames of a flow.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<Frame>);

impl Frames {
    pub(crate) fn of(&self, direction: Direction) -> impl Iterator<Item = &Frame> {
        self.0.iter().filter(move |frame| frame.direction == direction)
    }

    /// Opens one.
    pub(crate) fn open(
        &mut self,
        protocol: Protocol,
        direction: Direction,
        note: (&'static str, u64, Option<u64>),
        transaction: Option<u64>,
    ) {
        let (name, start, len) = note;
        if self.0.len() >= FRAMES_MAX {
            return;
        }
        self.0.push(Frame {
            name,
            protocol,
            direction,
            transaction,
            start,
            len,
            window: Window::default(),
            before_gaps: Vec::new(),
            inspected: 0,
            handed: false,
        });
    }

    /// Takes what a parser said of the bytes at this place of the stream, then the bytes.
    pub(crate) fn take(
        &mut self,
        settings: &Settings,
        protocol: Protocol,
        direction: Direction,
        notes: &[FrameNote],
        (base, bytes): (u64, &[u8]),
    ) {
        for note in notes {
            match *note {
                FrameNote::Open { name, .. } if !settings.wants_frame(name) => {}
                FrameNote::Open { name, at, len, transaction } => {
                    let start = base + at as u64;
                    self.open(protocol, direction, (name, start, len), transaction);
                }
                FrameNote::Close { name, at, transaction } => {
                    let open = self.0.iter_mut().rev().find(|frame| {
                        frame.name == name && frame.direction == direction && frame.len.is_none()
                    });
                    if let Some(frame) = open {
                        let end = base + at as u64;
                        frame.len = Some(end.saturating_sub(frame.start));
                        frame.transaction = transaction.or(frame.transaction);
                    }
                }
            }
        }
        for frame in self.0.iter_mut().filter(|frame| frame.direction == direction) {
            frame.fill(base, bytes);
        }
    }

    /// Frames of a datagram end with it.
    pub(crate) fn end_datagram(&mut self, direction: Direction) {
        for frame in self.0.iter_mut().filter(|frame| frame.direction == direction) {
            frame.len = frame.len.or(Some(frame.window.end()));
        }
    }

    /// All frames of this direction go.
    pub(crate) fn forget(&mut self, direction: Direction) {
        self.0.retain(|frame| frame.direction != direction);
    }

    /// What could be looked at was looked at.
    pub(crate) fn inspected(&mut self, direction: Direction, end: bool, inline: bool) {
        self.0.retain_mut(|frame| {
            if frame.direction != direction {
                return true;
            }
            if !frame.is_due(end, inline) {
                return !frame.is_complete();
            }
            frame.handed = true;
            let kept = if inline { PART_MIN } else { 0 };
            frame.inspected = frame.window.end().saturating_sub(kept);
            frame.before_gaps.retain(|window| window.end() > frame.inspected);
            frame.window.slide(frame.inspected);
            !(frame.is_complete() || end)
        });
    }
}

impl Protocol {
    /// Names of its frames in rules; every protocol over TCP also has `stream`.
    pub fn frames(self) -> &'static [&'static str] {
        match self {
            Protocol::Http1 => &["request", "response"],
            Protocol::Http2 | Protocol::Dcerpc => &["hdr", "data", "pdu"],
            Protocol::Dns | Protocol::Mdns | Protocol::Rfb | Protocol::Ldap => &["pdu"],
            Protocol::Tls => &["pdu", "hdr", "data", "alert", "heartbeat", "ssl2.hdr", "ssl2.pdu"],
            Protocol::Smtp => &["command_line", "data", "response_line"],
            Protocol::Ssh => &["record.hdr", "record.data", "record.pdu"],
            Protocol::Sip => &[
                "pdu",
                "request.line",
                "response.line",
                "request.headers",
                "response.headers",
                "request.body",
                "response.body",
            ],
            Protocol::Mqtt => &["pdu", "header", "data"],
            Protocol::Websocket => &["header", "pdu", "data"],
            Protocol::Telnet => &["pdu", "ctl", "data"],
            Protocol::Enip => &["hdr", "data", "pdu", "cip", "enip.item"],
            Protocol::Smb => &[
                "nbss.pdu",
                "nbss.hdr",
                "nbss.data",
                "smb1.pdu",
                "smb1.hdr",
                "smb1.data",
                "smb2.pdu",
                "smb2.hdr",
                "smb2.data",
                "smb3.pdu",
                "smb3.hdr",
                "smb3.data",
            ],
            Protocol::Nfs => &[
                "rpc.pdu",
                "rpc.hdr",
                "rpc.data",
                "rpc.creds",
                "nfs.pdu",
                "nfs.status",
                "nfs4.pdu",
                "nfs4.hdr",
                "nfs4.ops",
                "nfs4.status",
            ],
            _ => &[],
        }
    }
}
