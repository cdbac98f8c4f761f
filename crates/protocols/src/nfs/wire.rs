//! Remote procedure calls (RFC 5531) and what NFS 2 (RFC 1094) and NFS 3 (RFC 1813) put into them.

use gauntlet_packet::Direction;

use crate::reader::Reader;

/// NFS among the programs.
const PROGRAM: u32 = 100_003;
/// Bytes of credentials, of a verifier, and of a machine's name that are believed.
const CREDENTIALS_BYTES_MAX: u32 = 4096;
const VERIFIER_BYTES_MAX: u32 = 4096;
const MACHINE_BYTES_MAX: u32 = 256;
/// The shortest record.
const RECORD_BYTES_MIN: usize = 24;
/// Attributes of a file in responses of NFS 2 and NFS 3.
const ATTRIBUTES2_BYTES: usize = 68;
const ATTRIBUTES3_BYTES: usize = 84;
/// Bytes of a handle of NFS 2.
const HANDLE2_BYTES: usize = 32;

/// Procedures of NFS 3; those of NFS 2 that matter have the same numbers.
pub(super) mod procedure {
    pub(crate) const GETATTR: u32 = 1;
    pub(crate) const LOOKUP: u32 = 3;
    pub(crate) const ACCESS: u32 = 4;
    pub(crate) const READ: u32 = 6;
    pub(crate) const WRITE: u32 = 7;
    pub(crate) const CREATE: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const REMOVE: u32 = 12;
    pub(crate) const RMDIR: u32 = 13;
    pub(crate) const RENAME: u32 = 14;
    pub(crate) const READDIRPLUS: u32 = 17;
    pub(crate) const COMMIT: u32 = 21;
}

/// Why something cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// There is too little of it.
    Incomplete,
    /// It is none.
    Invalid,
}

type Read<T> = Result<T, Defect>;

fn more<T>(read: Option<T>) -> Read<T> {
    read.ok_or(Defect::Incomplete)
}

fn check(holds: bool) -> Read<()> {
    if holds { Ok(()) } else { Err(Defect::Invalid) }
}

/// A length and so many bytes.
fn opaque<'a>(reader: &mut Reader<'a>, max: u32) -> Read<&'a [u8]> {
    let length = more(reader.be32())?;
    check(length < max)?;
    more(reader.take(usize::try_from(length).unwrap_or(usize::MAX)))
}

/// What every record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the record, with the mark that a stream has before it.
    pub length: usize,
    pub id: u32,
    pub is_reply: bool,
}

impl Header {
    fn take(reader: &mut Reader<'_>, is_stream: bool) -> Read<Self> {
        let mut length = usize::MAX;
        if is_stream {
            // The highest bit says that it is the last fragment.
            let bytes = usize::try_from(more(reader.be32())? & 0x7fff_ffff).unwrap_or(usize::MAX);
            check(bytes >= RECORD_BYTES_MIN)?;
            length = bytes.saturating_add(4);
        }
        let id = more(reader.be32())?;
        let kind = more(reader.be32())?;
        check(kind <= 1)?;
        Ok(Self { length, id, is_reply: kind == 1 })
    }

    /// Of a stream; with the procedure of a call.
    pub(super) fn peek(bytes: &[u8], direction: Direction) -> Read<(Self, u32)> {
        let mut reader = Reader::new(bytes);
        let header = Self::take(&mut reader, true)?;
        if direction == Direction::ToClient {
            return Ok((header, 0));
        }
        more(reader.skip(12))?;
        Ok((header, more(reader.be32())?))
    }
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub header: Header,
    rpc_version: u32,
    program: u32,
    pub version: u32,
    pub procedure: u32,
    flavor: u32,
    /// Bytes of the credentials.
    pub credentials: usize,
    /// The arguments, and where they begin.
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Call<'a> {
    /// Of a stream all of a record, or (not `whole`) what there is of it.
    pub(super) fn read(bytes: &'a [u8], is_stream: bool, whole: bool) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        let header = Header::take(&mut reader, is_stream)?;
        let rpc_version = more(reader.be32())?;
        let program = more(reader.be32())?;
        let version = more(reader.be32())?;
        let procedure = more(reader.be32())?;
        let flavor = more(reader.be32())?;
        let credentials = opaque(&mut reader, CREDENTIALS_BYTES_MAX)?;
        check_credentials(flavor, credentials)?;
        more(reader.be32())?;
        opaque(&mut reader, VERIFIER_BYTES_MAX)?;
        let (data, at) = (data(&reader, &header, whole)?, reader.position());
        let credentials = credentials.len();
        Ok(Self { header, rpc_version, program, version, procedure, flavor, credentials, data, at })
    }

