//! Random tokens and bytes from the operating system.

use std::path::Path;

use crate::error::StoreError;

/// Random characters of an unambiguous alphabet, five bits each.
pub(super) fn random_text(characters: usize) -> Result<String, StoreError> {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bytes = random_bytes(characters)?;
    Ok(bytes.iter().map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect())
}

/// Bytes of the system's random number generator.
pub(super) fn random_bytes(count: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; count];
    let filled = getrandom::fill(&mut bytes);
    let error = |e: getrandom::Error| std::io::Error::other(e.to_string());
    filled.map_err(error).map_err(StoreError::io(Path::new("getrandom"), "read"))?;
    Ok(bytes)
}
