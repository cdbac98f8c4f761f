//! PDF (ISO 32000-2): names of what runs are renamed in place, with as many bytes, so that every
//! offset stays: `/JavaScript` becomes `/jAVAsCRIPT`, which means nothing.
//!
//! In streams of objects, which are compressed, the names are renamed, too; the stream must then
//! fit into its place.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use memchr::memmem;

use super::Made;
use crate::limits::Limits;

/// Names that start something, or hold what does.
const NAMES: [(&str, &str); 18] = [
    ("JavaScript", "java_script"),
    ("JS", "java_script"),
    ("OpenAction", "open_action"),
    ("AA", "open_action"),
    ("Launch", "launch_action"),
    ("EmbeddedFile", "embedded_file"),
    ("EmbeddedFiles", "embedded_file"),
    ("EF", "embedded_file"),
    ("FileAttachment", "embedded_file"),
    ("RichMedia", "embedded_file"),
    ("RichMediaContent", "embedded_file"),
    ("Rendition", "launch_action"),
    ("XFA", "xfa_form"),
    ("SubmitForm", "form"),
    ("ImportData", "form"),
    ("GoToE", "launch_action"),
    ("GoToR", "launch_action"),
    ("3D", "embedded_file"),
];
/// Letters of a name that does not stand in the data of a picture by chance.
const SURE_LETTERS: usize = 6;

pub(super) fn disarm(bytes: &[u8], limits: &Limits) -> Result<Made, String> {
    if find_names(bytes, 0, 1).iter().any(|n| n.decoded == "Encrypt") {
        return Err("it is encrypted".to_owned());
    }
    let (mut out, mut removed) = (bytes.to_vec(), BTreeSet::new());
    let (mut at, mut unpacked) = (0, 0u64);
    while at < bytes.len() {
        let stream = next_stream(bytes, at);
        let end = stream.as_ref().map_or(bytes.len(), |s| s.start);
        rename(&mut out, at, end, 1, &mut removed);
        let Some(stream) = stream else { break };
        let dictionary =
            &bytes[at.max(stream.start.saturating_sub(DICTIONARY_BYTES))..stream.start];
        let dictionary = &dictionary[memmem::rfind(dictionary, b" obj").unwrap_or(0)..];
        let names = find_names(dictionary, 0, 1);
        if names.iter().any(|n| n.decoded == "ObjStm") {
            let others =
                ["ASCIIHexDecode", "ASCII85Decode", "LZWDecode", "RunLengthDecode", "Crypt"];
            let is_odd =
                |n: &Name| others.contains(&n.decoded.as_str()) || n.decoded == "Predictor";
            if names.iter().any(is_odd) || !names.iter().any(|n| n.decoded == "FlateDecode") {
                return Err("its objects are packed in an unusual way".to_owned());
            }
            let data = &bytes[stream.clone()];
            if let Some(packed) = objects(data, limits, &mut unpacked, &mut removed)? {
                out[stream.start..stream.start + packed.len()].copy_from_slice(&packed);
            }
        } else {
            rename(&mut out, stream.start, stream.end, SURE_LETTERS, &mut removed);
        }
        at = stream.end;
    }
    Ok((out, removed, None))
}

/// Bytes before a stream in which its dictionary is looked for.
const DICTIONARY_BYTES: usize = 4_096;

/// The data of the next stream: from behind its keyword to `endstream`.
fn next_stream(bytes: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
    let mut at = from;
    loop {
        let found = at + memmem::find(&bytes[at..], b"stream")?;
        let start = found + b"stream".len();
        let before = found.checked_sub(3).map(|i| &bytes[i..found]);
        let data = match &bytes[start..] {
            [b'\r', b'\n', ..] => Some(start + 2),
            [b'\n' | b'\r', ..] => Some(start + 1),
            _ => None,
        };
        match data {
            Some(data) if before != Some(b"end") => {
                let length = memmem::find(&bytes[data..], b"endstream");
                return Some(data..length.map_or(bytes.len(), |length| data + length));
            }
            _ => at = start,
        }
    }
}

/// The data of a stream of objects with its names renamed, padded to its length; none if it has
/// none of them.
fn objects(
    data: &[u8],
    limits: &Limits,
    unpacked: &mut u64,
    removed: &mut BTreeSet<&'static str>,
) -> Result<Option<Vec<u8>>, String> {
    let left = limits.bytes_max.saturating_sub(*unpacked).min(limits.object_bytes_max);
    let mut decoder = ZlibDecoder::new(data);
    let mut plain = Vec::new();
    let read = (&mut decoder).take(left + 1).read_to_end(&mut plain);
    if read.is_err() || plain.len() as u64 > left {
        return Err("a stream of objects cannot be decompressed".to_owned());
    }
    *unpacked += plain.len() as u64;
    let room = usize::try_from(decoder.total_in()).unwrap_or(data.len()).min(data.len());
    let (end, mut found) = (plain.len(), BTreeSet::new());
    rename(&mut plain, 0, end, 1, &mut found);
    if found.is_empty() {
        return Ok(None);
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(&plain).and_then(|()| encoder.finish());
    let mut packed = packed.map_err(|error| error.to_string())?;
    if packed.len() > room {
        return Err("a stream of objects does not fit into its place when it is changed".to_owned());
    }
    // Behind the end of the compressed data a reader finds nothing more.
    packed.resize(room, 0);
    removed.extend(found);
    Ok(Some(packed))
}

/// A name, without its slash.
struct Name {
    /// Where its letters stand.
    range: std::ops::Range<usize>,
    /// With its `#xx` decoded (section 7.3.5).
    decoded: String,
}

/// Names of at least so many letters.
fn find_names(bytes: &[u8], from: usize, letters_min: usize) -> Vec<Name> {
    let is_end = |b: u8| b.is_ascii_whitespace() || b == 0 || b"()<>[]{}/%".contains(&b);
    let mut found = Vec::new();
    for slash in memchr::memchr_iter(b'/', &bytes[from..]).map(|i| from + i) {
        let start = slash + 1;
        let longest = bytes.len().min(start + 128);
        let end =
            bytes[start..longest].iter().position(|b| is_end(*b)).map_or(longest, |i| start + i);
        let decoded = decode(&bytes[start..end]);
        if decoded.len() >= letters_min {
            found.push(Name { range: start..end, decoded });
        }
    }
    found
}

fn decode(name: &[u8]) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(&byte) = name.get(at) {
        let hex = name.get(at + 1..at + 3).filter(|_| byte == b'#');
        let code = hex.and_then(|h| std::str::from_utf8(h).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                out.push(char::from(code));
                at += 3;
            }
            None => {
                out.push(char::from(byte));
                at += 1;
            }
        }
    }
    out
}

/// Renames what starts something from here to there.
fn rename(
    bytes: &mut [u8],
    from: usize,
    to: usize,
    letters_min: usize,
    removed: &mut BTreeSet<&'static str>,
) {
    for name in find_names(&bytes[..to], from, letters_min) {
        let Some((_, what)) = NAMES.iter().find(|(known, _)| *known == name.decoded) else {
            continue;
        };
        removed.insert(what);
        let letters = &mut bytes[name.range];
        match letters.contains(&b'#') {
            true => letters.fill(b'x'),
            false => letters.iter_mut().for_each(|b| match b {
                b'0'..=b'9' => *b = b'x',
                b if b.is_ascii_uppercase() => b.make_ascii_lowercase(),
                b => b.make_ascii_uppercase(),
            }),
        }
    }
}
