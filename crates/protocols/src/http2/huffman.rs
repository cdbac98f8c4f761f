//! Huffman codes of HPACK (RFC 7541 appendix B).

use std::sync::OnceLock;

/// Bits of the code of each byte. The codes are canonical: in the order of lengths, then of bytes.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code.
const BITS_MAX: usize = 30;

/// For each length: the first code of it, and the bytes that have one.
struct Codes {
    lengths: Vec<(u32, Vec<u8>)>,
}

fn codes() -> &'static Codes {
    static CODES: OnceLock<Codes> = OnceLock::new();
    CODES.get_or_init(|| {
        let mut next = 0_u32;
        let lengths = (0..=BITS_MAX).map(|bits| {
            next <<= 1;
            let of = |byte: &u8| LENGTHS.get(usize::from(*byte)).copied().map(usize::from);
            let bytes: Vec<u8> = (0..=255).filter(|byte| of(byte) == Some(bits)).collect();
            let first = next;
            next += u32::try_from(bytes.len()).unwrap_or(0);
            (first, bytes)
        });
        Codes { lengths: lengths.collect() }
    })
}

/// Decodes; stops where no code fits (the padding at the end).
pub(super) fn decode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 8 / 5);
    let (mut code, mut bits) = (0_u32, 0);
    let all = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    for bit in all {
        code = code << 1 | u32::from(bit);
        bits += 1;
        let Some((first, list)) = codes().lengths.get(bits) else { break };
        let place = code.checked_sub(*first).and_then(|place| usize::try_from(place).ok());
        if let Some(byte) = place.and_then(|place| list.get(place)) {
            out.push(*byte);
            (code, bits) = (0, 0);
        }
    }
    out
}
