//! One file in an encrypted ZIP, so that a person can carry a dangerous file to whoever looks at it
//! without a program opening it on the way: AES-256 as WinZip does it (AE-2), not compressed.

use std::num::NonZeroU32;

use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes256, Block};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hmac, pbkdf2};

const KEY_BYTES: usize = 32;
/// Half of the key (AE-2 specification, section II.B).
const SALT_BYTES: usize = 16;
const VERIFIER_BYTES: usize = 2;
/// Bytes of the message authentication code behind the data.
const CODE_BYTES: usize = 10;
/// Rounds by which a key is made of a password.
const ROUNDS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// Encrypted, and its name is UTF-8.
const FLAGS: u16 = 1 | 1 << 11;
/// Encrypted by AES; the real method is in the extra field.
const AES_METHOD: u16 = 99;
/// Version needed to extract: 5.1.
const VERSION: u16 = 51;
/// 1 January 1980 in the form of MS-DOS.
const DATE: u16 = 0x21;
/// Extra field: AE-2, AES-256, stored.
const EXTRA: [u8; 11] = [0x01, 0x99, 7, 0, 2, 0, b'A', b'E', 3, 0, 0];

/// Why there is no archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// It does not fit into a ZIP.
    #[error("the file or its name is too long for a ZIP")]
    TooLarge,
}

/// A ZIP of one encrypted file.
///
/// # Errors
/// [`SealError`].
pub fn seal(name: &str, file: &[u8], password: &str) -> Result<Vec<u8>, SealError> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).map_err(|_| SealError::NoRandomness)?;
    let data = encrypted(file, password, salt);
    let too_large = |_| SealError::TooLarge;
    let packed = u32::try_from(data.len()).map_err(too_large)?.to_le_bytes();
    let size = u32::try_from(file.len()).map_err(too_large)?.to_le_bytes();
    let length = u16::try_from(name.len()).map_err(too_large)?.to_le_bytes();
    let mut common = Vec::new();
    for field in [VERSION, FLAGS, AES_METHOD, 0, DATE] {
        common.extend_from_slice(&field.to_le_bytes());
    }
    // No checksum: the code behind the data says more.
    let extra_length = [EXTRA.len().to_le_bytes()[0], 0];
    common.extend_from_slice(&[&[0; 4][..], &packed, &size, &length, &extra_length].concat());
    let mut out = [b"PK\x03\x04", &common[..], name.as_bytes(), &EXTRA, &data].concat();
    let at = u32::try_from(out.len()).map_err(too_large)?.to_le_bytes();
    let version = VERSION.to_le_bytes();
    // No comment, first disk, no attributes, at the beginning.
    let entry = [b"PK\x01\x02", &version[..], &common, &[0; 14], name.as_bytes(), &EXTRA].concat();
    let entry_length = u32::try_from(entry.len()).map_err(too_large)?.to_le_bytes();
    out.extend_from_slice(&entry);
    let end = [b"PK\x05\x06\0\0\0\0", &[1, 0, 1, 0][..], &entry_length, &at, &[0, 0]].concat();
    out.extend_from_slice(&end);
    Ok(out)
}

/// Salt, verifier, encrypted bytes, code.
fn encrypted(file: &[u8], password: &str, salt: [u8; SALT_BYTES]) -> Vec<u8> {
    let mut keys = [0; 2 * KEY_BYTES + VERIFIER_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, ROUNDS, &salt, password.as_bytes(), &mut keys);
    let (key, rest) = keys.split_at(KEY_BYTES);
    let (code_key, verifier) = rest.split_at(KEY_BYTES);
    let cipher = Aes256::new(key.into());
    let mut data = file.to_vec();
    // Counter mode with a little-endian counter that begins with one.
    for (chunk, counter) in data.chunks_mut(16).zip(1u128..) {
        let mut block = Block::from(counter.to_le_bytes());
        cipher.encrypt_block(&mut block);
        chunk.iter_mut().zip(block).for_each(|(byte, mask)| *byte ^= mask);
    }
    let code_key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, code_key);
    let code = hmac::sign(&code_key, &data);
    [&salt[..], verifier, &data, &code.as_ref()[..CODE_BYTES]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{paths, tree, tree_with};
    use crate::{DefectKind, PropertyKind};

    #[test]
    fn an_archive_opens_with_its_password_alone() {
        let file = b"a file that nobody should open by accident".repeat(3);
        let sealed = seal("r\u{e4}n.exe", &file, "infected").unwrap();
        let opened = tree_with(&sealed, "a.zip", &["wrong", "infected"]);
        assert_eq!(paths(&opened), ["a.zip", "a.zip/r\u{e4}n.exe"]);
        assert_eq!(opened.objects[1].size, file.len() as u64);
        let named = opened.objects[1].sha256.clone();
        assert_eq!(named, tree(&file, "x").objects[0].sha256);
        assert!(opened.objects[0].has(PropertyKind::PasswordFound));
        let closed = tree(&sealed, "a.zip");
        let defects = closed.objects.iter().flat_map(|o| &o.defects);
        assert!(defects.into_iter().any(|d| d.kind == DefectKind::Encrypted));
        assert_ne!(sealed, seal("r\u{e4}n.exe", &file, "infected").unwrap(), "salted");
    }
}
