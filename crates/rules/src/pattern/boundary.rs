//! How the strings that the prefilter looks for write a word boundary.

/// A word boundary (`\b`) in a string. No string has this byte otherwise, for strings are in lower
/// case.
pub(crate) const BOUNDARY: u8 = b'B';

/// The bytes of a string, without word boundaries.
pub(crate) fn bytes_of(string: &[u8]) -> Vec<u8> {
    string.iter().copied().filter(|byte| *byte != BOUNDARY).collect()
}
