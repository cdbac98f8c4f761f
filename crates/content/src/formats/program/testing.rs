//! What the tests of programs share.

/// Where the code of [`program`] stands in memory.
pub(super) const CODE_AT: u32 = 0x0040_1000;
/// Bytes before the first section.
const HEADERS: usize = 0x200;

/// A Windows program of 32 bits whose one section begins with this code.
pub(super) fn program(code: &[u8], is_writable: bool) -> Vec<u8> {
    let mut out = vec![0; HEADERS];
    let size = code.len().next_multiple_of(0x200);
    let number = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
    out[..2].copy_from_slice(b"MZ");
    out[0x3c] = 0x40;
    out[0x40..0x48].copy_from_slice(b"PE\0\0\x4c\x01\x01\0");
    out[0x54..0x5a].copy_from_slice(&[0xe0, 0, 2, 1, 0x0b, 1]);
    for (at, value) in [
        (40, 0x1000),
        (52, 0x0040_0000),
        (56, 0x1000),
        (60, 0x200),
        (80, 0x1000 + size.next_multiple_of(0x1000)),
        (84, HEADERS),
        (116, 16),
    ] {
        out[0x40 + at..0x44 + at].copy_from_slice(&number(value));
    }
    let flags = if is_writable { 0xe000_0020 } else { 0x6000_0020 };
    for (at, value) in [(8, size), (12, 0x1000), (16, size), (20, HEADERS), (36, flags)] {
        out[0x138 + at..0x13c + at].copy_from_slice(&number(value));
    }
    out.extend_from_slice(code);
    out.resize(HEADERS + size, 0);
    out
}
