//! cpio: the portable (`070707`), new (`070701`, `070702`) and binary forms.

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

const TYPE_MASK: u64 = 0o170_000;
const REGULAR: u64 = 0o100_000;
const SYMBOLIC_LINK: u64 = 0o120_000;

/// What a header says.
struct Header {
    mode: u64,
    name_bytes: usize,
    size: usize,
    /// Bytes of the header itself.
    bytes: usize,
    /// What name and file are padded to.
    align: usize,
}

/// Adds every file of the archive.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(header) {
        let name_at = at + header.bytes;
        let name = bytes.get(name_at..name_at.saturating_add(header.name_bytes));
        let Some(name) = name else { break };
        let name = text::file_name(name.strip_suffix(b"\0").unwrap_or(name));
        if name == "TRAILER!!!" {
            return;
        }
        let body_at = at + (header.bytes + header.name_bytes).next_multiple_of(header.align);
        let end = body_at.saturating_add(header.size);
        let body = bytes.get(body_at.min(bytes.len())..end.min(bytes.len())).unwrap_or_default();
        if end > bytes.len() {
            unpacker.defect(DefectKind::Truncated, &name);
        }
        if unpacker.is_over() {
            return;
        }
        match header.mode & TYPE_MASK {
            REGULAR => unpacker.child(Child::named(name), body),
            SYMBOLIC_LINK => {
                let target = text::file_name(body);
                unpacker.property(PropertyKind::Link, &format!("{name} -> {target}"));
            }
            _ => {}
        }
        at = body_at.saturating_add(header.size.next_multiple_of(header.align));
    }
    unpacker.defect(DefectKind::Truncated, "no trailer");
}

fn header(bytes: &[u8]) -> Option<Header> {
    let number = |range: std::ops::Range<usize>, radix: u32| {
        let digits = std::str::from_utf8(bytes.get(range)?).ok()?;
        u64::from_str_radix(digits, radix).ok()
    };
    let size = |n: u64| usize::try_from(n).ok();
    if bytes.starts_with(b"070701") || bytes.starts_with(b"070702") {
        return Some(Header {
            mode: number(14..22, 16)?,
            size: size(number(54..62, 16)?)?,
            name_bytes: size(number(94..102, 16)?)?,
            bytes: 110,
            align: 4,
        });
    }
    if bytes.starts_with(b"070707") {
        return Some(Header {
            mode: number(18..24, 8)?,
            name_bytes: size(number(59..65, 8)?)?,
            size: size(number(65..76, 8)?)?,
            bytes: 76,
            align: 1,
        });
    }
    let word: fn([u8; 2]) -> u16 = match bytes {
        [0xc7, 0x71, ..] => u16::from_le_bytes,
        [0x71, 0xc7, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let at = |i: usize| bytes.get(i..i + 2).map(|b| u64::from(word([b[0], b[1]])));
    Some(Header {
        mode: at(6)?,
        name_bytes: size(at(20)?)?,
        size: size(at(22)? << 16 | at(24)?)?,
        bytes: 26,
        align: 2,
    })
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    fn entry(name: &str, mode: u32, body: &[u8]) -> Vec<u8> {
        let mut out = format!(
            "070701{:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}",
            1, 0, 0, 1, 0, body.len(), 0, 0, 0, 0, name.len() + 1, 0
        )
        .into_bytes();
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn files_and_links() {
        let parts = [
            entry("a/b.txt", 0o100_644, b"hello"),
            entry("l", 0o120_777, b"/etc"),
            entry("TRAILER!!!", 0, b""),
        ];
        let whole = parts.concat();
        let tree = tree(&whole, "x.cpio");
        assert_eq!(paths(&tree), ["x.cpio", "x.cpio/a/b.txt"]);
        assert_eq!(tree.objects[0].properties[0].detail, "l -> /etc");
        assert!(tree.objects[0].defects.is_empty());
        nasty(&whole, "x.cpio");
    }
}
