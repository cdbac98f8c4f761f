//! Records of SMB 1 (MS-CIFS section 2.2).

use crate::reader::Reader;

/// Bytes of the header; places in a record count from its beginning.
pub(crate) const HEADER_BYTES: usize = 32;

/// Dialects that are kept of one negotiation.
const DIALECTS_MAX: usize = 256;

/// Commands.
pub(crate) mod command {
    #![allow(missing_docs)]
    pub(crate) const CLOSE: u8 = 0x04;
    pub(crate) const RENAME: u8 = 0x07;
    pub(crate) const WRITE: u8 = 0x0b;
    pub(crate) const LOCKING_ANDX: u8 = 0x24;
    pub(crate) const TRANS: u8 = 0x25;
    pub(crate) const WRITE_AND_CLOSE: u8 = 0x2c;
    pub(crate) const OPEN_ANDX: u8 = 0x2d;
    pub(crate) const READ_ANDX: u8 = 0x2e;
    pub(crate) const WRITE_ANDX: u8 = 0x2f;
    pub(crate) const TRANS2: u8 = 0x32;
    pub(crate) const TRANS2_SECONDARY: u8 = 0x33;
    pub(crate) const TREE_DISCONNECT: u8 = 0x71;
    pub(crate) const NEGOTIATE: u8 = 0x72;
    pub(crate) const SESSION_SETUP_ANDX: u8 = 0x73;
    pub(crate) const LOGOFF_ANDX: u8 = 0x74;
    pub(crate) const TREE_CONNECT_ANDX: u8 = 0x75;
    pub(crate) const NT_CREATE_ANDX: u8 = 0xa2;
    pub(crate) const NT_CANCEL: u8 = 0xa4;
    pub(crate) const NONE: u8 = 0xff;
}

/// A record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record1<'a> {
    /// See [`command`].
    pub command: u8,
    /// Status.
    pub status: u32,
    /// From the server.
    pub is_response: bool,
    /// Texts are UTF-16.
    pub is_unicode: bool,
    /// The share.
    pub tree: u16,
    /// The session.
    pub user: u16,
    /// Number of the request that a response repeats.
    pub multiplex: u16,
    /// Behind the header.
    pub data: &'a [u8],
}

impl<'a> Record1<'a> {
    /// Reads it; `None` if it is cut.
    pub(crate) fn read(input: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(input);
        if reader.array()? != *b"\xffSMB" {
            return None;
        }
        let command = reader.u8()?;
        let status = reader.le32()?;
        let flags = reader.u8()?;
        let more_flags = reader.le16()?;
        reader.skip(2 + 8 + 2)?;
        let tree = reader.le16()?;
        reader.skip(2)?;
        Some(Self {
            command,
            status,
            is_response: flags & 0x80 != 0,
            is_unicode: more_flags & 0x8000 != 0,
            tree,
            user: reader.le16()?,
            multiplex: reader.le16()?,
            data: reader.take_rest(),
        })
    }

    /// What begins at this place of the record.
    pub(crate) fn at(&self, offset: usize) -> &'a [u8] {
        self.data.get(offset.saturating_sub(HEADER_BYTES)..).unwrap_or_default()
    }
}

/// Whether another command may be chained to this one.
pub(super) fn is_chained(number: u8) -> bool {
    use command::{
        LOCKING_ANDX, LOGOFF_ANDX, NT_CREATE_ANDX, OPEN_ANDX, READ_ANDX, SESSION_SETUP_ANDX,
        TREE_CONNECT_ANDX, WRITE_ANDX,
    };
    matches!(
        number,
        LOCKING_ANDX
            | OPEN_ANDX
            | READ_ANDX
            | SESSION_SETUP_ANDX
            | LOGOFF_ANDX
            | TREE_CONNECT_ANDX
            | NT_CREATE_ANDX
            | WRITE_ANDX
    )
}

