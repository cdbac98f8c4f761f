//! Text of Word's binary format (MS-DOC): the pieces in the order of the document, with the
//! addresses and commands of its fields.

use super::compound::Stream;
use super::crypt;
use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::object::{DefectKind, PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Flags of the file information block (section 2.5.2).
const IS_ENCRYPTED: u16 = 0x0100;
const IN_TABLE_1: u16 = 0x0200;
const IS_OBFUSCATED: u16 = 0x8000;
/// Where the block has the place of the piece table (section 2.5.6, fcClx).
const PIECES_AT: usize = 0x1a2;
/// The first version of the format that has a piece table in another stream.
const VERSION_97: u16 = 0x00c0;
/// Bytes of a document that are never encrypted, and of those that share a key.
const PLAIN_BYTES: usize = 68;
const KEY_BLOCK_BYTES: usize = 512;
/// Characters of a document that are read.
const CHARACTERS_MAX: usize = 4 << 20;
/// Fields inside each other.
const FIELDS_MAX: usize = 32;

/// Reads the document of this stream; its tables lie in the same folder. False if it has none.
pub(super) fn read(document: &Stream, streams: &[Stream], unpacker: &mut Unpacker<'_>) -> bool {
    let main = document.bytes.as_slice();
    let (Some(version), Some(flags)) = (u16_at(main, 2), u16_at(main, 10)) else { return false };
    if version < VERSION_97 {
        return early(main, flags, unpacker);
    }
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let table = if flags & IN_TABLE_1 != 0 { "1Table" } else { "0Table" };
    let path = if folder.is_empty() { table.to_owned() } else { format!("{folder}/{table}") };
    let Some(table) = streams.iter().find(|stream| stream.path == path) else { return false };
    let (main, table) = match flags & IS_ENCRYPTED {
        0 => (main.to_vec(), table.bytes.clone()),
        _ => match decrypted(main, &table.bytes, flags, unpacker) {
            Some(plain) => plain,
            None => return true,
        },
    };
    let pieces = u32_at(&main, PIECES_AT).zip(u32_at(&main, PIECES_AT + 4));
    let text =
        pieces.and_then(|(at, size)| pieces_text(&main, slice(&table, at as usize, size as usize)));
    let Some(text) = text else { return false };
    show(&text, unpacker);
    true
}

/// Documents of Word 6 and 95: the text stands between two places, in one byte a character.
fn early(main: &[u8], flags: u16, unpacker: &mut Unpacker<'_>) -> bool {
    if flags & IS_ENCRYPTED != 0 {
        unpacker.property(PropertyKind::Encrypted, "");
        unpacker.defect(DefectKind::Encrypted, "by the cipher of Word 95");
        return true;
    }
    let (Some(start), Some(end)) = (u32_at(main, 24), u32_at(main, 28)) else { return false };
    let length = (end as usize).saturating_sub(start as usize).min(CHARACTERS_MAX);
    let body = slice(main, start as usize, length);
    show(&encoding_rs::WINDOWS_1252.decode_without_bom_handling(body).0, unpacker);
    !body.is_empty()
}

/// Document and table without their encryption (MS-OFFCRYPTO section 2.3.6.4 and MS-DOC 2.2.6).
fn decrypted(
    main: &[u8],
    table: &[u8],
    flags: u16,
    unpacker: &mut Unpacker<'_>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let info = crypt::Rc4Info::read(table).filter(|_| flags & IS_OBFUSCATED == 0);
    let Some(info) = info else {
        unpacker.property(PropertyKind::Encrypted, "");
        unpacker.defect(DefectKind::Encrypted, "a scheme of encryption that is not known");
        return None;
    };
    let keys = crypt::with_password(unpacker, |word| info.keys(word))?;
    let mut plain = keys.apply(main, KEY_BLOCK_BYTES);
    let clear = PLAIN_BYTES.min(plain.len());
    plain[..clear].copy_from_slice(&main[..clear]);
    Some((plain, keys.apply(table, KEY_BLOCK_BYTES)))
}

/// The characters of the piece table (section 2.9.38, Clx): formats first, then the pieces.
fn pieces_text(main: &[u8], mut clx: &[u8]) -> Option<String> {
    while let [1, rest @ ..] = clx {
        clx = rest.get(2 + usize::from(u16_at(rest, 0)?)..)?;
    }
    let [2, rest @ ..] = clx else { return None };
    let size = u32_at(rest, 0)? as usize;
    let table = slice(rest, 4, size);
    // One more place than there are pieces of eight bytes each.
    let count = table.len().checked_sub(4)? / 12;
    let descriptors = &table[4 * (count + 1)..];
    let mut text = String::new();
    for piece in 0..count {
        let (start, end) = (u32_at(table, 4 * piece)?, u32_at(table, 4 * piece + 4)?);
        let length = (end as usize).saturating_sub(start as usize).min(CHARACTERS_MAX);
        let place = u32_at(descriptors, 8 * piece + 2)?;
        let at = (place & 0x3fff_ffff) as usize;
        // The bit for one byte a character; the place counts half bytes then.
        if place & 0x4000_0000 != 0 {
            let bytes = slice(main, at / 2, length);
            text.push_str(&encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0);
        } else {
            text.push_str(&text::utf16_le(slice(main, at, 2 * length)));
        }
        if text.len() > CHARACTERS_MAX {
            break;
        }
    }
    Some(text)
}

/// Adds what a reader sees; instructions of fields become addresses and properties.
fn show(all: &str, unpacker: &mut Unpacker<'_>) {
    const BEGIN: char = '\u{13}';
    const SEPARATOR: char = '\u{14}';
    const END: char = '\u{15}';
    let mut shown = String::with_capacity(all.len());
    // Instructions of the fields around this place; none once the result begins.
    let mut fields: Vec<Option<String>> = Vec::new();
    for c in all.chars() {
        match c {
            BEGIN if fields.len() < FIELDS_MAX => fields.push(Some(String::new())),
            SEPARATOR => {
                if let Some(instruction) = fields.last_mut().and_then(Option::take) {
                    field(&instruction, unpacker);
                }
            }
            END => {
                if let Some(Some(instruction)) = fields.pop() {
                    field(&instruction, unpacker);
                }
            }
            c => {
                let shown_as = match c {
                    '\r' | '\u{7}' | '\u{b}' | '\u{c}' => '\n',
                    '\u{1e}' => '-',
                    '\t' | '\n' => c,
                    c if c.is_control() => continue,
                    c => c,
                };
                match fields.iter_mut().rev().find_map(Option::as_mut) {
                    Some(instruction) => instruction.push(shown_as),
                    None => shown.push(shown_as),
                }
            }
        }
    }
    for instruction in fields.into_iter().flatten() {
        field(&instruction, unpacker);
    }
    unpacker.text(&shown);
}

/// Whether an instruction starts a program by DDE.
pub(super) fn is_dde(instruction: &str) -> bool {
    let name = instruction.split_whitespace().next().unwrap_or_default();
    name.eq_ignore_ascii_case("DDE") || name.eq_ignore_ascii_case("DDEAUTO")
}

/// What a field does: follows a link, starts a program, fetches a file.
pub(super) fn field(instruction: &str, unpacker: &mut Unpacker<'_>) {
    let instruction = instruction.trim();
    let name = instruction.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match name.as_str() {
        "HYPERLINK" => {
            let quoted = instruction.split('"').nth(1);
            let bare = || instruction.split_whitespace().nth(1).unwrap_or_default();
            // A place in the document itself.
            if bare() != "\\l" {
                unpacker.url(quoted.unwrap_or_else(bare), UrlSource::Link);
            }
        }
        "DDE" | "DDEAUTO" => unpacker.property(PropertyKind::Dde, instruction),
        "INCLUDEPICTURE" | "INCLUDETEXT" | "IMPORT" | "INCLUDE" | "LINK" => {
            let parts = instruction.split(['"', ' ']);
            for address in parts.filter(|p| p.contains("://") || p.starts_with("\\\\")) {
                unpacker.property(PropertyKind::ExternalReference, address);
                unpacker.url(address, UrlSource::External);
            }
        }
        _ => {}
    }
}
