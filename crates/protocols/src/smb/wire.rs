//! Records of SMB: the NetBIOS session service around them (RFC 1002 section 4.3), headers of
//! SMB 2 and 3 (MS-SMB2 section 2.2).

use crate::reader::Reader;

/// A session message.
pub(crate) const SESSION_MESSAGE: u8 = 0;

/// Bytes of the NetBIOS header.
pub(crate) const NETBIOS_BYTES: usize = 4;

/// What NetBIOS says of a record: type and length.
pub(crate) fn netbios(input: &[u8]) -> Option<(u8, usize)> {
    let mut reader = Reader::new(input);
    let kind = reader.u8()?;
    Some((kind, usize::try_from(reader.be24()?).ok()?))
}

/// Whether NetBIOS has such a type.
pub(crate) fn is_netbios_type(kind: u8) -> bool {
    kind == SESSION_MESSAGE || (0x81..=0x85).contains(&kind)
}

/// The dialect's first byte, if the record is one of SMB: 0xff is SMB 1, 0xfe is SMB 2, 0xfd is
/// encrypted SMB 3.
pub(crate) fn version(record: &[u8]) -> Option<u8> {
    match record {
        [version, b'S', b'M', b'B', ..] => Some(*version),
        _ => None,
    }
}

/// Looks for a record within bytes; says where it begins (at its NetBIOS header if there is room
/// for one).
pub(crate) fn search(input: &[u8]) -> Option<usize> {
    for found in memchr::memmem::find_iter(input, b"SMB") {
        let Some(begin) = found.checked_sub(1) else { continue };
        if !matches!(input.get(begin), Some(0xfd..=0xff)) {
            continue;
        }
        let netbios = begin.checked_sub(NETBIOS_BYTES);
        match netbios.and_then(|at| input.get(at)) {
            None => return Some(begin),
            Some(&SESSION_MESSAGE) => return Some(begin),
            Some(_) => {}
        }
    }
    None
}

/// Commands of SMB 2.
pub(crate) mod command {
    #![allow(missing_docs)]
    pub(crate) const NEGOTIATE: u16 = 0;
    pub(crate) const SESSION_SETUP: u16 = 1;
    pub(crate) const TREE_CONNECT: u16 = 3;
    pub(crate) const TREE_DISCONNECT: u16 = 4;
    pub(crate) const CREATE: u16 = 5;
    pub(crate) const CLOSE: u16 = 6;
    pub(crate) const READ: u16 = 8;
    pub(crate) const WRITE: u16 = 9;
    pub(crate) const IOCTL: u16 = 11;
    pub(crate) const GET_INFO: u16 = 16;
    pub(crate) const SET_INFO: u16 = 17;
}

/// Status codes.
pub(crate) mod status {
    #![allow(missing_docs)]
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const PENDING: u32 = 0x103;
    pub(crate) const BUFFER_OVERFLOW: u32 = 0x8000_0005;
    pub(crate) const END_OF_FILE: u32 = 0xc000_0011;
}

/// A record of SMB 2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record2<'a> {
    /// Bytes of the header, as it says itself.
    pub header_bytes: usize,
    /// From the server.
    pub is_response: bool,
    /// Status, of responses.
    pub status: u32,
    /// See [`command`].
    pub command: u16,
    /// Number of the request that a response repeats.
    pub message: u64,
    /// The share; 0 of asynchronous responses.
    pub tree: u32,
    /// The session.
    pub session: u64,
    /// Behind the header.
    pub data: &'a [u8],
}

impl<'a> Record2<'a> {
    /// Reads a record and says how many bytes it takes; `is_response` is the reader's view.
    pub(crate) fn read(input: &'a [u8], is_response: bool) -> Option<(Self, usize)> {
        let mut reader = Reader::new(input);
        if reader.array()? != *b"\xfeSMB" {
            return None;
        }
        let header_length = u32::from(reader.le16()?);
        reader.skip(2)?;
        let status = reader.le32()?;
        let command = reader.le16()?;
        reader.skip(2)?;
        let flags = reader.le32()?;
        let next = reader.le32()?;
        let message = reader.le64()?;
        reader.skip(4)?;
        let tree = reader.le32()?;
        let is_async = is_response && flags & 2 != 0;
        let session = reader.le64()?;
        reader.skip(16)?;
        let data = match next.checked_sub(header_length) {
            Some(length) if length > 0 => reader.take(usize::try_from(length).ok()?)?,
            _ => reader.take_rest(),
        };
        let record = Self {
            header_bytes: usize::try_from(header_length).unwrap_or(usize::MAX),
            is_response: flags & 1 != 0,
            status: if is_response { status } else { 0 },
            command,
            message,
            tree: if is_async { 0 } else { tree },
            session,
            data,
        };
        Some((record, reader.position()))
    }
}

/// An encrypted record of SMB 3 (MS-SMB2 section 2.2.41); says how many bytes it takes.
pub(crate) fn transform(input: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(input);
    if reader.array()? != *b"\xfdSMB" {
        return None;
    }
    reader.skip(16 + 16)?;
    let length = reader.le32()?;
    reader.skip(2 + 2 + 8)?;
    reader.take(usize::try_from(length).ok()?)?;
    Some(reader.position())
}
