//! Excel's binary workbooks in the ZIP format (MS-XLSB): links by DDE.

use crate::formats::numbers::{u16_at, u32_at};
use crate::object::PropertyKind;
use crate::text;
use crate::unpack::Unpacker;

/// Records of one part that are read.
const RECORDS_MAX: usize = 2_000_000;
/// The record that begins a link to elsewhere (BrtBeginSupBook, section 2.4.203).
const BEGIN_BOOK: u32 = 360;
/// Its first field, for DDE.
const IS_DDE: u16 = 1;

/// Notes links by DDE in a part, whatever it is called: relationships say what a part is.
pub(super) fn external_links(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut rest = bytes;
    for _ in 0..RECORDS_MAX {
        // Section 2.1.4: type and size, each with seven bits a byte.
        let Some((kind, behind)) = number(rest, 2) else { return };
        let Some((size, behind)) = number(behind, 4) else { return };
        let body = &behind[..behind.len().min(size as usize)];
        rest = &behind[body.len()..];
        if kind == BEGIN_BOOK && u16_at(body, 0) == Some(IS_DDE) {
            let link = string(&body[2..]).and_then(|(program, behind)| {
                string(behind).map(|(topic, _)| format!("{program} {topic}"))
            });
            unpacker.property(PropertyKind::Dde, &link.unwrap_or_default());
        }
    }
}

/// A number of at most this many bytes, and what follows it.
fn number(bytes: &[u8], bytes_max: usize) -> Option<(u32, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(bytes_max).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 || index + 1 == bytes_max {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// A text with the number of its characters before it (section 2.5.169, XLNullableWideString).
fn string(bytes: &[u8]) -> Option<(String, &[u8])> {
    let length = 2 * (u32_at(bytes, 0)? as usize).min(bytes.len());
    let behind = &bytes[4..];
    (length <= behind.len()).then(|| (text::utf16_le(&behind[..length]), &behind[length..]))
}

#[cfg(test)]
mod tests {
    use crate::PropertyKind;
    use crate::formats::testing::{file, nasty, tree, zip};

    #[test]
    fn links_of_a_binary_workbook() {
        let wide = |text: &str| {
            let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            [&(text.len() as u32).to_le_bytes()[..], &units].concat()
        };
        let part = |sort: u16| {
            let body = [&sort.to_le_bytes()[..], &wide("cmd"), &wide("/c calc")].concat();
            [&[0xe8, 0x02, body.len() as u8][..], &body, &[0xcc, 0x04, 0]].concat()
        };
        for (sort, expected) in [(1, Some("cmd /c calc")), (0, None), (2, None)] {
            let body = part(sort);
            let whole = zip(&[file("[Content_Types].xml", b"<Types/>"), file("xl/x.bin", &body)]);
            let found = tree(&whole, "a.xlsb");
            let link = found.objects[2].properties.iter().find(|p| p.kind == PropertyKind::Dde);
            assert_eq!(link.map(|p| p.detail.as_str()), expected);
            nasty(&whole, "a.xlsb");
        }
    }
}
