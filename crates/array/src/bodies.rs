//! Objects of held bodies: many in one, each readable by itself.
//!
//! A body in an object of its own would cost a request each, and stores bill and limit requests. A
//! reader asks for the bytes of one record (a ranged GET); the index says which.
//!
//! ```text
//! object  "GNTLHELD" format:u8, then records
//! record  check:u8*16 kind:u8 hash:u8*32, then the payload to the record's end
//! ```
//!
//! `check` is the beginning of the BLAKE3 hash over the rest of the record: what storage or network
//! changed is told from what a key does not open. `hash` is the BLAKE3 of the message in clear.
//! `kind` says what the payload is: 1 the message, 2 the message in one Zstandard frame (RFC 8878),
//! 3 the message as its node encrypted it (`store::content`), which nobody opens without the
//! node's key; `hash` is authenticated there, too.

use gauntlet_store::quarantine::StoredBody;
use gauntlet_store::{BodyKeys, Content, ContentHash};

use crate::error::ArrayError;

/// What every object begins with: the magic number and the format.
const HEAD: &[u8] = b"GNTLHELD\x01";
const CHECK_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Most bytes that a message may unfold to: more is damage.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Zstandard's level: mail packs half a tenth tighter at 6, for four times the time.
const LEVEL: i32 = 3;

const PLAIN: u8 = 1;
const PACKED: u8 = 2;
const SEALED: u8 = 3;

/// Where a body is in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of its record in bytes.
    pub offset: u64,
    /// Bytes of its record.
    pub bytes: u64,
}

/// Collects bodies for an object.
#[derive(Debug)]
pub struct BodyBatch {
    object: Vec<u8>,
    spans: std::collections::BTreeMap<ContentHash, Span>,
}

impl Default for BodyBatch {
    fn default() -> Self {
        BodyBatch { object: HEAD.to_vec(), spans: std::collections::BTreeMap::new() }
    }
}

impl BodyBatch {
    /// Adds a body, unless it is in it already. Returns where it is.
    ///
    /// # Errors
    /// If it cannot be compressed.
    pub fn push(&mut self, hash: ContentHash, body: &StoredBody) -> Result<Span, ArrayError> {
        if let Some(span) = self.spans.get(&hash) {
            return Ok(*span);
        }
        let start = self.object.len();
        self.object.extend_from_slice(&[0; CHECK_BYTES]);
        let packed;
        let (kind, payload) = match body {
            StoredBody::Sealed(sealed) => (SEALED, sealed),
            StoredBody::Clear(clear) => {
                packed = compress(clear)?;
                if packed.len() < clear.len() { (PACKED, &packed) } else { (PLAIN, clear) }
            }
        };
        self.object.push(kind);
        self.object.extend_from_slice(hash.bytes());
        self.object.extend_from_slice(payload);
        let check = check_of(self.object.get(start + CHECK_BYTES..).unwrap_or_default());
        if let Some(place) = self.object.get_mut(start..start + CHECK_BYTES) {
            place.copy_from_slice(&check);
        }
        let bytes = (self.object.len() - start) as u64;
        let span = Span { offset: start as u64, bytes };
        self.spans.insert(hash, span);
        Ok(span)
    }

    /// Whether there is no body in it.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of bodies.
    pub fn bodies(&self) -> usize {
        self.spans.len()
    }

    /// The object.
    pub fn finish(self) -> Vec<u8> {
        self.object
    }
}

fn check_of(rest: &[u8]) -> [u8; CHECK_BYTES] {
    let mut check = [0; CHECK_BYTES];
    blake3::Hasher::new().update(rest).finalize_xof().fill(&mut check);
    check
}

fn compress(clear: &[u8]) -> Result<Vec<u8>, ArrayError> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(clear.len()));
    zstd_safe::compress(&mut packed, clear, LEVEL).map_err(|code| ArrayError::Damaged {
        what: "a held message".to_owned(),
        cause: zstd_safe::get_error_name(code).to_owned(),
    })?;
    Ok(packed)
}

