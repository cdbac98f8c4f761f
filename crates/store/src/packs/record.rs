//! Encoding of the records of a pack.
//!
//! ```text
//! file    "GNTLPACK" version:u32 group_length:u32 key:u8*32 group:u8*460 crc:u32, then records
//! record  tag:u8*16 head_crc:u32 kind:u8 flags:u8 zero:u16 length:u32 payload_crc:u32 hash:u8*32,
//!         then `length` bytes of payload
//! ```
//!
//! Numbers are little-endian. `crc` of the file covers all that is before it; `head_crc` covers the
//! record's header from `kind` on. `hash` is the BLAKE3 of the content in clear, `payload_crc` the
//! CRC-32 of the bytes as they are stored, which may be sealed.
//!
//! A body may contain bytes that look like a record. Where a record is known to begin, its
//! checksums show that it is intact; where one is searched for, behind damage, the tag
//! authenticates it: BLAKE3 under the file's random key over the record's offset and header. The
//! key is in no message, so no sender can forge a tag.

use std::io;

use crate::content::ContentHash;
use crate::random;

/// Magic number of a pack.
pub(crate) const FILE_MAGIC: &[u8; 8] = b"GNTLPACK";
/// Format version that this program writes; newer ones are refused.
pub(crate) const VERSION: u32 = 1;
/// Bytes of the file header.
pub(super) const FILE_HEAD_BYTES: u64 = 512;
const FILE_HEAD: usize = FILE_HEAD_BYTES as usize;
/// Offset of the group in the file header.
const GROUP_AT: usize = 48;
/// Offset of the checksum in the file header.
const FILE_CRC_AT: usize = FILE_HEAD - 4;
/// Longest name of a group, in bytes.
pub const GROUP_BYTES_MAX: usize = FILE_CRC_AT - GROUP_AT;
/// Bytes of a record's header.
pub(super) const HEAD_BYTES: usize = 64;
/// Bytes of a tag.
const TAG_BYTES: usize = 16;
/// Largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Content, named by its hash.
    Body = 1,
    /// What its owner keeps about content: enough to make the index again.
    Entry = 2,
    /// A change of an entry that was written before.
    Change = 3,
}

/// Header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the record holds.
    pub kind: Kind,
    /// The payload is encrypted.
    pub is_sealed: bool,
    /// Bytes of the payload.
    pub length: u32,
    /// CRC-32 of the payload.
    payload_crc: u32,
    /// Hash of the content in clear.
    pub hash: ContentHash,
}

impl Head {
    pub(super) fn new(kind: Kind, is_sealed: bool, hash: ContentHash, payload: &[u8]) -> Self {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Head { kind, is_sealed, length, payload_crc: crc32fast::hash(payload), hash }
    }

    /// Bytes of the whole record.
    pub fn record_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.length)
    }

    /// Whether these are the bytes that the header describes.
    pub(super) fn describes(&self, payload: &[u8]) -> bool {
        payload.len() == self.length as usize && crc32fast::hash(payload) == self.payload_crc
    }

    /// Encodes the header of a record at `offset`.
    pub(super) fn encode(&self, key: &FileKey, offset: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[20] = self.kind as u8;
        bytes[21] = u8::from(self.is_sealed);
        bytes[24..28].copy_from_slice(&self.length.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[32..].copy_from_slice(self.hash.bytes());
        let crc = crc32fast::hash(&bytes[20..]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        let tag = key.tag(offset, &bytes);
        bytes[..TAG_BYTES].copy_from_slice(&tag);
        bytes
    }

    /// Decodes the header of a record at `offset`. With a key the tag must be right, too; without
    /// one only where a record is known to begin.
    pub(super) fn decode(bytes: &[u8], key: Option<&FileKey>, offset: u64) -> Option<Self> {
        let bytes: &[u8; HEAD_BYTES] = bytes.get(..HEAD_BYTES)?.try_into().ok()?;
        let word = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        };
        let kind = match bytes[20] {
            1 => Kind::Body,
            2 => Kind::Entry,
            3 => Kind::Change,
            _ => return None,
        };
        // Before the checksum: a search tries every byte.
        if bytes[21] > 1 || bytes[22] != 0 || bytes[23] != 0 {
            return None;
        }
        let length = word(24)?;
        if length > PAYLOAD_BYTES_MAX || word(16)? != crc32fast::hash(&bytes[20..]) {
            return None;
        }
        if let Some(key) = key
            && bytes[..TAG_BYTES] != key.tag(offset, bytes)
        {
            return None;
        }
        let hash = ContentHash::from_bytes(bytes[32..].try_into().ok()?);
        Some(Head { kind, is_sealed: bytes[21] == 1, length, payload_crc: word(28)?, hash })
    }
}

