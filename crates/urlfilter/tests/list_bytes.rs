//! Any bytes as a compiled list: opened, and asked if that worked. Shared with the fuzz target.

use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::{Role, UrlList, UrlLists};

/// Bytes of the header; its last 32 are its checksum, those of the body begin at 112.
const HEADER_BYTES: usize = 256;

/// A file of these bytes whose checksums are right, as far as it is long enough to have any.
pub(crate) fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() < HEADER_BYTES {
        return bytes;
    }
    let length = bytes.len() as u64;
    bytes[72..80].copy_from_slice(&length.to_le_bytes());
    let body = blake3::hash(&bytes[HEADER_BYTES..]);
    bytes[112..144].copy_from_slice(body.as_bytes());
    let head = blake3::hash(&bytes[..HEADER_BYTES - 32]);
    bytes[HEADER_BYTES - 32..HEADER_BYTES].copy_from_slice(head.as_bytes());
    bytes
}

/// Opens the bytes as a list and looks some URLs up in it.
pub(crate) fn ask(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let Ok(list) = UrlList::open(file.path(), "list", Role::Match) else { return };
    let lists = UrlLists::new(vec![Arc::new(list)]);
    for url in
        ["http://evil.example/", "http://www.a.example/b?c=d", "http://other.example/x/y/z", "x.y"]
    {
        let Some(url) = canonical(url) else { continue };
        for found in lists.look_up(&url).all() {
            assert!(!found.to_string().is_empty());
        }
    }
}
