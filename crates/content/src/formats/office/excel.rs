//! Excel's binary format (MS-XLS): texts of cells, links, macro sheets, names that run by
//! themselves, and the encryption of the stream.

mod strings;

use super::{crypt, hyperlink};
use crate::formats::numbers::{slice, u16_at};
use crate::object::{DefectKind, PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Records of one workbook that are read.
const RECORDS_MAX: usize = 2_000_000;
/// Bytes of an encrypted stream that share a key.
const KEY_BLOCK_BYTES: usize = 1_024;

// Records (section 2.3).
const NAME: u16 = 0x0018;
const FILE_PASS: u16 = 0x002f;
const CONTINUE: u16 = 0x003c;
const BOUND_SHEET: u16 = 0x0085;
const RSTRING: u16 = 0x00d6;
const SST: u16 = 0x00fc;
const SUP_BOOK: u16 = 0x01ae;
const HYPERLINK: u16 = 0x01b8;
const LABEL: u16 = 0x0204;
const STRING: u16 = 0x0207;
const BOF: u16 = 0x0809;

/// Records that are never encrypted (section 2.2.10).
const PLAIN: [u16; 8] = [BOF, FILE_PASS, 0x0193, 0x0195, 0x00e1, 0x0196, 0x0138, 0x0194];

/// A record's type, where its bytes begin, and these.
struct Record<'b> {
    kind: u16,
    at: usize,
    body: &'b [u8],
}

/// The records of a stream, each with its header of four bytes.
fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut at = 0;
    let next = move || {
        let (kind, length) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
        let record = Record { kind, at: at + 4, body: slice(bytes, at + 4, usize::from(length)) };
        at += 4 + usize::from(length);
        Some(record)
    };
    std::iter::from_fn(next).take(RECORDS_MAX)
}

pub(super) fn read(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let pass = records(bytes).take(64).find(|record| record.kind == FILE_PASS);
    match pass {
        None => workbook(bytes, unpacker),
        Some(pass) => {
            if let Some(plain) = decrypted(bytes, pass.body, unpacker) {
                workbook(&plain, unpacker);
            }
        }
    }
}

/// The stream without its encryption (section 2.2.10).
fn decrypted(bytes: &[u8], pass: &[u8], unpacker: &mut Unpacker<'_>) -> Option<Vec<u8>> {
    let info = match u16_at(pass, 0) {
        Some(1) => crypt::Rc4Info::read(pass.get(2..).unwrap_or_default()),
        Some(0) => return obfuscated(bytes, pass, unpacker),
        _ => None,
    };
    let Some(info) = info else {
        unpacker.property(PropertyKind::Encrypted, "");
        unpacker.defect(DefectKind::Encrypted, "a scheme of encryption that is not known");
        return None;
    };
    let keys = crypt::with_password(unpacker, |word| info.keys(word))?;
    let mut plain = keys.apply(bytes, KEY_BLOCK_BYTES);
    keep_plain(bytes, &mut plain);
    Some(plain)
}

/// Headers of records and what is never encrypted come back as they were.
fn keep_plain(bytes: &[u8], plain: &mut [u8]) {
    for record in records(bytes) {
        let kept = match record.kind {
            kind if PLAIN.contains(&kind) => record.body.len(),
            // Where the sheet begins.
            BOUND_SHEET => record.body.len().min(4),
            _ => 0,
        };
        let range = record.at - 4..record.at + kept;
        plain[range.clone()].copy_from_slice(&bytes[range]);
    }
}

/// Excel's oldest scheme: an exclusive or with 16 bytes of the password (MS-OFFCRYPTO section
/// 2.3.7.2).
fn obfuscated(bytes: &[u8], pass: &[u8], unpacker: &mut Unpacker<'_>) -> Option<Vec<u8>> {
    let (key, verifier) = (u16_at(pass, 2)?, u16_at(pass, 4)?);
    let array = crypt::with_password(unpacker, |word| crypt::xor_array(word, key, verifier))?;
    let mut plain = bytes.to_vec();
    for record in records(bytes) {
        let from = record.at;
        for (index, byte) in record.body.iter().enumerate() {
            // The record's end decides where in the array its bytes begin.
            let place = (from + index + record.body.len()) % array.len();
            plain[from + index] = (byte ^ array[place]).rotate_left(3);
        }
    }
    keep_plain(bytes, &mut plain);
    Some(plain)
}

