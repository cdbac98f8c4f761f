//! The pcap format (draft-ietf-opsawg-pcap).

use std::io;

use super::input::Input;
use super::{Error, FRAME_BYTES_MAX, Record};
use crate::address::Time;
use crate::link::Link;

/// Micro- and nanoseconds.
const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
/// A variant with longer record headers (Alexey Kuznetsov's).
const MODIFIED: u32 = 0xa1b2_cd34;

/// Of versions with this number there are some, all read alike.
const VERSION_MAJOR: u16 = 2;

const HEADER_REST: usize = 20;
const RECORD_HEADER: usize = 16;
const MODIFIED_EXTRA: u64 = 8;

/// What the file's header says.
pub(super) struct Header {
    big: bool,
    nanos: bool,
    modified: bool,
    snaplen: u32,
    link: Link,
    /// Room for a packet that is being read, kept for the next one.
    buffer: Vec<u8>,
}

fn u32_at(bytes: &[u8], at: usize, big: bool) -> u32 {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied();
    let part = part.unwrap_or_default();
    if big { u32::from_be_bytes(part) } else { u32::from_le_bytes(part) }
}

fn u16_at(bytes: &[u8], at: usize, big: bool) -> u16 {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).copied();
    let part = part.unwrap_or_default();
    if big { u16::from_be_bytes(part) } else { u16::from_le_bytes(part) }
}

impl Header {
    /// `None` if the magic number is another one.
    pub(super) fn open(magic: [u8; 4], input: &mut Input) -> Result<Option<Self>, Error> {
        let known = |number| matches!(number, MICROS | NANOS | MODIFIED);
        let (number, big) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (little, _) if known(little) => (little, false),
            (_, big) if known(big) => (big, true),
            _ => return Ok(None),
        };
        let mut rest = [0; HEADER_REST];
        if input.fill(&mut rest)? < rest.len() {
            return Err(Error::Header("it ends within the header"));
        }
        let [major, minor] = [0, 2].map(|at| u16_at(&rest, at, big));
        if major != VERSION_MAJOR {
            return Err(Error::Version(major, minor));
        }
        // As libpcap does: 0 and absurd lengths are no limit of their own.
        let snaplen = match u32_at(&rest, 12, big) {
            0 => FRAME_BYTES_MAX,
            given => given.min(FRAME_BYTES_MAX),
        };
        // The upper bits tell of frame check sequences.
        let link = Link::from(u32_at(&rest, 16, big) & 0x03ff_ffff);
        if let Link::Other(_) = link {
            return Err(Error::Link { link });
        }
        let (nanos, modified) = (number == NANOS, number == MODIFIED);
        Ok(Some(Self { big, nanos, modified, snaplen, link, buffer: Vec::new() }))
    }

    pub(super) fn record(&mut self, input: &mut Input) -> io::Result<Record> {
        let mut header = [0; RECORD_HEADER];
        match input.fill(&mut header)? {
            0 => return Ok(Record::End),
            RECORD_HEADER => {}
            _ => return Ok(Record::Damage("the file ends within the header of a packet")),
        }
        if self.modified && !input.skip(MODIFIED_EXTRA)? {
            return Ok(Record::Damage("the file ends within the header of a packet"));
        }
        let field = |at| u32_at(&header, at, self.big);
        let (seconds, fraction, length, original_len) = (field(0), field(4), field(8), field(12));
        if length > FRAME_BYTES_MAX {
            return Ok(Record::Damage("a packet claims to be longer than any can be"));
        }
        let kept = length.min(self.snaplen);
        let kept = kept as usize;
        let cut = u64::from(length) - kept as u64;
        let taken = input.take(kept, &mut self.buffer)?;
        let (Some(bytes), true) = (taken, input.skip(cut)?) else {
            return Ok(Record::Damage("the file ends within a packet"));
        };
        let micros = if self.nanos { fraction / 1000 } else { fraction };
        let time = Time { seconds: i64::from(seconds), micros: micros.min(999_999) };
        Ok(Record::Frame { time, link: self.link, bytes, original_len })
    }
}
