//! tar (POSIX.1-1988 ustar, pax of POSIX.1-2001, and GNU's long names).

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

const BLOCK_BYTES: usize = 512;
/// Bytes of an extended header or long name that are read.
const EXTENDED_BYTES_MAX: usize = 1 << 20;

/// Adds every file of the archive.
pub(crate) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut at = 0;
    let mut long_name: Option<Vec<u8>> = None;
    let mut long_size: Option<u64> = None;
    while let Some(header) = bytes.get(at..at + BLOCK_BYTES) {
        at += BLOCK_BYTES;
        if header.iter().all(|&b| b == 0) {
            // Two blocks of zeros end an archive; readers may be set to go on behind them.
            continue;
        }
        if !is_header(header) {
            unpacker.defect(DefectKind::Corrupt, "a header's checksum is wrong");
            return;
        }
        if unpacker.is_over() {
            return;
        }
        let kind = header[156];
        let size = long_size.take().unwrap_or_else(|| number(&header[124..136]));
        let has_bytes = !matches!(kind, b'1' | b'2' | b'3' | b'4' | b'5' | b'6');
        let stored = if has_bytes { usize::try_from(size).unwrap_or(usize::MAX) } else { 0 };
        let end = at.saturating_add(stored).min(bytes.len());
        let body = &bytes[at..end];
        if body.len() < stored {
            unpacker.defect(DefectKind::Truncated, "");
        }
        at = at.saturating_add(stored.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES));
        let extended = &body[..body.len().min(EXTENDED_BYTES_MAX)];
        match kind {
            b'L' => long_name = Some(up_to_nul(extended).to_vec()),
            b'K' => {}
            b'x' => {
                let (path, size) = pax(extended);
                long_name = path.or(long_name);
                long_size = size;
            }
            b'g' | b'V' | b'M' => {}
            _ => {
                let name = long_name.take().unwrap_or_else(|| own_name(header));
                entry(kind, &text::file_name(&name), header, body, unpacker);
            }
        }
    }
}

fn entry(kind: u8, name: &str, header: &[u8], body: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        b'1' | b'2' => {
            let target = text::file_name(up_to_nul(&header[157..257]));
            unpacker.property(PropertyKind::Link, &format!("{name} -> {target}"));
        }
        b'5' => {}
        b'3' | b'4' | b'6' => unpacker.property(PropertyKind::Link, &format!("{name} (device)")),
        _ if name.ends_with('/') && body.is_empty() => {}
        _ => unpacker.child(Child::named(name), body),
    }
}

/// Whether the checksum is right, in the sum of signed or unsigned bytes that old programs write.
fn is_header(header: &[u8]) -> bool {
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(i, &b)| if (148..156).contains(&i) { 32 } else { u64::from(b) })
        .sum();
    let high = header.iter().enumerate();
    let high = high.filter(|(i, b)| **b >= 128 && !(148..156).contains(i)).count() as u64;
    let stored = number(&header[148..156]);
    stored == sum || stored == sum.wrapping_sub(256 * high)
}

/// Octal digits, or a number in base 256 (GNU).
fn number(field: &[u8]) -> u64 {
    if field.first().is_some_and(|b| b & 0x80 != 0) {
        let low = field.iter().rev().take(8).rev();
        return low.fold(0, |n: u64, &b| n << 8 | u64::from(b)) & (u64::MAX >> 1);
    }
    let digits =
        field.iter().skip_while(|b| **b == b' ').take_while(|b| (b'0'..=b'7').contains(*b));
    digits.fold(0u64, |n, &b| n.saturating_mul(8).saturating_add(u64::from(b - b'0')))
}

/// The name in the header, with ustar's prefix.
fn own_name(header: &[u8]) -> Vec<u8> {
    let name = up_to_nul(&header[..100]);
    let prefix = up_to_nul(&header[345..500]);
    match header[257..].starts_with(b"ustar\0") && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

fn up_to_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

/// Path and size of a pax header: records `LENGTH KEY=VALUE\n`.
fn pax(mut records: &[u8]) -> (Option<Vec<u8>>, Option<u64>) {
    let (mut path, mut size) = (None, None);
    while let Some(blank) = records.iter().take(20).position(|&b| b == b' ') {
        let length =
            std::str::from_utf8(&records[..blank]).ok().and_then(|t| t.parse::<usize>().ok());
        let Some(length) = length.filter(|&l| l > blank + 1 && l <= records.len()) else { break };
        let record = records[blank + 1..length].strip_suffix(b"\n").unwrap_or_default();
        if let Some(value) = record.strip_prefix(b"path=") {
            path = Some(value.to_vec());
        }
        if let Some(value) = record.strip_prefix(b"size=") {
            size = std::str::from_utf8(value).ok().and_then(|t| t.parse().ok());
        }
        records = &records[length..];
    }
    (path, size)
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{paths, tree};

    /// One entry of a tar archive.
    fn entry(name: &str, kind: u8, body: &[u8]) -> Vec<u8> {
        let mut header = vec![0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..136].copy_from_slice(format!("{:011o}\0", body.len()).as_bytes());
        header[156] = kind;
        header[257..263].copy_from_slice(b"ustar\0");
        header[148..156].fill(b' ');
        let sum: u64 = header.iter().map(|&b| u64::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header.extend_from_slice(body);
        header.resize(header.len().next_multiple_of(512), 0);
        header
    }

    #[test]
    fn names_of_every_kind() {
        let long = "d/".repeat(80) + "file";
        let record = format!("{} path=über/x.txt\n", 18);
        let parts = [
            entry("plain.txt", b'0', b"hello"),
            entry("folder/", b'5', b""),
            entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
            entry("cut", b'0', b"x"),
            entry("pax", b'x', record.as_bytes()),
            entry("short", b'0', b"y"),
            entry("../../etc/passwd", b'0', b"z"),
            vec![0; 1024],
        ];
        let tree = tree(&parts.concat(), "a.tar");
        let long = format!("a.tar/{long}");
        let found = paths(&tree);
        assert_eq!(found[1], "a.tar/plain.txt");
        assert_eq!(found[2], long);
        assert_eq!(found[4], "a.tar/../../etc/passwd");
        assert_eq!(found.len(), 5);
        assert!(tree.objects[4].has(crate::PropertyKind::PathTraversal));
    }

    #[test]
    fn cut_and_changed() {
        let whole = [entry("a", b'0', b"hello"), entry("b", b'0', b"hello")].concat();
        crate::formats::testing::nasty(&whole, "a.tar");
    }
}