fn workbook(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut all = records(bytes).peekable();
    let mut shown = String::new();
    while let Some(record) = all.next() {
        let body = record.body;
        match record.kind {
            BOUND_SHEET => sheet(body, unpacker),
            NAME => name(body, unpacker),
            SST => {
                let mut pieces = vec![body];
                while let Some(more) = all.next_if(|next| next.kind == CONTINUE) {
                    pieces.push(more.body);
                }
                strings::shared(&pieces, &mut shown);
            }
            LABEL | RSTRING => push(&mut shown, &strings::sized(slice(body, 6, body.len()))),
            STRING => push(&mut shown, &strings::sized(body)),
            HYPERLINK => hyperlink::read(body, unpacker),
            SUP_BOOK => book(body, unpacker),
            _ => {}
        }
    }
    unpacker.text(&shown);
}

fn push(shown: &mut String, text: &str) {
    if !text.trim().is_empty() {
        shown.push_str(text);
        shown.push('\n');
    }
}

/// A sheet of Excel 4.0 macros (section 2.4.28).
fn sheet(body: &[u8], unpacker: &mut Unpacker<'_>) {
    let [_, _, _, _, state, 1, length, name @ ..] = body else { return };
    // Before Excel 97 the characters follow at once.
    let name = match name {
        [wide @ (0 | 1), name @ ..] => strings::characters(name, usize::from(*length), *wide == 1),
        name => text::decode(slice(name, 0, usize::from(*length))),
    };
    let state = ["visible", "hidden", "very hidden"][usize::from(state & 3).min(2)];
    unpacker.property(PropertyKind::XlmMacros, &format!("{name} ({state})"));
}

/// A name that Excel runs when a workbook is opened or closed (section 2.4.150, Lbl).
fn name(body: &[u8], unpacker: &mut Unpacker<'_>) {
    const IS_BUILT_IN: u16 = 0x20;
    let (Some(flags), Some(length)) = (u16_at(body, 0), body.get(3)) else { return };
    // With a byte for the width of characters, and in Excel 5 without.
    let name = slice(body, 14, usize::from(*length) + 1);
    let name = name.strip_prefix(&[0]).unwrap_or(name);
    if flags & IS_BUILT_IN != 0 {
        match name.first() {
            Some(1) => unpacker.property(PropertyKind::AutoExec, "Auto_Open"),
            Some(2) => unpacker.property(PropertyKind::AutoExec, "Auto_Close"),
            Some(10) => unpacker.property(PropertyKind::AutoExec, "Auto_Activate"),
            Some(11) => unpacker.property(PropertyKind::AutoExec, "Auto_Deactivate"),
            _ => {}
        }
        return;
    }
    let name = text::decode(name).to_ascii_lowercase();
    for known in ["Auto_Open", "Auto_Close", "Auto_Activate", "Auto_Deactivate"] {
        if name.starts_with(&known.to_ascii_lowercase()) {
            unpacker.property(PropertyKind::AutoExec, known);
        }
    }
}

/// Another workbook that this one refers to, or a link by DDE (section 2.4.271).
fn book(body: &[u8], unpacker: &mut Unpacker<'_>) {
    let path = strings::sized(slice(body, 2, body.len()));
    // A part of DDE or OLE: program and topic with a character 3 between them.
    if let Some((program, topic)) = path.split_once('\u{3}') {
        unpacker.property(PropertyKind::Dde, &format!("{program} {topic}"));
    } else if let Some(at) = path.find("http") {
        unpacker.property(PropertyKind::ExternalReference, &path[at..]);
        unpacker.url(&path[at..], UrlSource::External);
    }
}
