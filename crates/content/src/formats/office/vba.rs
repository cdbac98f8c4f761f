//! VBA (MS-OVBA): modules decompressed to text, and what is suspicious in them.

use memchr::memmem;

use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Bytes of one module.
const MODULE_BYTES_MAX: usize = 4 << 20;

/// Procedures that run by themselves.
const AUTO_EXEC: [&str; 30] = [
    "AutoExec",
    "AutoOpen",
    "AutoExit",
    "AutoClose",
    "AutoNew",
    "Auto_Open",
    "Auto_Close",
    "Document_Open",
    "Document_Close",
    "Document_New",
    "Document_BeforeClose",
    "DocumentOpen",
    "DocumentChange",
    "NewDocument",
    "DocumentBeforeClose",
    "Document_ContentControlOnEnter",
    "Workbook_Open",
    "Workbook_Activate",
    "Workbook_Close",
    "Workbook_BeforeClose",
    "Workbook_Deactivate",
    "Worksheet_Calculate",
    "Worksheet_Change",
    "Auto_Ope",
    "Auto_Add",
    "Presentation_Open",
    "Slide_Change",
    "SlideShowBegin",
    "UserForm_Initialize",
    "Frame1_Layout",
];

/// Words of code that starts programs, writes files or fetches them.
const SUSPICIOUS: [&str; 34] = [
    "Shell",
    "WScript.Shell",
    "Shell.Application",
    "CreateObject",
    "GetObject",
    "URLDownloadToFile",
    "XMLHTTP",
    "WinHttp",
    "ADODB.Stream",
    "SaveToFile",
    "CreateTextFile",
    "FileCopy",
    "Kill",
    "PowerShell",
    "cmd.exe",
    "mshta",
    "regsvr32",
    "rundll32",
    "certutil",
    "bitsadmin",
    "wscript",
    "CallByName",
    "VirtualAlloc",
    "RtlMoveMemory",
    "CreateThread",
    "NtAllocateVirtualMemory",
    "Environ",
    "Win32_Process",
    "winmgmts",
    "ExecQuery",
    "MSXML2",
    "StrReverse",
    "ShellExecute",
    "Run",
];

/// Decompresses a container (section 2.4.1); none if it is none.
pub(super) fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&[1])?;
    let mut out = Vec::new();
    while let [low, high, behind @ ..] = rest {
        let header = u16::from_le_bytes([*low, *high]);
        if header >> 12 & 7 != 3 {
            break;
        }
        let size = usize::from(header & 0x0fff) + 1;
        let chunk = &behind[..size.min(behind.len())];
        if header & 0x8000 == 0 {
            out.extend_from_slice(chunk);
        } else {
            tokens(chunk, &mut out);
        }
        if out.len() > MODULE_BYTES_MAX {
            break;
        }
        rest = behind.get(size..).unwrap_or_default();
    }
    (!out.is_empty()).then_some(out)
}

/// One compressed chunk: flags of eight tokens, each a byte or a copy of what came before.
fn tokens(mut chunk: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    while let Some((&flags, rest)) = chunk.split_first() {
        chunk = rest;
        for bit in 0..8 {
            if flags >> bit & 1 == 0 {
                let Some((&byte, rest)) = chunk.split_first() else { return };
                out.push(byte);
                chunk = rest;
                continue;
            }
            let [low, high, rest @ ..] = chunk else { return };
            chunk = rest;
            let token = u16::from_le_bytes([*low, *high]);
            let done = out.len() - start;
            if done == 0 || done > 4_096 {
                return;
            }
            // As many bits for the offset as the place in the chunk needs, at least four.
            let bits = (usize::BITS - (done - 1).leading_zeros()).max(4);
            let length = usize::from(token & (0xffff >> bits)) + 3;
            let offset = usize::from(token >> (16 - bits)) + 1;
            if offset > done {
                return;
            }
            for _ in 0..length {
                out.push(out[out.len() - offset]);
            }
        }
    }
}

/// The source in a module's stream: behind its compiled code, where a container begins with the
/// attributes that every module has. Found by its beginning, since the offset in the `dir` stream
/// may lie.
pub(super) fn source(stream: &[u8]) -> Option<Vec<u8>> {
    memmem::find_iter(stream, b"\0Attribut").find_map(|at| {
        // Flags before the text's first eight characters, header, signature.
        let start = at.checked_sub(3)?;
        decompress(stream.get(start..)?)
    })
}

/// Notes what is suspicious in the text of the current object.
pub(super) fn inspect(code: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::VbaMacros, "");
    let lower = code.to_lowercase();
    for name in AUTO_EXEC {
        if has_word(&lower, &name.to_lowercase()) {
            unpacker.property(PropertyKind::AutoExec, name);
        }
    }
    for word in SUSPICIOUS {
        if has_word(&lower, &word.to_lowercase()) {
            unpacker.property(PropertyKind::SuspiciousCall, word);
        }
    }
}

/// Whether a text has a word, not as a part of another.
fn has_word(text: &str, word: &str) -> bool {
    let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    memmem::find_iter(text.as_bytes(), word).any(|at| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        !part(before) && !part(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        // MS-OVBA section 3.2.1 to 3.2.3.
        let plain = b"\x01\x19\xb0\x00abcdefgh\x00ijklmnop\x00qrstuv.";
        assert_eq!(decompress(plain).unwrap(), b"abcdefghijklmnopqrstuv.");
        let usual = b"\x01\x2f\xb0\x00#aaabcde\x82f\x00pagh\x02\x48\x2cijkl\x06\x28\x2c\x2cmnop\x06\x08\x10\x00";
        assert!(decompress(usual).is_some());
        let most = b"\x01\x03\xb0\x02aE\x00";
        assert_eq!(decompress(most).unwrap(), vec![b'a'; 73]);
        for end in 0..most.len() {
            decompress(&most[..end]);
        }
        assert!(has_word("sub autoopen()", "autoopen") && !has_word("subautoopen", "autoopen"));
    }
}