/// The chained command and its place.
pub(super) fn next_command(block: &[u8]) -> Option<(u8, usize)> {
    let mut reader = Reader::new(block);
    reader.skip(1)?;
    let next = reader.u8()?;
    reader.skip(1)?;
    Some((next, usize::from(reader.le16()?)))
}

/// The low bytes of UTF-16 up to its end.
fn wide_text(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        match reader.rest() {
            [] => return None,
            [0] => {
                reader.skip(1)?;
                return Some(text);
            }
            [_] => return None,
            [0, 0, ..] => {
                reader.skip(2)?;
                return Some(text);
            }
            [low, _, ..] => {
                text.push(*low);
                reader.skip(2)?;
            }
        }
    }
}

/// A text at this place; UTF-16 is aligned.
fn text(reader: &mut Reader<'_>, record: &Record1<'_>, offset: usize) -> Option<Vec<u8>> {
    if record.is_unicode {
        if offset % 2 == 1 {
            reader.skip(1)?;
        }
        return wide_text(reader);
    }
    zero_ended(reader).map(<[u8]>::to_vec)
}

fn zero_ended<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let end = memchr::memchr(0, reader.rest())?;
    let text = reader.take(end)?;
    reader.skip(1)?;
    Some(text)
}

/// A write.
pub(super) struct Write<'a> {
    pub(super) file: [u8; 2],
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) data: &'a [u8],
}

pub(super) fn write_request(data: &[u8]) -> Option<Write<'_>> {
    let mut reader = Reader::new(data);
    reader.skip(1)?;
    let file = reader.array()?;
    reader.skip(2)?;
    let offset = u64::from(reader.le32()?);
    reader.skip(2 + 2 + 1)?;
    let length = reader.le16()?;
    let data = reader.take(usize::from(length))?;
    Some(Write { file, offset, length: u32::from(length), data })
}

pub(super) fn write_and_close_request(data: &[u8]) -> Option<Write<'_>> {
    let mut reader = Reader::new(data);
    reader.skip(1)?;
    let file = reader.array()?;
    let length = reader.le16()?;
    let offset = u64::from(reader.le32()?);
    reader.skip(4)?;
    let bytes = reader.le16()?;
    reader.skip(usize::from(bytes.saturating_sub(length)))?;
    let data = reader.take(usize::from(length))?;
    Some(Write { file, offset, length: u32::from(length), data })
}

/// A write whose data begins at a place of the record, and may go on behind it.
pub(super) fn write_andx_request(block: &[u8], place: usize) -> Option<Write<'_>> {
    const DATA_PLACE_MIN: usize = 0x3c;
    let mut reader = Reader::new(block);
    let words = reader.u8()?;
    reader.skip(4)?;
    let file = reader.array()?;
    let low = u64::from(reader.le32()?);
    reader.skip(4 + 2 + 2)?;
    let length_high = u32::from(reader.le16()?);
    let length = length_high << 16 | u32::from(reader.le16()?);
    let data_place = usize::from(reader.le16()?);
    if data_place < DATA_PLACE_MIN || data_place < place {
        return None;
    }
    let high = if words == 14 { u64::from(reader.le32()?) } else { 0 };
    reader.le16()?;
    let data = block.get(data_place - place..)?;
    let wanted = usize::try_from(length).unwrap_or(usize::MAX);
    let data = data.get(..wanted).unwrap_or(data);
    Some(Write { file, offset: high << 32 | low, length, data })
}

/// File and place of a read. Without a high half the place counts as 0, as Suricata has it.
pub(super) fn read_andx_request(block: &[u8]) -> Option<([u8; 2], u64)> {
    let mut reader = Reader::new(block);
    let words = reader.u8()?;
    reader.skip(4)?;
    let file = reader.array()?;
    let low = u64::from(reader.le32()?);
    reader.skip(2 + 2 + 4 + 2)?;
    let offset = if words == 12 { u64::from(reader.le32()?) << 32 | low } else { 0 };
    Some((file, offset))
}