/// The message of a record, verified and in clear. `place` names the object in errors.
///
/// # Errors
/// If the record is damaged, of a newer program, or encrypted with a key that is not among these.
pub fn open(record: &[u8], place: &str, keys: Option<&BodyKeys>) -> Result<Vec<u8>, ArrayError> {
    let damaged = |cause: &str| ArrayError::Damaged {
        what: format!("a held message in {place}"),
        cause: cause.to_owned(),
    };
    let short = || damaged("its record is cut short");
    let (check, rest) = record.split_first_chunk::<CHECK_BYTES>().ok_or_else(short)?;
    if check_of(rest) != *check {
        return Err(damaged("the object store returns other bytes than were stored"));
    }
    let (&kind, rest) = rest.split_first().ok_or_else(short)?;
    let (hash, payload) = rest.split_first_chunk::<HASH_BYTES>().ok_or_else(short)?;
    let hash = ContentHash::from_bytes(*hash);
    let clear = match kind {
        PLAIN => payload.to_vec(),
        PACKED => unfold(payload).map_err(|cause| damaged(&cause))?,
        SEALED => {
            return Content::open_sealed(keys, hash, place, payload).map_err(ArrayError::from);
        }
        newer => return Err(damaged(&format!("kind {newer} is of a newer program"))),
    };
    match ContentHash::of(&clear) == hash {
        true => Ok(clear),
        false => Err(damaged("its content does not have its hash")),
    }
}

fn unfold(frame: &[u8]) -> Result<Vec<u8>, String> {
    let length = zstd_safe::get_frame_content_size(frame).map_err(|_| "no frame".to_owned())?;
    let length = length.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        return Err(format!("it claims {length} bytes"));
    }
    let mut clear = Vec::with_capacity(length);
    zstd_safe::decompress(&mut clear, frame)
        .map_err(|code| zstd_safe::get_error_name(code).to_owned())?;
    Ok(clear)
}

/// Whether bytes begin as an object of bodies does.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'o>(object: &'o [u8], span: &Span) -> &'o [u8] {
        let at = |n: u64| usize::try_from(n).unwrap();
        &object[at(span.offset)..at(span.offset + span.bytes)]
    }

    #[test]
    fn each_body_is_read_back_by_itself() {
        let mut batch = BodyBatch::default();
        let bodies: Vec<Vec<u8>> =
            (0..5).map(|n| format!("body {n} ").repeat(n * 40).into_bytes()).collect();
        let clear = |body: &Vec<u8>| StoredBody::Clear(body.clone());
        let spans: Vec<Span> =
            bodies.iter().map(|b| batch.push(ContentHash::of(b), &clear(b)).unwrap()).collect();
        let again = batch.push(ContentHash::of(&bodies[2]), &clear(&bodies[2])).unwrap();
        assert_eq!((again, batch.bodies()), (spans[2], 5));
        let object = batch.finish();
        assert!(is_object(&object) && object.len() < 600, "{}", object.len());
        for (span, body) in spans.iter().zip(&bodies) {
            assert_eq!(&open(record(&object, span), "x", None).unwrap(), body);
        }
    }

    #[test]
    fn what_a_node_encrypted_is_opened_with_its_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let keys = BodyKeys::open(&folder.path().join("keys"), true).unwrap();
        let other = BodyKeys::open(&folder.path().join("other"), true).unwrap();
        let content = Content::open(&folder.path().join("bodies")).unwrap().with_keys(Some(keys));
        let hash = content.put(b"a secret").unwrap();
        let path = walk(&folder.path().join("bodies"));
        let sealed = StoredBody::Sealed(std::fs::read(path).unwrap());
        let mut batch = BodyBatch::default();
        let span = batch.push(hash, &sealed).unwrap();
        let object = batch.finish();
        assert!(!object.windows(6).any(|w| w == b"secret"));
        let record = record(&object, &span);
        assert_eq!(open(record, "x", content.keys()).unwrap(), b"a secret");
        for keys in [None, Some(&other)] {
            let error = open(record, "x", keys).unwrap_err().to_string();
            assert!(error.contains("quarantine.key_file"), "{error}");
        }
    }

    fn walk(folder: &std::path::Path) -> std::path::PathBuf {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
        let mut found: Vec<_> = entries.filter(|p| !p.ends_with("incoming")).collect();
        let first = found.pop().unwrap();
        if first.is_dir() { walk(&first) } else { first }
    }
}
