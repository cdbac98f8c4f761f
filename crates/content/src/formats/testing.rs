//! What the tests of the decoders share.

use std::time::Duration;

use crate::host::{NoHost, Root};
use crate::limits::Limits;
use crate::object::Tree;

/// The tree of one file of this name.
pub(crate) fn tree(bytes: &[u8], name: &str) -> Tree {
    tree_with(bytes, name, &[])
}

/// The same, trying these passwords.
pub(crate) fn tree_with(bytes: &[u8], name: &str, words: &[&str]) -> Tree {
    let word =
        |word: &&str| crate::Password { word: (*word).to_owned(), source: "test".to_owned() };
    let words: Vec<crate::Password> = words.iter().map(word).collect();
    let root = Root { name, declared_type: "", bytes };
    // Time is not what these tests are about, and this machine may be busy.
    let limits = Limits { time_max: Duration::from_secs(600), ..Limits::default() };
    crate::unpack(&[root], &limits, &words, &mut NoHost)
}

/// The paths of all objects.
pub(crate) fn paths(tree: &Tree) -> Vec<&str> {
    tree.objects.iter().map(|object| object.path.as_str()).collect()
}

/// Every beginning of a file, and the file with every byte changed: nothing fails.
pub(crate) fn nasty(whole: &[u8], name: &str) {
    let fails = |tree: &Tree| {
        let all = tree.objects.iter().flat_map(|object| &object.defects);
        all.into_iter().any(|defect| defect.kind == crate::DefectKind::DecoderFailed)
    };
    let step = (whole.len() / 40).max(1);
    for end in (0..whole.len()).step_by(step) {
        assert!(!fails(&tree(&whole[..end], name)), "cut at {end}");
    }
    for at in (0..whole.len()).step_by(step) {
        for change in [0xff, 0x80, 0x01] {
            let mut changed = whole.to_vec();
            changed[at] ^= change;
            assert!(!fails(&tree(&changed, name)), "byte {at} changed by {change:#x}");
        }
    }
}

/// An entry for [`zip`].
pub(crate) struct File<'a> {
    pub(crate) name: &'a str,
    /// Name in its local header.
    pub(crate) local: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) listed: bool,
}

/// A file that its directory names as its local header does.
pub(crate) fn file<'a>(name: &'a str, body: &'a [u8]) -> File<'a> {
    File { name, local: name, body, listed: true }
}

/// A ZIP of stored files.
pub(crate) fn zip(files: &[File<'_>]) -> Vec<u8> {
    let (mut out, mut central, mut count) = (Vec::new(), Vec::new(), 0u16);
    for File { name, local, body, listed } in files {
        let offset = u32::try_from(out.len()).unwrap();
        let size = u32::try_from(body.len()).unwrap().to_le_bytes();
        let crc = crc32fast::hash(body).to_le_bytes();
        out.extend_from_slice(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
        out.extend([crc, size, size].concat());
        out.extend(u16::try_from(local.len()).unwrap().to_le_bytes());
        out.extend([0, 0]);
        out.extend_from_slice(local.as_bytes());
        out.extend_from_slice(body);
        if *listed {
            count += 1;
            central.extend_from_slice(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
            central.extend([crc, size, size].concat());
            central.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
            central.extend([0; 12]);
            central.extend(offset.to_le_bytes());
            central.extend_from_slice(name.as_bytes());
        }
    }
    let start = u32::try_from(out.len()).unwrap().to_le_bytes();
    let size = u32::try_from(central.len()).unwrap().to_le_bytes();
    out.extend(central);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([size, start].concat());
    out.extend([0, 0]);
    out
}
