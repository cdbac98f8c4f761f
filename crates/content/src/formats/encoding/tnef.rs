//! TNEF (MS-OXTNEF), `winmail.dat`: attachments and text of a message by Outlook.

use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

/// Attributes that are read.
const ATTRIBUTES_MAX: usize = 16 * 1024;
/// Properties of one attribute that are read.
const PROPERTIES_MAX: usize = 4 * 1024;

const SUBJECT: u32 = 0x0001_8004;
const ATTACH_TITLE: u32 = 0x0001_8010;
const ATTACH_DATA: u32 = 0x0006_800f;
const ATTACH_RENDER: u32 = 0x0006_9002;
const ATTACHMENT: u32 = 0x0006_9005;
const MAPI_PROPERTIES: u32 = 0x0006_9003;
const BODY: u32 = 0x0002_800c;

/// MAPI properties (MS-OXPROPS): long and short file name, data of an attachment, body.
const LONG_NAME: u16 = 0x3707;
const NAME: u16 = 0x3704;
const DATA: u16 = 0x3701;
const TEXT: u16 = 0x1000;
const HTML: u16 = 0x1013;

/// An attachment while its attributes are read.
#[derive(Default)]
struct Attachment {
    title: String,
    long_name: String,
    data: Vec<Vec<u8>>,
}

/// Adds every attachment, and the text of the message.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut rest = bytes.get(6..).unwrap_or_default();
    let mut attachment = Attachment::default();
    for _ in 0..ATTRIBUTES_MAX {
        // Level, attribute, length, bytes, checksum.
        let [_, a0, a1, a2, a3, l0, l1, l2, l3, behind @ ..] = rest else {
            return finish(&mut attachment, unpacker);
        };
        let attribute = u32::from_le_bytes([*a0, *a1, *a2, *a3]);
        let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        let body = &behind[..length.min(behind.len())];
        if body.len() < length {
            unpacker.defect(DefectKind::Truncated, "");
        }
        if unpacker.is_over() {
            return;
        }
        match attribute {
            SUBJECT | BODY => unpacker.text(&text::decode(without_nul(body))),
            ATTACH_RENDER => finish(&mut attachment, unpacker),
            ATTACH_TITLE => attachment.title = text::file_name(without_nul(body)),
            ATTACH_DATA => attachment.data.push(body.to_vec()),
            ATTACHMENT => properties(body, |id, value| match id {
                LONG_NAME => attachment.long_name = value_text(value),
                NAME if attachment.title.is_empty() => attachment.title = value_text(value),
                // An embedded message or object: behind the number of its interface.
                DATA => attachment.data.push(value.get(16..).unwrap_or_default().to_vec()),
                _ => {}
            }),
            MAPI_PROPERTIES => properties(body, |id, value| {
                if matches!(id, TEXT | HTML) {
                    unpacker.text(&value_text(value));
                }
            }),
            _ => {}
        }
        rest = behind.get(length.saturating_add(2)..).unwrap_or_default();
    }
    unpacker.defect(DefectKind::TooManyObjects, "attributes of TNEF");
}

fn finish(attachment: &mut Attachment, unpacker: &mut Unpacker<'_>) {
    let Attachment { title, long_name, data } = std::mem::take(attachment);
    let name = if long_name.is_empty() { title } else { long_name };
    for body in data.into_iter().filter(|body| !body.is_empty()) {
        unpacker.child(Child::named(name.clone()), &body);
    }
}

fn without_nul(body: &[u8]) -> &[u8] {
    &body[..body.iter().position(|&b| b == 0).unwrap_or(body.len())]
}

/// A string of either kind: 8 bits, or UTF-16 where every second byte of the beginning is zero.
fn value_text(value: &[u8]) -> String {
    let wide = value.len() >= 4 && value[1] == 0 && value[3] == 0;
    let text = if wide { text::utf16_le(value) } else { text::decode(value) };
    text.trim_end_matches('\0').to_owned()
}

/// Calls back for every property that has bytes of its own (MS-OXTNEF section 2.1.3.4).
fn properties(body: &[u8], mut each: impl FnMut(u16, &[u8])) {
    let mut at = 4usize;
    let u32_at = |at: usize| {
        let bytes = body.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let count = u32_at(0).unwrap_or(0) as usize;
    for _ in 0..count.min(PROPERTIES_MAX) {
        let Some(tag) = u32_at(at) else { return };
        at += 4;
        let (kind, id) = ((tag & 0xffff) as u16, (tag >> 16) as u16);
        if id >= 0x8000 {
            // A named property: its set, then a number or a name.
            let Some(is_name) = u32_at(at + 16) else { return };
            let Some(length) = u32_at(at + 20) else { return };
            let name = if is_name == 1 { (length as usize).next_multiple_of(4) } else { 0 };
            at = at.saturating_add(24).saturating_add(name);
        }
        let fixed = match kind & 0x0fff {
            0x02 | 0x03 | 0x04 | 0x0a | 0x0b => 4,
            0x05 | 0x06 | 0x07 | 0x14 | 0x40 => 8,
            0x48 => 16,
            _ => 0,
        };
        let has_count = fixed == 0 || kind & 0x1000 != 0;
        let values = if has_count { u32_at(at).unwrap_or(0) as usize } else { 1 };
        at += if has_count { 4 } else { 0 };
        for _ in 0..values.min(PROPERTIES_MAX) {
            let length = if fixed > 0 {
                fixed
            } else {
                let Some(length) = u32_at(at) else { return };
                at += 4;
                length as usize
            };
            let Some(value) = body.get(at..at.saturating_add(length)) else { return };
            if fixed == 0 {
                each(id, value);
            }
            at = at.saturating_add(length.next_multiple_of(4));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, paths, tree};

    fn attribute(id: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [&[2][..], &id.to_le_bytes(), &length, body, &[0, 0]].concat()
    }

    #[test]
    fn attachments_with_their_long_names() {
        // One property: the long name as a string of 8 bits, padded to four bytes.
        let name = b"a long name.exe\0";
        let property = [
            &1u32.to_le_bytes()[..],
            &0x3707_001eu32.to_le_bytes(),
            &1u32.to_le_bytes(),
            &16u32.to_le_bytes(),
            name,
        ];
        let parts = [
            b"\x78\x9f\x3e\x22\x01\0".to_vec(),
            attribute(SUBJECT, b"hello\0"),
            attribute(ATTACH_RENDER, &[0; 14]),
            attribute(ATTACH_TITLE, b"ALONGN~1.EXE\0"),
            attribute(ATTACH_DATA, b"MZ\x90\0"),
            attribute(ATTACHMENT, &property.concat()),
            attribute(ATTACH_RENDER, &[0; 14]),
            attribute(ATTACH_TITLE, b"b.txt\0"),
            attribute(ATTACH_DATA, b"text"),
        ];
        let whole = parts.concat();
        let found = tree(&whole, "winmail.dat");
        assert_eq!(
            paths(&found),
            ["winmail.dat", "winmail.dat/a long name.exe", "winmail.dat/b.txt"]
        );
        assert_eq!(found.objects[0].text, "hello");
        nasty(&whole, "winmail.dat");
    }
}