/// The random key of a pack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileKey([u8; 32]);

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey(..)")
    }
}

impl FileKey {
    /// The authentication tag of a header, which only who has the file can compute.
    fn tag(&self, offset: u64, head: &[u8; HEAD_BYTES]) -> [u8; TAG_BYTES] {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        hash.update(&offset.to_le_bytes());
        hash.update(&head[TAG_BYTES..]);
        let mut tag = [0; TAG_BYTES];
        hash.finalize_xof().fill(&mut tag);
        tag
    }
}

/// Header of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHead {
    /// What the pack's records have in common.
    pub group: String,
    pub key: FileKey,
}

/// Why a file header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFileHead {
    /// It was written by a newer version of the program.
    Newer(u32),
    /// It is damaged, or this is no pack.
    Damaged,
}

impl FileHead {
    /// The header of a new pack.
    ///
    /// # Errors
    /// If the group's name is too long, or the system provides no randomness.
    pub(super) fn new(group: &str) -> io::Result<Self> {
        if group.len() > GROUP_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the group's name is too long",
            ));
        }
        Ok(FileHead { group: group.to_owned(), key: FileKey(random::array()?) })
    }

    pub(super) fn encode(&self) -> [u8; FILE_HEAD] {
        let mut bytes = [0; FILE_HEAD];
        bytes[..8].copy_from_slice(FILE_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let length = u32::try_from(self.group.len()).unwrap_or(u32::MAX);
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..GROUP_AT].copy_from_slice(&self.key.0);
        bytes[GROUP_AT..GROUP_AT + self.group.len()].copy_from_slice(self.group.as_bytes());
        let crc = crc32fast::hash(&bytes[..FILE_CRC_AT]);
        bytes[FILE_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadFileHead> {
        let bytes: &[u8; FILE_HEAD] =
            bytes.get(..FILE_HEAD).and_then(|b| b.try_into().ok()).ok_or(BadFileHead::Damaged)?;
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
            word.map_or(0, u32::from_le_bytes)
        };
        if word(FILE_CRC_AT) != crc32fast::hash(&bytes[..FILE_CRC_AT]) {
            return Err(BadFileHead::Damaged);
        }
        if !bytes.starts_with(FILE_MAGIC) {
            return Err(BadFileHead::Damaged);
        }
        if word(8) != VERSION {
            return Err(BadFileHead::Newer(word(8)));
        }
        let group = bytes.get(GROUP_AT..GROUP_AT + word(12) as usize);
        let group = group.and_then(|g| std::str::from_utf8(g).ok()).ok_or(BadFileHead::Damaged)?;
        let key: [u8; 32] = bytes[16..GROUP_AT].try_into().map_err(|_| BadFileHead::Damaged)?;
        Ok(FileHead { group: group.to_owned(), key: FileKey(key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head::new(Kind::Body, true, ContentHash::of(b"clear"), b"sealed")
    }

    #[test]
    fn a_record_head_survives_and_no_flipped_bit_does() {
        let key = FileHead::new("day").unwrap().key;
        let bytes = head().encode(&key, 512);
        assert_eq!(Head::decode(&bytes, Some(&key), 512), Some(head()));
        assert_eq!(Head::decode(&bytes, None, 7), Some(head()), "where it is known to begin");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&bad, Some(&key), 512), None, "bit {bit}");
        }
        assert_eq!(Head::decode(&bytes[..HEAD_BYTES - 1], Some(&key), 512), None);
        assert!(head().describes(b"sealed") && !head().describes(b"sealer"));
    }

    #[test]
    fn only_the_key_of_the_pack_and_the_place_make_a_tag() {
        let (key, other) = (FileHead::new("a").unwrap().key, FileHead::new("a").unwrap().key);
        let bytes = head().encode(&key, 512);
        assert_eq!(Head::decode(&bytes, Some(&key), 513), None, "moved");
        assert_eq!(Head::decode(&bytes, Some(&other), 512), None, "of another pack");
    }

    #[test]
    fn a_file_head_survives_and_no_flipped_bit_does() {
        let file = FileHead::new("2026-11-24 spam").unwrap();
        let bytes = file.encode();
        assert_eq!(FileHead::decode(&bytes), Ok(file));
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHead::decode(&bad), Err(BadFileHead::Damaged), "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 2;
        let crc = crc32fast::hash(&newer[..FILE_CRC_AT]);
        newer[FILE_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(FileHead::decode(&newer), Err(BadFileHead::Newer(2)));
        assert!(FileHead::new(&"x".repeat(GROUP_BYTES_MAX + 1)).is_err());
        assert!(
            FileHead::decode(&FileHead::new(&"x".repeat(GROUP_BYTES_MAX)).unwrap().encode())
                .is_ok()
        );
    }
}