pub(super) fn read_andx_response(block: &[u8]) -> Option<(u32, &[u8])> {
    let mut reader = Reader::new(block);
    let words = u16::from(reader.u8()?);
    reader.skip(4 + 6)?;
    let low = reader.le16()?;
    let place = reader.le16()?;
    let high = reader.le32()?;
    reader.skip(6)?;
    let bytes = reader.le16()?;
    reader.skip(usize::from(bytes.saturating_sub(low)))?;
    reader.skip(usize::from(place.saturating_sub(36 + 2 * words)))?;
    Some((high << 16 | u32::from(low), reader.rest()))
}

pub(super) fn negotiate_request(data: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = Reader::new(data);
    reader.skip(3)?;
    let mut names = Vec::new();
    while let Some(name) = zero_ended(&mut reader) {
        if names.len() < DIALECTS_MAX {
            names.push(name);
        }
    }
    Some(names).filter(|names| !names.is_empty())
}

/// The place of the dialect that the server chose.
pub(super) fn negotiate_response(data: &[u8]) -> Option<u16> {
    let mut reader = Reader::new(data);
    if reader.u8()? == 0 {
        reader.le16()?;
        return Some(0);
    }
    let place = reader.le16()?;
    reader.skip(1 + 16 + 4 + 8 + 2 + 1)?;
    if reader.le16()? >= 16 {
        reader.skip(16)?;
    }
    Some(place)
}

pub(super) fn tree_connect_request(block: &[u8], record: &Record1<'_>) -> Option<Vec<u8>> {
    let mut reader = Reader::new(block);
    reader.skip(7)?;
    let password = usize::from(reader.le16()?);
    reader.skip(2 + password)?;
    let path = text(&mut reader, record, 11 + password)?;
    zero_ended(&mut reader)?;
    Some(path)
}

/// The service of a share.
pub(super) fn tree_connect_response(block: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(block);
    let words = reader.u8()?;
    reader.skip(4)?;
    if words >= 3 {
        reader.skip(2)?;
    }
    if words == 7 {
        reader.skip(8)?;
    }
    reader.skip(2)?;
    let service = zero_ended(&mut reader)?;
    zero_ended(&mut reader)?;
    Some(service)
}

pub(super) fn session_setup_request(block: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(block);
    reader.skip(15)?;
    let length = reader.le16()?;
    reader.skip(8 + 2)?;
    reader.take(usize::from(length))
}

pub(super) fn is_session_setup_response(block: &[u8]) -> bool {
    let mut reader = Reader::new(block);
    let read = match reader.u8() {
        None => None,
        Some(0) => reader.skip(2),
        Some(3) => reader.skip(6 + 2),
        Some(_) => (|| {
            reader.skip(6)?;
            let length = reader.le16()?;
            reader.skip(2 + usize::from(length))
        })(),
    };
    read.is_some()
}

pub(super) fn rename_request(data: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::new(data);
    reader.skip(1 + 2 + 2 + 1)?;
    let from = wide_text(&mut reader)?;
    reader.skip(2)?;
    Some((from, wide_text(&mut reader)?))
}

pub(super) fn create_request(block: &[u8], record: &Record1<'_>) -> Option<Vec<u8>> {
    let mut reader = Reader::new(block);
    reader.skip(6)?;
    let length = reader.le16()?;
    reader.skip(28 + 4 + 4 + 5)?;
    let bytes = reader.le16()?;
    match bytes.checked_sub(length) {
        Some(padding) => text(&mut reader, record, usize::from(padding)),
        None => Some(Vec::new()),
    }
}

pub(super) fn create_response(block: &[u8]) -> Option<[u8; 2]> {
    let mut reader = Reader::new(block);
    let words = reader.u8()?;
    reader.skip(4 + 1)?;
    let file = reader.array()?;
    reader.skip(4 + 4 * 8 + 4 + 8 + 8 + 2 + 2 + 1)?;
    if words == 42 {
        reader.skip(32)?;
    }
    reader.le16()?;
    Some(file)
}

