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
    let limits = Limits {
        cpu_time_max: Duration::from_secs(600),
        time_max: Duration::from_secs(600),
        instructions_max: 5_000_000,
        ..Limits::default()
    };
    crate::unpack(&[root], &limits, &words, &mut NoHost)
}

/// The paths of all objects.
pub(crate) fn paths(tree: &Tree) -> Vec<&str> {
    tree.objects.iter().map(|object| object.path.as_str()).collect()
}

/// Bytes of a sample that is cut and changed at each of its places; of a larger one a number of
/// places is taken, other ones in each of its parts.
const WALKED_BYTES: usize = 300;
/// Places of a larger sample.
const PLACES: usize = 60;

/// Places of a sample at which it is cut or changed: all of a small one; of a larger one those of
/// its beginning, where headers stand, more closely than the rest.
pub(crate) fn places(length: usize) -> impl Iterator<Item = usize> {
    let head = length.min(WALKED_BYTES);
    let stride = if length <= WALKED_BYTES { 1 } else { WALKED_BYTES / PLACES };
    let far = ((length - head) / PLACES).max(1);
    (0..head).step_by(stride).chain((head..length).step_by(far))
}

/// Beginnings of a file, and the file with single bytes changed: nothing fails.
pub(crate) fn nasty(whole: &[u8], name: &str) {
    for (index, at) in places(whole.len()).enumerate() {
        assert_sound(&whole[..at], name, || format!("cut at {at}"));
        let mut changed = whole.to_vec();
        // Small samples get every change at every place, large ones each in its turn.
        let changes = [0xff, 0x80, 0x01];
        let is_small = whole.len() <= WALKED_BYTES;
        let changes = if is_small { &changes[..] } else { &changes[index % 3..][..1] };
        for change in changes {
            changed[at] ^= change;
            assert_sound(&changed, name, || format!("byte {at} changed by {change:#x}"));
            changed[at] ^= change;
        }
    }
}

/// No decoder fails on these bytes.
fn assert_sound(bytes: &[u8], name: &str, case: impl Fn() -> String) {
    let tree = tree(bytes, name);
    let mut defects = tree.objects.iter().flat_map(|object| &object.defects);
    assert!(!defects.any(|d| d.kind == crate::DefectKind::DecoderFailed), "{}", case());
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

/// A compound file with streams of 4,096 bytes each, of these names and beginnings.
pub(crate) fn compound(streams: &[(&str, &[u8])]) -> Vec<u8> {
    let mut header = vec![0u8; 512];
    header[..8].copy_from_slice(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1");
    header[24..34].copy_from_slice(&[0x3e, 0, 3, 0, 0xfe, 0xff, 9, 0, 6, 0]);
    header[44] = 1;
    header[48] = 1;
    header[60..64].copy_from_slice(&0xffff_fffeu32.to_le_bytes());
    header[68..72].copy_from_slice(&0xffff_fffeu32.to_le_bytes());
    header[76..].fill(0xff);
    header[76..80].copy_from_slice(&0u32.to_le_bytes());
    let (mut fat, mut directory, mut bodies) =
        (vec![0xffff_fffdu32, 0xffff_fffe], Vec::new(), Vec::new());
    let entry = |name: &str, kind: u8, right: u32, child: u32, start: u32, size: u32| {
        let mut entry = vec![0u8; 128];
        for (i, unit) in name.encode_utf16().enumerate() {
            entry[2 * i..2 * i + 2].copy_from_slice(&unit.to_le_bytes());
        }
        entry[64..66].copy_from_slice(&(2 * name.len() as u16 + 2).to_le_bytes());
        entry[66] = kind;
        for (at, value) in [(68, u32::MAX), (72, right), (76, child), (116, start), (120, size)] {
            entry[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        entry
    };
    directory.extend(entry("Root Entry", 5, u32::MAX, 1, 0xffff_fffe, 0));
    for (index, (name, body)) in streams.iter().enumerate() {
        let start = fat.len() as u32;
        let right = if index + 1 < streams.len() { index as u32 + 2 } else { u32::MAX };
        directory.extend(entry(name, 2, right, u32::MAX, start, 4_096));
        fat.extend((0..8).map(|i| if i == 7 { 0xffff_fffe } else { start + i + 1 }));
        let mut body = body.to_vec();
        body.resize(4_096, 0);
        bodies.extend(body);
    }
    fat.resize(128, u32::MAX);
    directory.resize(512, 0);
    let fat: Vec<u8> = fat.iter().flat_map(|n| n.to_le_bytes()).collect();
    [header, fat, directory, bodies].concat()
}

/// Bytes written in base64.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace() && *c != b'=') {
        bits = bits << 6 | u32::from(digit(c));
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
