//! Randomness of the operating system, for all that must not be guessed: keys, salts, tokens,
//! nonces and names of new files.
//!
//! Numbers that a seed repeats are another thing: `gauntlet_engine::random`.

use std::io;
use std::path::Path;

use crate::error::StoreError;

/// So many random bytes.
///
/// # Errors
/// If the system provides no randomness.
pub fn array<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Random bytes whose count is known at run time.
pub(crate) fn bytes(count: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; count];
    let filled = getrandom::fill(&mut bytes).map_err(io::Error::other);
    filled.map_err(StoreError::io(Path::new("getrandom"), "read"))?;
    Ok(bytes)
}

/// Random characters of an unambiguous alphabet, five bits each.
pub(crate) fn text(characters: usize) -> Result<String, StoreError> {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes = bytes(characters)?;
    Ok(bytes.iter().map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect())
}
