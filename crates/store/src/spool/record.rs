//! Encoding of the records of a spool file.
//!
//! ```text
//! file    "GNTSPOOL" version:u32 key_crc:u32 key:u8*32, then records
//! record  tag:u8*4 head_crc:u32 payload_crc:u32 kind:u8 tag:u8*3 id:u64 due:i64 meta:u32
//!         payload:u32, then the payload (the first `meta` bytes are the message's metadata, the
//!         rest its body)
//! ```
//!
//! Numbers are little-endian. `head_crc` covers the header from `payload_crc` on, so that headers
//! can be verified without reading payloads.
//!
//! A body may contain bytes that look like a record. Where a record is known to begin, its checksum
//! shows that it is intact; where one is searched for, behind damage, only the tag authenticates
//! it: 56 bits of BLAKE3 under the file's random key over the record's offset and header. The key
//! is in no message, so that no sender can forge such a tag.
//!
//! Format 1 had neither key nor tags: a file header of 16 bytes, "GRec" and zeros instead of the
//! tag. Its files are still read.

use std::io;

use crate::random;

/// Magic number of a file.
pub(crate) const FILE_MAGIC: &[u8; 8] = b"GNTSPOOL";
/// Format version that this program writes; newer ones are refused.
pub(crate) const VERSION: u32 = 2;
/// Bytes of the file header.
pub(super) const FILE_HEAD_BYTES: u64 = 48;
/// Bytes of the file header in format 1.
pub(super) const FILE_HEAD_BYTES_1: u64 = 16;
/// Magic number of a record in format 1.
const RECORD_MAGIC_1: &[u8; 4] = b"GRec";
/// Bytes of a file's key.
const KEY_BYTES: usize = 32;
/// Offset of the key in the file header.
const KEY_AT: usize = 16;
/// Bytes of a record's header.
pub(super) const HEAD_BYTES: usize = 40;
/// Largest payload in bytes.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message: metadata and body.
    Message = 1,
    /// Delivery state of a message; the latest counts.
    State = 2,
    /// A message is done.
    Done = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: Kind,
    /// Id of the message.
    pub id: u64,
    /// Due time of the next action, in Unix milliseconds.
    pub due: i64,
    /// Bytes of metadata at the start of the payload.
    pub meta: u32,
    /// Bytes of the payload.
    pub payload: u32,
    pub payload_crc: u32,
}

impl Head {
    /// The header for this payload, given in pieces.
    pub(super) fn new(kind: Kind, id: u64, due: i64, meta: u32, pieces: &[&[u8]]) -> Self {
        let mut crc = crc32fast::Hasher::new();
        pieces.iter().for_each(|piece| crc.update(piece));
        let payload = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        Head { kind, id, due, meta, payload, payload_crc: crc.finalize() }
    }

    /// Bytes of the whole record.
    pub(super) fn record_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.payload)
    }

    /// Encodes the header of a record at `offset` in a file of this format.
    pub(super) fn encode(&self, format: &Format, offset: u64) -> [u8; HEAD_BYTES] {
        let tag = match format {
            Format::Plain => *b"GRec\0\0\0",
            Format::Keyed(key) => self.tag(key.as_ref(), offset),
        };
        let [tag @ .., a, b, c] = tag;
        let kind = self.kind as u8;
        let mut tail = Vec::with_capacity(HEAD_BYTES);
        tail.extend_from_slice(&self.payload_crc.to_le_bytes());
        tail.extend_from_slice(&[kind, a, b, c]);
        tail.extend_from_slice(&self.id.to_le_bytes());
        tail.extend_from_slice(&self.due.to_le_bytes());
        tail.extend_from_slice(&self.meta.to_le_bytes());
        tail.extend_from_slice(&self.payload.to_le_bytes());
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&tag);
        bytes[4..8].copy_from_slice(&crc32fast::hash(&tail).to_le_bytes());
        bytes[8..].copy_from_slice(&tail);
        bytes
    }

    /// The authentication tag, which only the node that wrote the file can compute.
    fn tag(&self, key: Option<&FileKey>, offset: u64) -> [u8; 7] {
        let key = key.map_or([0; KEY_BYTES], |key| key.0);
        let mut hash = blake3::Hasher::new_keyed(&key);
        hash.update(&offset.to_le_bytes());
        hash.update(&self.payload_crc.to_le_bytes());
        hash.update(&[self.kind as u8]);
        hash.update(&self.id.to_le_bytes());
        hash.update(&self.due.to_le_bytes());
        hash.update(&self.meta.to_le_bytes());
        hash.update(&self.payload.to_le_bytes());
        let mut tag = [0; 7];
        hash.finalize_xof().fill(&mut tag);
        tag
    }

    /// Decodes a header that was found by a search, if its tag proves that it was written at
    /// `offset`. None without a key; format 1 has none, so any valid header is accepted.
    pub(super) fn decode_found(bytes: &[u8], format: &Format, offset: u64) -> Option<Self> {
        let head = Self::decode(bytes, format)?;
        match format {
            Format::Plain => Some(head),
            Format::Keyed(None) => None,
            Format::Keyed(Some(key)) => {
                let tag = head.tag(Some(key), offset);
                let same = bytes.get(..4) == tag.get(..4) && bytes.get(13..16) == tag.get(4..);
                same.then_some(head)
            }
        }
    }

    /// Decodes a header where a record is known to begin. None if it is invalid.
    pub(super) fn decode(bytes: &[u8], format: &Format) -> Option<Self> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        let u32_at = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        };
        let u64_at = |at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
        };
        let kind = *bytes.get(12)?;
        // Before the checksum: a search tries every byte.
        if !(1..=3).contains(&kind) || u32_at(36)? > PAYLOAD_BYTES_MAX {
            return None;
        }
        let plain = || bytes.get(..4).is_some_and(|magic| magic == RECORD_MAGIC_1);
        if matches!(format, Format::Plain) && !plain() {
            return None;
        }
        if u32_at(4)? != crc32fast::hash(bytes.get(8..)?) {
            return None;
        }
        let head = Head {
            kind: match kind {
                1 => Kind::Message,
                2 => Kind::State,
                3 => Kind::Done,
                _ => return None,
            },
            id: u64_at(16)?,
            due: u64_at(24)?.cast_signed(),
            meta: u32_at(32)?,
            payload: u32_at(36)?,
            payload_crc: u32_at(8)?,
        };
        (head.meta <= head.payload && head.payload <= PAYLOAD_BYTES_MAX).then_some(head)
    }
}