/// A change of a file's data (`TRANS2`).
pub(super) enum Trans2 {
    PathDisposition { name: Vec<u8> },
    PathRename { from: Vec<u8>, to: Vec<u8> },
    FileDisposition { file: [u8; 2] },
    FileRename { file: [u8; 2], to: Vec<u8> },
    Other,
}

pub(super) fn trans2_request(data: &[u8]) -> Option<Trans2> {
    const DISPOSITION: u16 = 1013;
    const RENAME: u16 = 1010;
    let mut reader = Reader::new(data);
    reader.skip(1 + 8 + 2 + 2 + 4 + 2)?;
    let parameter_bytes = reader.le16()?;
    let parameter_place = reader.le16()?;
    let parameters_end = parameter_place.checked_add(parameter_bytes)?;
    let data_bytes = reader.le16()?;
    let data_place = reader.le16()?;
    reader.skip(2)?;
    let number = reader.le16()?;
    reader.skip(2 + 3)?;
    let mut parameters = Reader::new(reader.take(usize::from(parameter_bytes))?);
    reader.skip(usize::from(data_place.saturating_sub(parameters_end)))?;
    let body = reader.take(usize::from(data_bytes))?;
    Some(match number {
        6 => {
            let level = parameters.le16()?;
            parameters.skip(4)?;
            let name = wide_text(&mut parameters)?;
            match level {
                DISPOSITION => {
                    body.first()?;
                    Trans2::PathDisposition { name }
                }
                RENAME => Trans2::PathRename { from: name, to: new_name(body)? },
                _ => Trans2::Other,
            }
        }
        8 => {
            let file = parameters.array()?;
            match parameters.le16()? {
                DISPOSITION => {
                    body.first()?;
                    Trans2::FileDisposition { file }
                }
                RENAME => Trans2::FileRename { file, to: new_name(body)? },
                _ => Trans2::Other,
            }
        }
        _ => Trans2::Other,
    })
}

fn new_name(data: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(data);
    reader.skip(8)?;
    let length = usize::try_from(reader.le32()?).ok()?;
    let name = reader.take(length)?;
    Some(name.iter().copied().filter(|byte| *byte != 0).collect())
}

/// The pipe of a transaction, if it names one, and its data.
pub(super) fn trans_request<'a>(
    data: &'a [u8],
    record: &Record1<'_>,
) -> Option<(Option<[u8; 2]>, &'a [u8])> {
    let mut reader = Reader::new(data);
    let words = reader.u8()?;
    reader.skip(8 + 2 + 2 + 4 + 2)?;
    let parameter_bytes = usize::from(reader.le16()?);
    let parameter_place = usize::from(reader.le16()?);
    let data_bytes = usize::from(reader.le16()?);
    let data_place = usize::from(reader.le16()?);
    let setup = reader.u8()?;
    reader.skip(1)?;
    let pipe = if words == 16 && setup == 2 && data_bytes > 0 {
        reader.skip(2)?;
        Some(reader.array()?)
    } else {
        None
    };
    reader.skip(2)?;
    let begin = HEADER_BYTES + reader.position();
    text(&mut reader, record, begin)?;
    let mut offset = HEADER_BYTES + reader.position();
    let aligned = offset == parameter_place || offset == data_place;
    let padding = if aligned { 0 } else { offset % 4 };
    offset += padding + parameter_bytes;
    if data_bytes == 0 {
        return Some((pipe, &[]));
    }
    let more = if offset == data_place { 0 } else { offset % 4 };
    reader.skip(padding + parameter_bytes + more)?;
    Some((pipe, reader.take(data_bytes)?))
}

pub(super) fn trans_response(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(data);
    let words = u16::from(reader.u8()?);
    if words == 0 {
        reader.le16()?;
        return Some(&[]);
    }
    reader.skip(4 + 2 + 6)?;
    let data_bytes = reader.le16()?;
    let data_place = reader.le16()?;
    reader.skip(2 + 2 + 2 + 1)?;
    reader.skip(usize::from(data_place.saturating_sub(36 + 2 * words)))?;
    reader.take(usize::from(data_bytes))
}
