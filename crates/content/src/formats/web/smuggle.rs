//! Files that a page carries in its own text and writes out by script (HTML smuggling): strings of
//! base64, hexadecimal digits or numbers, joined, reversed or changed by a constant key.

use std::collections::HashSet;

use gauntlet_sniff::FileKind;

use super::fold::{Folder, Found};
use super::{bytes, javascript};
use crate::host::Child;
use crate::object::{PropertyKind, UrlSource};
use crate::unpack::Unpacker;

/// Files of one page.
const FILES_MAX: usize = 64;
/// Scripts inside scripts that are read.
const DEPTH_MAX: usize = 4;
/// Bytes of what may be a file.
const FILE_BYTES_MIN: usize = 24;
/// Bytes of a string without a signature that is taken for the file which a page saves.
const UNKNOWN_BYTES_MIN: usize = 150;
/// Keys of a script that are tried on a string.
const KEYS_MAX: usize = 64;
/// Bytes of a word that may be a key.
const KEY_BYTES_MAX: usize = 64;

/// What the scripts of one page carry.
#[derive(Debug, Default)]
pub(super) struct Smuggled {
    files: Vec<Vec<u8>>,
    seen: HashSet<Vec<u8>>,
    /// Names under which files are saved.
    pub(super) names: Vec<String>,
    keys: Vec<Vec<u8>>,
    has_key: bool,
    saves: bool,
    /// The longest string of base64 that has no signature, decoded: a script, say.
    unknown: Vec<u8>,
}

/// Words of a script that saves a file that it made.
const SAVING: [&str; 6] = [
    "createObjectURL",
    "msSaveBlob",
    "msSaveOrOpenBlob",
    "saveAs(",
    ".download",
    "showSaveFilePicker",
];

impl Smuggled {
    /// Reads a script, and those that it decodes.
    pub(super) fn script(&mut self, script: &str, unpacker: &mut Unpacker<'_>) {
        self.script_at(script, 0, unpacker);
    }

    fn script_at(&mut self, script: &str, depth: usize, unpacker: &mut Unpacker<'_>) {
        let has = |word: &str| script.contains(word);
        if SAVING.iter().any(|word| has(word)) && (has("Blob") || has("File(") || has("data:")) {
            self.saves = true;
        }
        self.has_key |= has("^");
        let tokens = javascript::tokens(script);
        for token in &tokens {
            if let javascript::Token::Text(text) = token
                && (2..=KEY_BYTES_MAX).contains(&text.len())
                && self.keys.len() < KEYS_MAX
            {
                self.keys.push(text.as_bytes().to_vec());
            }
        }
        for found in Folder::fold(&tokens) {
            if unpacker.is_over() {
                return;
            }
            match found {
                Found::Text(text) => self.candidate(&text),
                Found::Decoded(text) => self.decoded(&text, depth, unpacker),
                Found::File(text) => {
                    if !self.decode_candidate(&text) {
                        self.file(raw(&text));
                    }
                }
                Found::Name(name) => self.names.push(name.to_string()),
                Found::Written(text) => {
                    if text.contains('<') {
                        self.file(text.as_bytes().to_vec());
                    }
                }
                Found::Address(address) => self.address(&address, unpacker),
            }
        }
    }

    /// Where the page goes by itself, or a file in a `data:` address.
    fn address(&mut self, address: &str, unpacker: &mut Unpacker<'_>) {
        if let Some((_, bytes)) = bytes::data_address(address) {
            self.file(bytes);
        } else if address.contains("://") || address.starts_with("//") {
            unpacker.property(PropertyKind::Redirect, address);
            unpacker.url(address, UrlSource::Action);
        }
    }

    /// What a function of the page decoded: a file, a page, or a script.
    fn decoded(&mut self, text: &str, depth: usize, unpacker: &mut Unpacker<'_>) {
        if self.decode_candidate(text) {
            return;
        }
        let bytes = raw(text);
        let kind = gauntlet_sniff::sniff(&bytes);
        if is_file(kind, &bytes) || matches!(kind, FileKind::Html | FileKind::Svg) {
            self.file(bytes);
            return;
        }
        if self.unlock(&bytes) || text.len() < 4 {
            return;
        }
        if !text.chars().all(|c| !c.is_control() || c.is_whitespace()) {
            return;
        }
        if let Some(address) = text.split_whitespace().find(|word| word.contains("://")) {
            let address = address.trim_matches(['"', '\'', ';', '(', ')']);
            if address.starts_with("http") {
                unpacker.url(address, UrlSource::Action);
            }
        }
        unpacker.text(&bytes::without_runs(text));
        if depth < DEPTH_MAX && text.contains(['(', '=']) {
            self.script_at(text, depth + 1, unpacker);
        }
    }

    /// A string that may be a file in some writing.
    pub(super) fn candidate(&mut self, text: &str) {
        if bytes::data_address(text).is_some_and(|(_, bytes)| self.file(bytes)) {
            return;
        }
        self.decode_candidate(text);
    }

