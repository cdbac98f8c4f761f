//! A message on its way from one node's queue to another's, as bytes.
//!
//! ```text
//! bundle  "GNTBNDL" version:u8 head:u32 meta:u32 state:u32 body:u64, then
//!         head (JSON), meta, state, body, then BLAKE3 of all before: u8*32
//! ```
//!
//! Numbers are little-endian. `meta` and `body` are what the spool was given when the message was
//! accepted, `state` is the progress since. Whoever reads a bundle checks it whole: a bit that
//! flipped in a file or on a disk must not become mail.

use bytes::Bytes;
use gauntlet_store::SpoolError;
use serde::{Deserialize, Serialize};

use crate::ids;

/// Begins every bundle; the last byte is the version.
const MAGIC: [u8; 8] = *b"GNTBNDL\x01";
/// Bytes before the parts.
const FIXED_BYTES: usize = 28;
/// Bytes of the checksum at the end.
const SUM_BYTES: usize = 32;
/// Largest head in bytes: an id, a name of a host, a time.
const HEAD_BYTES_MAX: usize = 4_096;
/// Largest bundle in bytes: what the spool can hold of one message, with its state.
pub const BUNDLE_BYTES_MAX: u64 = (1 << 30) + (64 << 20);
/// What tokens are derived under, so that they equal no other hash of the same bytes.
const TOKEN_CONTEXT: &str = "gauntlet 2026-11-27 one move of one message";

/// Names one move of one message: the same however often it is tried, another after each move.
///
/// It is a hash of the message as its node's spool has it. A node that takes a message in writes
/// the token into what it keeps, so that a message that comes back later has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub [u8; 16]);

impl Token {
    /// The token of a message as it is in a spool.
    fn of(id: u64, meta: &[u8], body: &[u8]) -> Self {
        let mut hash = blake3::Hasher::new_derive_key(TOKEN_CONTEXT);
        hash.update(&id.to_le_bytes());
        hash.update(&(meta.len() as u64).to_le_bytes());
        hash.update(meta);
        hash.update(body);
        let mut token = [0; 16];
        hash.finalize_xof().fill(&mut token);
        Token(token)
    }

    /// The token as 32 hexadecimal digits.
    pub fn to_text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A message with all that its node knew of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its id there.
    pub id: u64,
    /// Name of the node that it leaves; empty if that is not known.
    pub from: String,
    /// When something is to be done with it, Unix milliseconds.
    pub due_ms: i64,
    /// Envelope, facts, verdict and dispositions: a `QueuedMessage` in JSON.
    pub meta: Vec<u8>,
    /// How far its deliveries are; none before the first attempt.
    pub state: Option<Vec<u8>>,
    /// Header and body.
    pub body: Bytes,
}

/// What stands before the parts, for people who look into a bundle, too.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    id: String,
    from: String,
    due_ms: i64,
    has_state: bool,
}

