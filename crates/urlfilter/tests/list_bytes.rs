//! Any bytes as a list in every format, compiled and asked; and any bytes as a compiled list.
//! Shared with the fuzz target `fuzz/fuzz_targets/url_lists.rs`.

use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::limits::PROBLEMS_SHOWN_MAX;
use gauntlet_urlfilter::sources::Source;
use gauntlet_urlfilter::{BuildError, Role, UrlList, UrlLists, compile};

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

/// The first byte says what the others are.
pub(crate) fn feed(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    match usize::from(*choice) {
        0 => ask(input),
        1 => ask(&with_checksums(input.to_vec())),
        n => list(input, Format::ALL.get(n % (Format::ALL.len() + 1)).copied()),
    }
}

/// Compiles the list, and opens and asks what was compiled.
fn list(input: &[u8], format: Option<Format>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("list"), folder.path().join("list.urls"));
    std::fs::write(&path, input).unwrap();
    let source = Source { path, format, category: "any".to_owned() };
    let (built, report) = match compile(&[source], &out) {
        Ok(done) => done,
        Err(BuildError::Regexes(_)) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(report.problems.shown.len() <= PROBLEMS_SHOWN_MAX);
    let taken: u64 = report.sources.iter().map(|source| source.entries).sum();
    assert_eq!(built.entries + built.duplicates + built.crowded, taken);
    ask(&std::fs::read(&out).unwrap());
}
