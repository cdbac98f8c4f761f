//! The hash of keys. It is part of the format of files: it may never change without its version.

/// Odd constants with evenly spread bits: the fractions of the square roots of 2, 3 and 5.
const K1: u64 = 0x6a09_e667_f3bc_c909;
const K2: u64 = 0xbb67_ae85_84ca_a73b;
const K3: u64 = 0x3c6e_f372_fe94_f82b;

/// Both halves of a product, folded: every bit of the result depends on every bit of both.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The next eight bytes, or what is left of them.
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

fn hash(seed: u64, bytes: &[u8], change: fn(u64) -> u64) -> u64 {
    let mut state = seed ^ K1;
    let mut rest = bytes;
    while rest.len() > 8 {
        state = fold(state ^ change(word(rest)), K2);
        rest = rest.get(8..).unwrap_or_default();
    }
    // The end of the last eight bytes is what `word` would put together byte by byte.
    let last = match (bytes.last_chunk::<8>(), rest.len()) {
        (Some(chunk), left @ 1..8) => u64::from_le_bytes(*chunk) >> (64 - 8 * left),
        _ => word(rest),
    };
    let state = fold(state ^ change(last), K3);
    fold(state ^ bytes.len() as u64, K1)
}

/// Lower case of eight bytes at once: bit 5 is set in those from `A` to `Z`.
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let seven = word & (0x7f * EACH);
    // Bit 7 of a byte: it is at least `A`, and above `Z`.
    let at_least_a = seven + (0x80 - 0x41) * EACH;
    let above_z = seven + (0x80 - 0x5b) * EACH;
    let is_upper = at_least_a & !above_z & !word & (0x80 * EACH);
    word | is_upper >> 2
}

/// Of a host.
pub(crate) fn host_hash(seed: u64, host: &[u8]) -> u64 {
    hash(seed, host, |word| word)
}

/// Of the beginning of a path under a host, by the host's hash. Both cases are equal.
pub(crate) fn path_hash(host: u64, path: &[u8]) -> u64 {
    hash(host ^ K3, path, lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_case_is_that_of_ascii() {
        for byte in 0..=255_u8 {
            let word = u64::from_le_bytes([byte, b'Z', byte, b'[', b'@', byte, b'z', b'A']);
            let expected = word.to_le_bytes().map(|b| b.to_ascii_lowercase());
            assert_eq!(lower(word).to_le_bytes(), expected, "{byte}");
        }
    }

    /// What is in files must be found by every later build.
    #[test]
    fn hashes_never_change() {
        assert_eq!(host_hash(1, b"example.com"), path_hash(1 ^ K3, b"example.com"));
        assert_eq!(path_hash(7, b"/Index.HTML?A=B"), path_hash(7, b"/index.html?a=b"));
        assert_eq!(
            [host_hash(0, b""), host_hash(0, b"a"), host_hash(1, b"www.example.com")],
            [7_955_121_672_336_467_469, 14_380_765_734_011_457_231, 8_691_494_935_864_202_219]
        );
    }

    #[test]
    fn the_end_is_read_as_byte_by_byte() {
        let text = b"abcdefghijklmnopqrstuvwxyz.example";
        for end in 0..=text.len() {
            let bytes = &text[..end];
            let (mut state, mut rest) = (7 ^ K1, bytes);
            while rest.len() > 8 {
                state = fold(state ^ word(rest), K2);
                rest = &rest[8..];
            }
            let expected = fold(fold(state ^ word(rest), K3) ^ end as u64, K1);
            assert_eq!(host_hash(7, bytes), expected, "{end}");
        }
    }

    #[test]
    fn hashes_are_spread() {
        let mut buckets = [0_u32; 256];
        for n in 0..25_600 {
            let hash = host_hash(3, format!("{n}.example").as_bytes());
            buckets[(hash >> 56) as usize] += 1;
        }
        assert!(buckets.iter().all(|&count| (50..160).contains(&count)), "{buckets:?}");
    }
}