    fn is_likely(&self, is_stream: bool, available: usize) -> bool {
        if self.header.is_reply || self.program != PROGRAM {
            return false;
        }
        if !is_stream {
            return available >= 48 && matches!(self.version, 2 | 3);
        }
        self.header.length >= 44
            && self.rpc_version == 2
            && matches!(self.version, 3 | 4)
            && self.procedure <= procedure::COMMIT
            && matches!(self.flavor, 0..=3 | 6)
    }
}

fn check_credentials(flavor: u32, bytes: &[u8]) -> Read<()> {
    let mut reader = Reader::new(bytes);
    match flavor {
        1 => {
            more(reader.skip(4))?;
            opaque(&mut reader, MACHINE_BYTES_MAX)?;
            more(reader.skip(8))
        }
        6 => {
            more(reader.skip(16))?;
            opaque(&mut reader, u32::MAX).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// What follows in the record.
fn data<'a>(reader: &Reader<'a>, header: &Header, whole: bool) -> Read<&'a [u8]> {
    if header.length == usize::MAX || !whole {
        check(reader.position() <= header.length)?;
        return Ok(reader.rest());
    }
    let length = header.length.checked_sub(reader.position()).ok_or(Defect::Invalid)?;
    more(reader.rest().get(..length))
}

/// A reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    pub header: Header,
    state: u32,
    accepted: u32,
    /// The results, and where they begin.
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Reply<'a> {
    pub(super) fn read(bytes: &'a [u8], is_stream: bool, whole: bool) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        let header = Header::take(&mut reader, is_stream)?;
        // As Suricata has it, the state comes behind the verifier in datagrams.
        let mut state = 0;
        if is_stream {
            state = more(reader.be32())?;
            check(state <= 1)?;
        }
        more(reader.be32())?;
        opaque(&mut reader, VERIFIER_BYTES_MAX)?;
        if !is_stream {
            state = more(reader.be32())?;
            check(state <= 1)?;
        }
        let accepted = more(reader.be32())?;
        let (data, at) = (data(&reader, &header, whole)?, reader.position());
        Ok(Self { header, state, accepted, data, at })
    }
}

/// Whether bytes are a record of NFS; `Incomplete`: there are too few.
pub(super) fn probe(bytes: &[u8], direction: Direction, is_stream: bool) -> Read<()> {
    if direction == Direction::ToServer {
        let call = Call::read(bytes, is_stream, false);
        return check(call?.is_likely(is_stream, bytes.len()));
    }
    let is_fine = |length: usize| (28..=35_004).contains(&length);
    match Reply::read(bytes, is_stream, false) {
        Ok(Reply { header, state: 0, accepted: 0, .. }) if header.is_reply => {
            check(if is_stream { is_fine(header.length) } else { bytes.len() >= 32 })
        }
        Ok(_) => Err(Defect::Invalid),
        Err(Defect::Incomplete) if is_stream => {
            let (header, _) = Header::peek(bytes, direction)?;
            check(is_fine(header.length) && header.id != 0 && header.is_reply)
        }
        Err(defect) => Err(defect),
    }
}

/// A handle of NFS 3.
pub(super) fn handle<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(reader.be32()?).ok()?;
    reader.take(length)
}

/// A handle and a name.
pub(super) fn named(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(data);
    Some((handle(&mut reader)?, handle(&mut reader)?))
}

/// A piece of a file: of which one, where, how many bytes, and those that are there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub handle: &'a [u8],
    pub offset: u64,
    pub count: u32,
    pub is_last: bool,
    pub data: &'a [u8],
}

