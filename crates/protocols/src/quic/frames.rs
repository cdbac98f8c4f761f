//! Frames of initial packets: the hello of TLS in pieces, and Google's messages of tags.

use super::header::variable;
use super::hello::{self, Greeting};
use crate::reader::Reader;

/// Hellos are not longer.
const HELLO_BYTES_MAX: u64 = 65_535;

/// Names of tags that Google's versions know.
const TAGS: [&str; 30] = [
    "AEAD", "CCRT", "CCS", "CETV", "CFCW", "CHLO", "COPT", "CSCT", "CTIM", "ICSL", "IRTT", "KEXS",
    "MIDS", "MSPC", "NONC", "NONP", "PAD", "PDMD", "PUBS", "SCID", "SCLS", "SFCW", "SMHL", "SNI",
    "SNO", "STK", "TCID", "UAID", "VER", "XLCT",
];

/// A tag of a message with its value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: &'static str,
    pub(super) value: Vec<u8>,
}

/// A frame that says something.
#[derive(Debug)]
pub(super) enum Frame {
    Tags(Vec<Tag>),
    Hello(Greeting),
}

/// Pieces of a hello of which some are missing.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    data: Vec<u8>,
    /// So many bytes are there.
    filled: u64,
}

/// The frames of a packet.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) frames: Vec<Frame>,
    /// Pieces for the packets to come.
    pub(super) fragments: Fragments,
    /// A piece lies too far behind.
    pub(super) is_too_long: bool,
}

struct Piece<'a> {
    offset: u64,
    data: &'a [u8],
}

/// Reads frames, with the pieces of packets before; `None`: malformed.
pub(super) fn read(bytes: &[u8], before: &Fragments) -> Option<Read> {
    let mut read = Read::default();
    let mut pieces = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(kind) = reader.u8() {
        match kind {
            0x80.. => read.frames.extend(stream(&mut reader, kind)?.map(Frame::Tags)),
            0x00 => {
                let zeros = reader.rest().iter().take_while(|byte| **byte == 0).count();
                reader.skip(zeros)?;
            }
            0x01 => {}
            0x02 | 0x03 => acknowledgement(&mut reader, kind == 0x03)?,
            0x06 => match crypto(&mut reader)? {
                Crypto::Hello(greeting) => read.frames.push(Frame::Hello(greeting)),
                Crypto::Piece(piece) => pieces.push(piece),
            },
            0x08 => {
                variable(&mut reader)?;
                let length = u32::try_from(variable(&mut reader)?).ok()?;
                let data = reader.take(usize::try_from(length).ok()?)?;
                read.frames.extend(tags(data).map(Frame::Tags));
            }
            _ => {
                reader.take_rest();
            }
        }
    }
    assemble(&mut read, &pieces, before);
    Some(read)
}

fn acknowledgement(reader: &mut Reader<'_>, has_counts: bool) -> Option<()> {
    variable(reader)?;
    variable(reader)?;
    let ranges = variable(reader)?;
    variable(reader)?;
    for _ in 0..ranges {
        variable(reader)?;
        variable(reader)?;
    }
    if has_counts {
        for _ in 0..3 {
            variable(reader)?;
        }
    }
    Some(())
}

enum Crypto<'a> {
    Hello(Greeting),
    Piece(Piece<'a>),
}

fn crypto<'a>(reader: &mut Reader<'a>) -> Option<Crypto<'a>> {
    let offset = variable(reader)?;
    let length = usize::try_from(variable(reader)?).ok()?;
    let data = reader.take(length)?;
    if offset > 0 {
        return Some(Crypto::Piece(Piece { offset, data }));
    }
    match hello::read(data) {
        Ok(greeting) => Some(Crypto::Hello(greeting)),
        Err(hello::Stop::More) => Some(Crypto::Piece(Piece { offset, data })),
        Err(hello::Stop::Wrong) => None,
    }
}

/// Puts the pieces together, and reads the hello if all of it is there.
fn assemble(read: &mut Read, pieces: &[Piece<'_>], before: &Fragments) {
    let ends = pieces.iter().map(|piece| piece.offset.saturating_add(piece.data.len() as u64));
    let size = ends.fold(before.data.len() as u64, u64::max);
    if size == 0 {
        return;
    }
    if size >= HELLO_BYTES_MAX {
        read.is_too_long = true;
        if let Some(last) = pieces.last() {
            read.fragments = Fragments { data: last.data.to_vec(), filled: last.offset };
        }
        return;
    }
    let mut data = before.data.clone();
    data.resize(usize::try_from(size).unwrap_or_default(), 0);
    let mut new = 0;
    for piece in pieces {
        new += piece.data.len() as u64;
        let start = usize::try_from(piece.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(piece.data.len());
        if let Some(room) = data.get_mut(start..end) {
            room.copy_from_slice(piece.data);
        }
    }
    let filled = before.filled.saturating_add(new);
    if filled >= size && new > 0 {
        match hello::read(&data) {
            Ok(greeting) => read.frames.push(Frame::Hello(greeting)),
            Err(hello::Stop::More) => read.fragments = Fragments { data, filled },
            Err(hello::Stop::Wrong) => {}
        }
    } else {
        read.fragments = Fragments { data, filled };
    }
}

/// A stream's frame: the tags in it, if that is what it carries.
fn stream(reader: &mut Reader<'_>, kind: u8) -> Option<Option<Vec<Tag>>> {
    let offset_bytes = match kind >> 2 & 7 {
        0 => 0,
        bytes => usize::from(bytes) + 1,
    };
    reader.skip(usize::from(kind & 3) + 1)?;
    reader.skip(offset_bytes)?;
    let length = if kind & 0x20 == 0 { reader.left() } else { usize::from(reader.be16()?) };
    Some(tags(reader.take(length)?))
}

/// A message of tags: their ends come first, then their values.
fn tags(bytes: &[u8]) -> Option<Vec<Tag>> {
    let mut reader = Reader::new(bytes);
    tag_name(&mut reader)?;
    let count = usize::from(reader.le16()?);
    reader.skip(2)?;
    let mut ends = Vec::new();
    for _ in 0..count {
        let name = tag_name(&mut reader)?;
        ends.push((name, reader.le32()?));
    }
    let mut tags = Vec::with_capacity(ends.len());
    let mut start = 0;
    for (name, end) in ends {
        let length = usize::try_from(end.checked_sub(start)?).ok()?;
        tags.push(Tag { name, value: reader.take(length)?.to_vec() });
        start = end;
    }
    reader.is_empty().then_some(tags)
}

fn tag_name(reader: &mut Reader<'_>) -> Option<&'static str> {
    let bytes = reader.take(4)?;
    // Names of three letters have a zero behind them.
    let name = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    TAGS.into_iter().find(|tag| tag.as_bytes() == name)
}
