//! Records of a spool file, as bytes.
//!
//! ```text
//! file    "GNTSPOOL" version:u32 0:u32, then records
//! record  "GRec" head_crc:u32 payload_crc:u32 kind:u8 0:u8*3 id:u64 due:i64 meta:u32 payload:u32
//!         payload (the first `meta` bytes are the message's meta data, the rest its body)
//! ```
//!
//! Numbers are little-endian. `head_crc` covers the head from `payload_crc` on, so that heads can be
//! trusted without reading payloads.

/// First bytes of a file.
pub(super) const FILE_MAGIC: &[u8; 8] = b"GNTSPOOL";
/// Format that this program writes; newer ones are refused.
pub(super) const VERSION: u32 = 1;
/// Bytes of a file before its first record.
pub(super) const FILE_HEAD_BYTES: u64 = 16;
/// First bytes of a record.
pub(super) const RECORD_MAGIC: &[u8; 4] = b"GRec";
/// Bytes of a record before its payload.
pub(super) const HEAD_BYTES: usize = 40;
/// Largest payload.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message: meta data and body.
    Message,
    /// How far a message is; the latest counts.
    State,
    /// A message needs nothing more.
    Done,
}

/// A record's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: Kind,
    /// The message's id.
    pub id: u64,
    /// Unix time in milliseconds at which something is to be done next.
    pub due: i64,
    /// Bytes of meta data at the start of the payload.
    pub meta: u32,
    /// Bytes of the payload.
    pub payload: u32,
    pub payload_crc: u32,
}

impl Head {
    /// A head for this payload, given in pieces.
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

    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let kind = match self.kind {
            Kind::Message => 1u32,
            Kind::State => 2,
            Kind::Done => 3,
        };
        let mut tail = Vec::with_capacity(HEAD_BYTES);
        tail.extend_from_slice(&self.payload_crc.to_le_bytes());
        tail.extend_from_slice(&kind.to_le_bytes());
        tail.extend_from_slice(&self.id.to_le_bytes());
        tail.extend_from_slice(&self.due.to_le_bytes());
        tail.extend_from_slice(&self.meta.to_le_bytes());
        tail.extend_from_slice(&self.payload.to_le_bytes());
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&crc32fast::hash(&tail).to_le_bytes());
        bytes[8..].copy_from_slice(&tail);
        bytes
    }

    /// None unless the bytes begin with a sound head.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        let u32_at = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
        };
        let u64_at = |at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
        };
        if bytes.get(..4)? != RECORD_MAGIC || u32_at(4)? != crc32fast::hash(bytes.get(8..)?) {
            return None;
        }
        let head = Head {
            kind: match u32_at(12)? {
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

/// The first bytes of a new file.
pub(super) fn file_head() -> [u8; FILE_HEAD_BYTES as usize] {
    let mut bytes = [0; FILE_HEAD_BYTES as usize];
    bytes[..8].copy_from_slice(FILE_MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The format version that a file's first bytes name; none if they are no file head.
pub(super) fn file_version(bytes: &[u8]) -> Option<u32> {
    let version = bytes.strip_prefix(FILE_MAGIC)?.get(..4)?;
    Some(u32::from_le_bytes(version.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_and_no_flipped_bit_does() {
        let head = Head::new(Kind::Message, 7, -3, 2, &[b"me", b"body"]);
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Some(head));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(Head::decode(&bytes[..HEAD_BYTES - 1]), None);
        assert_eq!(file_version(&file_head()), Some(VERSION));
        assert_eq!(file_version(b"GNTSPOO"), None);
    }
}