/// Handle and place of a READ.
pub(super) fn read_request(data: &[u8], version: u32) -> Option<(&[u8], u64)> {
    let mut reader = Reader::new(data);
    if version == 2 {
        let handle = reader.take(HANDLE2_BYTES)?;
        let offset = reader.be32()?;
        reader.be32()?;
        return Some((handle, offset.into()));
    }
    let handle = handle(&mut reader)?;
    let offset = reader.be64()?;
    reader.be32()?;
    Some((handle, offset))
}

/// The bytes of a file in a record, of which a part may be missing.
fn content<'a>(reader: &Reader<'a>, length: u32, whole: bool) -> Option<&'a [u8]> {
    let length = usize::try_from(length).ok()?;
    let rest = reader.rest();
    match rest.get(..length) {
        Some(data) if !whole || rest.len() >= length.next_multiple_of(4) => Some(data),
        None if !whole => Some(rest),
        _ => None,
    }
}

/// A WRITE of NFS 3.
pub(super) fn write(data: &[u8], whole: bool) -> Option<Piece<'_>> {
    let mut reader = Reader::new(data);
    let handle = handle(&mut reader)?;
    let offset = reader.be64()?;
    let count = reader.be32()?;
    let stable = reader.be32().filter(|stable| *stable <= 2)?;
    let length = reader.be32().filter(|length| *length <= count)?;
    let data = content(&reader, length, whole)?;
    Some(Piece { handle, offset, count, is_last: stable == 2, data })
}

/// The results of a READ from this place; its handle is in the call.
pub(super) fn read_results(
    data: &[u8],
    version: u32,
    offset: u64,
    whole: bool,
) -> Option<Piece<'_>> {
    let mut reader = Reader::new(data);
    reader.be32()?;
    if version == 2 {
        let mut attributes = Reader::new(reader.take(ATTRIBUTES2_BYTES)?);
        attributes.skip(20)?;
        let size = attributes.be32()?;
        let count = reader.be32()?;
        let data = content(&reader, count, true)?;
        let is_last = u64::from(size) == offset + u64::from(count);
        return Some(Piece { handle: &[], offset, count, is_last, data });
    }
    reader.be32().filter(|follows| *follows <= 1)?;
    reader.skip(ATTRIBUTES3_BYTES)?;
    let count = reader.be32()?;
    let is_last = reader.be32().filter(|last| *last <= 1)? == 1;
    let length = reader.be32().filter(|length| *length <= count)?;
    let data = content(&reader, length, whole)?;
    Some(Piece { handle: &[], offset, count, is_last, data })
}

/// The handle in the results of LOOKUP, or of CREATE if there is one; `None`: they are cut.
pub(super) fn new_handle(data: &[u8], is_optional: bool) -> Option<Option<&[u8]>> {
    let mut reader = Reader::new(data);
    reader.be32()?;
    if is_optional && reader.be32().filter(|follows| *follows <= 1)? == 0 {
        return Some(None);
    }
    handle(&mut reader).map(Some)
}

/// Handles and names in the results of READDIRPLUS; `None`: they are cut.
pub(super) fn entries(data: &[u8], max: usize) -> Option<Vec<(&[u8], &[u8])>> {
    let mut reader = Reader::new(data);
    reader.be32()?;
    if reader.be32().filter(|follows| *follows <= 1)? == 1 {
        reader.skip(ATTRIBUTES3_BYTES)?;
    }
    reader.be64()?;
    let mut entries = Vec::new();
    // A list: 1 before each entry, 0 behind the last one.
    while entries.len() < max && reader.be32()? == 1 {
        reader.be64()?;
        let name = handle(&mut reader)?;
        reader.skip(name.len().next_multiple_of(4) - name.len() + 8)?;
        if reader.be32().filter(|follows| *follows <= 1)? == 1 {
            reader.skip(ATTRIBUTES3_BYTES)?;
        }
        if reader.be32().filter(|follows| *follows <= 1)? == 1 {
            entries.push((handle(&mut reader)?, name));
        }
    }
    Some(entries)
}
