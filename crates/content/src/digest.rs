//! Hashes by which files are known.

use md5::{Digest, Md5};

/// Hexadecimal digits of a SHA-256.
pub(crate) const SHA256_DIGITS: usize = 64;
/// Hexadecimal digits of an MD5.
pub(crate) const MD5_DIGITS: usize = 32;

/// SHA-256 and MD5 of the bytes, in hexadecimal digits.
pub(crate) fn of(bytes: &[u8]) -> (String, String) {
    let sha256 = ring::digest::digest(&ring::digest::SHA256, bytes);
    (hex(sha256.as_ref()), hex(&Md5::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|&b| [digit(b >> 4), digit(b)]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_hashes() {
        let (sha256, md5) = super::of(b"abc");
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(md5, "900150983cd24fb0d6963f7d28e17f72");
    }
}