/// The random key of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileKey([u8; KEY_BYTES]);

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey(..)")
    }
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Format 1: nothing distinguishes a record from a body that looks like one.
    Plain,
    /// Format 2, with the file's key; none if that is damaged: then records cannot be searched for.
    Keyed(Option<FileKey>),
}

impl Format {
    /// The format of a new file, with a random key.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Format::Keyed(Some(FileKey(random::array()?))))
    }

    /// Length of the file header.
    pub(super) fn file_head_bytes(&self) -> u64 {
        match self {
            Format::Plain => FILE_HEAD_BYTES_1,
            Format::Keyed(_) => FILE_HEAD_BYTES,
        }
    }

    pub(super) fn file_head(&self) -> Vec<u8> {
        let mut bytes = FILE_MAGIC.to_vec();
        match self {
            Format::Plain => bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]),
            Format::Keyed(key) => {
                let key = key.map_or([0; KEY_BYTES], |key| key.0);
                bytes.extend_from_slice(&VERSION.to_le_bytes());
                bytes.extend_from_slice(&crc32fast::hash(&key).to_le_bytes());
                bytes.extend_from_slice(&key);
            }
        }
        bytes
    }

    /// Parses a file header. The error is the version of a newer format, or none if this is not a
    /// file header.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Option<u32>> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        if !bytes.starts_with(FILE_MAGIC) {
            return Err(None);
        }
        match word(8) {
            None => Err(None),
            Some(0 | 1) => Ok(Format::Plain),
            Some(VERSION) => {
                let key = bytes.get(KEY_AT..KEY_AT + KEY_BYTES).and_then(|k| k.try_into().ok());
                let sound = |key: &[u8; KEY_BYTES]| word(12) == Some(crc32fast::hash(key));
                Ok(Format::Keyed(key.filter(sound).map(FileKey)))
            }
            Some(newer) => Err(Some(newer)),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_and_no_flipped_bit_does() {
        let format = Format::new().unwrap();
        let head = Head::new(Kind::Message, 7, -3, 2, &[b"me", b"body"]);
        for format in [format, Format::Plain] {
            let bytes = head.encode(&format, 48);
            assert_eq!(Head::decode(&bytes, &format), Some(head));
            assert_eq!(Head::decode_found(&bytes, &format, 48), Some(head));
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::decode_found(&bad, &format, 48), None, "bit {bit}");
            }
            assert_eq!(Head::decode(&bytes[..HEAD_BYTES - 1], &format), None);
        }
    }

    #[test]
    fn only_the_key_of_the_file_and_the_place_make_a_tag() {
        let (format, other) = (Format::new().unwrap(), Format::new().unwrap());
        let head = Head::new(Kind::Message, 7, -3, 2, &[b"me", b"body"]);
        let bytes = head.encode(&format, 48);
        assert_eq!(Head::decode_found(&bytes, &format, 49), None, "moved");
        assert_eq!(Head::decode_found(&bytes, &other, 48), None, "of another file");
        assert_eq!(Head::decode_found(&head.encode(&Format::Plain, 48), &format, 48), None);
        let lost = Format::Keyed(None);
        assert_eq!(Head::decode(&bytes, &lost), Some(head), "where it is known to begin");
        assert_eq!(Head::decode_found(&bytes, &lost, 48), None);
    }

    #[test]
    fn a_file_head_names_the_format() {
        let format = Format::new().unwrap();
        let head = format.file_head();
        assert_eq!(head.len() as u64, FILE_HEAD_BYTES);
        assert_eq!(Format::read(&head), Ok(format));
        let mut damaged = head.clone();
        damaged[20] ^= 1;
        assert_eq!(Format::read(&damaged), Ok(Format::Keyed(None)));
        assert_eq!(Format::read(&Format::Plain.file_head()), Ok(Format::Plain));
        assert_eq!(Format::read(b"GNTSPOO"), Err(None));
        assert_eq!(Format::read(b"GNTSPOOL\x03\0\0\0\0\0\0\0"), Err(Some(3)));
    }
}
