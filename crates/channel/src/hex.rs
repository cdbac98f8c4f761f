//! Bytes as lower-case hexadecimal digits, as The Update Framework writes hashes and keys.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use gauntlet_store::files::open_regular;
use ring::digest::{Context, SHA256};

use crate::error::Error;

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 17;

/// The digits.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut all, byte| {
        // Writing to a String cannot fail.
        let _written = write!(all, "{byte:02x}");
        all
    })
}

/// The bytes; none if anything else stands there, or half a byte.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.bytes().map(|b| char::from(b).to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The SHA-256 of bytes in digits.
pub fn sha256(bytes: &[u8]) -> String {
    encode(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Length and SHA-256 of a file, read in pieces.
///
/// # Errors
/// The system's; it is no regular file.
pub fn sha256_of_file(path: &Path) -> Result<(u64, String), Error> {
    let mut file = open_regular(path).map_err(Error::io(path))?;
    let (mut length, mut hash) = (0, Context::new(&SHA256));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk).map_err(Error::io(path))?;
        if count == 0 {
            return Ok((length, encode(hash.finish().as_ref())));
        }
        hash.update(&chunk[..count]);
        length += count as u64;
    }
}

/// Whether this is a SHA-256 in lower-case digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