/// Why bytes are no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It begins otherwise.
    #[error("this is no message that `gauntlet queue` wrote")]
    Magic,
    /// A newer version wrote it.
    #[error("it was written by a newer version (format {0}): take it in with that version")]
    Newer(u8),
    /// Cut, or bits flipped.
    #[error("it is damaged: write it again from the node that still has the message")]
    Damaged,
    /// Its spool cannot read it.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl Bundle {
    /// Names this move.
    pub fn token(&self) -> Token {
        Token::of(self.id, &self.meta, &self.body)
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        (self.meta.len() + self.body.len()) as u64
    }

    /// The bundle as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let head = Head {
            id: ids::to_text(self.id),
            from: self.from.chars().take(255).collect(),
            due_ms: self.due_ms,
            has_state: self.state.is_some(),
        };
        // Texts and numbers can always be encoded.
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let state = self.state.as_deref().unwrap_or_default();
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([length(&head), length(&self.meta), length(state)].concat());
        bytes.extend((self.body.len() as u64).to_le_bytes());
        bytes.extend([&head[..], &self.meta, state, &self.body].concat());
        let sum = blake3::hash(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// If it is none, is damaged, or a newer version wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self, BundleError> {
        match bytes.get(..MAGIC.len()) {
            Some(magic) if magic == MAGIC => {}
            Some(&[.., version]) if bytes.get(..7) == MAGIC.get(..7) && version > 1 => {
                return Err(BundleError::Newer(version));
            }
            _ => return Err(BundleError::Magic),
        }
        Self::parts(bytes).ok_or(BundleError::Damaged)
    }

    fn parts(bytes: &[u8]) -> Option<Self> {
        let (covered, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
        if blake3::hash(covered) != *<&[u8; SUM_BYTES]>::try_from(sum).ok()? {
            return None;
        }
        let (fixed, rest) = covered.split_at_checked(FIXED_BYTES)?;
        let short = |at: usize| -> Option<usize> {
            let number = u32::from_le_bytes(fixed.get(at..at + 4)?.try_into().ok()?);
            usize::try_from(number).ok()
        };
        let body_bytes = u64::from_le_bytes(fixed.get(20..28)?.try_into().ok()?);
        let (head, rest) = rest.split_at_checked(short(8)?)?;
        let (meta, rest) = rest.split_at_checked(short(12)?)?;
        let (state, body) = rest.split_at_checked(short(16)?)?;
        if head.len() > HEAD_BYTES_MAX || body.len() as u64 != body_bytes {
            return None;
        }
        let head: Head = serde_json::from_slice(head).ok()?;
        Some(Bundle {
            id: ids::parse(&head.id)?,
            from: head.from,
            due_ms: head.due_ms,
            meta: meta.to_vec(),
            state: head.has_state.then(|| state.to_vec()),
            body: Bytes::copy_from_slice(body),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        Bundle {
            id: 7,
            from: "mx1.example".to_owned(),
            due_ms: i64::MAX,
            meta: b"{\"record\":{}}".to_vec(),
            state: Some(b"[]".to_vec()),
            body: Bytes::from_static(b"Subject: x\r\n\r\ny"),
        }
    }

    #[test]
    fn a_bundle_is_read_back_and_no_damaged_one_is() {
        for bundle in [bundle(), Bundle { state: None, body: Bytes::new(), ..bundle() }] {
            let bytes = bundle.encode();
            assert_eq!(Bundle::decode(&bytes).unwrap(), bundle);
            for length in 0..bytes.len() {
                assert!(Bundle::decode(&bytes[..length]).is_err(), "{length} bytes");
            }
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Bundle::decode(&bad).is_err(), "bit {bit}");
            }
            assert!(Bundle::decode(&[&bytes[..], b"x"].concat()).is_err());
        }
        let mut newer = bundle().encode();
        newer[7] = 2;
        assert!(matches!(Bundle::decode(&newer), Err(BundleError::Newer(2))));
    }

    #[test]
    fn lengths_that_lie_are_no_harm() {
        let bytes = bundle().encode();
        for at in (8..28).step_by(4) {
            let mut lies = bytes[..bytes.len() - SUM_BYTES].to_vec();
            lies[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let sum = blake3::hash(&lies);
            lies.extend_from_slice(sum.as_bytes());
            assert!(matches!(Bundle::decode(&lies), Err(BundleError::Damaged)), "{at}");
        }
    }

    #[test]
    fn a_token_is_of_one_message_on_one_node() {
        let token = bundle().token();
        assert_eq!(token, Bundle { state: None, due_ms: 1, ..bundle() }.token(), "not of progress");
        assert_ne!(token, Bundle { id: 8, ..bundle() }.token());
        assert_ne!(token, Bundle { meta: b"{}".to_vec(), ..bundle() }.token());
        assert_ne!(token, Bundle { body: Bytes::new(), ..bundle() }.token());
        assert_eq!(token.to_text().len(), 32);
    }
}