    /// Tries the writings of bytes; whether one gave a file.
    fn decode_candidate(&mut self, text: &str) -> bool {
        let text = text.trim();
        if text.len() < FILE_BYTES_MIN {
            return false;
        }
        let reversed = || text.bytes().rev().collect::<Vec<u8>>();
        if let Some(bytes) = bytes::hexadecimal(text.as_bytes())
            && self.plain_or_locked(bytes)
        {
            return true;
        }
        if bytes::is_base64(text.as_bytes()) {
            // The reading that comes first wins where neither has a signature.
            return self.plain_or_locked(bytes::base64(text.as_bytes()))
                || self.plain_or_locked(bytes::base64(&reversed()));
        }
        let turned = text.starts_with('=').then(reversed).filter(|t| bytes::is_base64(t));
        turned.is_some_and(|turned| self.plain_or_locked(bytes::base64(&turned)))
    }

    fn plain_or_locked(&mut self, bytes: Vec<u8>) -> bool {
        let kind = gauntlet_sniff::sniff(&bytes);
        if bytes.len() >= FILE_BYTES_MIN
            && (is_file(kind, &bytes) || matches!(kind, FileKind::Html | FileKind::Svg))
        {
            return self.file(bytes);
        }
        if self.unlock(&bytes) {
            return true;
        }
        if bytes.len() > self.unknown.len().max(UNKNOWN_BYTES_MIN) {
            self.unknown = bytes;
        }
        false
    }

    /// Tries keys of one byte, and the words of the script, if it has an exclusive or.
    fn unlock(&mut self, locked: &[u8]) -> bool {
        if !self.has_key || locked.len() < FILE_BYTES_MIN {
            return false;
        }
        let opened = |key: &[u8], count: usize| -> Vec<u8> {
            let key = key.iter().cycle();
            locked.iter().zip(key).take(count).map(|(b, k)| b ^ k).collect()
        };
        let single = (1..=255_u8).map(|key| vec![key]);
        let mut keys = single.chain(self.keys.iter().cloned());
        let right = keys.find(|key| {
            let start = opened(key, 1_024);
            is_file(gauntlet_sniff::sniff(&start), &start) && !has_weak_signature(&start)
        });
        let file = right.map(|key| opened(&key, locked.len()));
        file.is_some_and(|file| self.file(file))
    }

    /// Keeps a file once; always true, as it is one.
    fn file(&mut self, bytes: Vec<u8>) -> bool {
        if bytes.len() > 3 && self.files.len() < FILES_MAX && self.seen.insert(bytes.clone()) {
            self.files.push(bytes);
        }
        true
    }

    /// Adds what was found to the tree.
    pub(super) fn finish(mut self, unpacker: &mut Unpacker<'_>) {
        if self.saves && self.files.is_empty() && !self.unknown.is_empty() {
            let unknown = std::mem::take(&mut self.unknown);
            self.file(unknown);
        }
        if self.saves || !self.files.is_empty() {
            let name = self.names.first().map(String::as_str).unwrap_or_default();
            unpacker.property(PropertyKind::Smuggling, name);
        }
        for (index, file) in self.files.iter().enumerate() {
            if unpacker.is_over() {
                return;
            }
            let name = self.names.get(index).or(self.names.first()).cloned().unwrap_or_default();
            unpacker.child(Child::named(name), file);
        }
    }
}

/// The bytes of a text: of characters up to 255, else UTF-8.
fn raw(text: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Whether bytes have a signature that chance does not give.
fn is_file(kind: FileKind, bytes: &[u8]) -> bool {
    use FileKind as K;
    match kind {
        K::Empty | K::Text | K::Unknown | K::Html | K::Svg | K::Media | K::Message => false,
        K::Arj | K::Cpio | K::Lzma | K::Mbox => false,
        K::WindowsProgram => {
            let at = bytes.get(0x3c..).and_then(|b| b.first_chunk::<4>());
            let at = at.map_or(usize::MAX, |b| u32::from_le_bytes(*b) as usize);
            let header = bytes.get(at..).unwrap_or_default();
            header.starts_with(b"PE\0\0") || header.starts_with(b"NE") || bytes.len() < 0x40
        }
        K::Gzip => bytes.get(2) == Some(&8),
        K::Image => !bytes.starts_with(b"BM") && !bytes.starts_with(&[0, 0, 1, 0]),
        _ => true,
    }
}

/// Signatures of two bytes, which one of 255 keys makes of anything.
fn has_weak_signature(bytes: &[u8]) -> bool {
    bytes.starts_with(b"#!")
        || bytes.starts_with(&[0x1f, 0x8b])
        || bytes.starts_with(&[0xff, 0xd8])
        || (bytes.starts_with(b"MZ") && bytes.len() < 0x40)
}
