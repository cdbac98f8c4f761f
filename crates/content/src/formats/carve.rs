//! Files before, behind or inside others that are no part of their format: self-extracting
//! programs, pictures and shortcuts with an archive behind them, a program behind a picture.
//!
//! ```text
//! picture | ZIP      programs that unpack look for a ZIP's end, wherever it begins
//! program | 7z       self-extracting
//! script  | program  what the script cuts out of its own file
//! ```
//!
//! Signatures are looked for where the decoder of the format has not read: in all of a program or
//! picture, behind the end of an archive or PDF. Each is checked beyond its magic number, so that
//! chance and tables of signatures in programs give no file. The search passes over the bytes once
//! a signature.

mod signature;

use gauntlet_sniff::FileKind;
use memchr::memmem;

pub(super) use self::signature::program_end;
use self::signature::{SIGNATURES, Signature};
use super::archive;
use super::numbers::u32_at;
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Files carved out of one object.
const FILES_MAX: usize = 64;
/// Places of one signature that are looked at.
const PLACES_MAX: usize = 1 << 20;
/// Bytes at the end of a file in which a ZIP may end (APPNOTE.TXT section 4.3.16).
const TAIL_BYTES: usize = 65_557;
/// Bytes behind a ZIP that stands behind a container.
const SLACK_BYTES: usize = 1_024;
/// No file behind another is smaller.
const FILE_BYTES_MIN: usize = 22;

/// A file inside another.
struct Found {
    at: usize,
    end: usize,
    extension: &'static str,
}

/// Adds the files that stand where the decoder of this kind has not read.
pub(crate) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if bytes.len() < 2 * FILE_BYTES_MIN {
        return;
    }
    let unread = unread(kind, bytes);
    let mut found = Vec::new();
    for &(start, end) in &unread {
        for signature in &SIGNATURES {
            search(kind, signature, bytes, (start, end), &mut found, unpacker);
        }
    }
    if !archive::is_zip(kind) {
        // Containers keep files as they are: a ZIP in the middle is one of theirs.
        let is_behind = |zip: &Found| !unread.is_empty() || bytes.len() - zip.end <= SLACK_BYTES;
        found.extend(zip_at_end(bytes).filter(is_behind));
    }
    found.sort_by_key(|file| file.at);
    let format_end = if kind == FileKind::WindowsProgram { program_end(bytes, 0) } else { None };
    let mut read_to = 0;
    for (index, file) in found.iter().filter(|file| file.at > 0).enumerate() {
        if unpacker.is_over() {
            return;
        }
        if index >= FILES_MAX {
            return unpacker.defect(DefectKind::TooManyObjects, "files behind each other");
        }
        let body = &bytes[file.at..file.end.min(bytes.len())];
        if file.at < read_to || unpacker.has_child(body) {
            continue;
        }
        read_to = file.end;
        let name = format!("carved-at-{}.{}", file.at, file.extension);
        // A file among the resources of a program is not behind it.
        if file.at >= format_end.unwrap_or(0) {
            let is_before = kind == FileKind::Pdf && pdf_start(bytes) > file.at;
            let place = if is_before { PropertyKind::DataBefore } else { PropertyKind::DataBehind };
            unpacker.property(place, &name);
        }
        if unpacker.charge(body.len() as u64, &name) {
            unpacker.child(Child::named(name), body);
        }
    }
}

/// Where the decoder of a kind has not read, or reads what is no file.
fn unread(kind: FileKind, bytes: &[u8]) -> Vec<(usize, usize)> {
    use FileKind as K;
    let behind = |end: usize| vec![(end.min(bytes.len()), bytes.len())];
    match kind {
        K::WindowsProgram | K::ElfProgram | K::MachProgram | K::Shortcut | K::Script => behind(1),
        K::Image | K::Media | K::Rtf | K::Html | K::Svg | K::Calendar | K::Card => behind(1),
        K::Text | K::Unknown => behind(1),
        K::Pdf => {
            let end = memmem::rfind(bytes, b"%%EOF").map_or(bytes.len(), |at| at + 5);
            vec![(0, pdf_start(bytes)), (end, bytes.len())]
        }
        kind if archive::is_zip(kind) => behind(archive::zip_end(bytes)),
        K::SevenZip => behind(archive::seven_zip_end(bytes, 0).unwrap_or(bytes.len())),
        K::Cab => behind(u32_at(bytes, 8).map_or(bytes.len(), |size| size as usize)),
        // Their files stand in them as they are: only a ZIP's end at the end is looked for.
        _ => Vec::new(),
    }
}

fn pdf_start(bytes: &[u8]) -> usize {
    memmem::find(bytes, b"%PDF-").unwrap_or(0)
}

/// The places of a signature that hold.
fn search(
    host: FileKind,
    signature: &Signature,
    bytes: &[u8],
    (start, end): (usize, usize),
    found: &mut Vec<Found>,
    unpacker: &mut Unpacker<'_>,
) {
    let mut read_to = start;
    for (index, at) in memmem::find_iter(&bytes[start..end], signature.magic).enumerate() {
        if index >= PLACES_MAX {
            return unpacker.defect(DefectKind::TooManyObjects, "signatures of files");
        }
        let at = start + at;
        if at < read_to || at == 0 || end - at < FILE_BYTES_MIN {
            continue;
        }
        let Some(file_end) = (signature.end)(bytes, at) else { continue };
        // A program in a program ends with its sections; elsewhere what is behind it is its own.
        let is_embedded = host == FileKind::WindowsProgram || signature.extension != "exe";
        let file_end = if is_embedded { file_end.min(bytes.len()) } else { bytes.len() };
        found.push(Found { at, end: file_end, extension: signature.extension });
        if found.len() > 2 * FILES_MAX {
            return;
        }
        read_to = file_end;
    }
}

/// A ZIP that ends within the last bytes, as programs that unpack find it in any file.
fn zip_at_end(bytes: &[u8]) -> Option<Found> {
    let tail = bytes.len().saturating_sub(TAIL_BYTES);
    let end = tail + memmem::rfind(&bytes[tail..], b"PK\x05\x06")?;
    let at = signature::zip_start(bytes, end)?;
    Some(Found { at, end: signature::zip_record_end(bytes, end), extension: "zip" })
}

#[cfg(test)]
mod tests;
