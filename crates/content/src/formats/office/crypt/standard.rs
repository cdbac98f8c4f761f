//! Standard encryption (MS-OFFCRYPTO section 2.3.4.5 to 2.3.4.9): AES and SHA-1.

use ring::digest::SHA1_FOR_LEGACY_USE_ONLY as SHA1;

use super::{cipher, utf16};
use crate::formats::numbers::{slice, u32_at};

const ROUNDS: u32 = 50_000;
const AES_128: u32 = 0x660e;
const AES_256: u32 = 0x6610;

pub(super) struct Standard {
    salt: Vec<u8>,
    input: Vec<u8>,
    hash: Vec<u8>,
    key_bytes: usize,
}

impl Standard {
    /// Reads the header and the verifier behind it; none if it is not AES.
    pub(super) fn read(info: &[u8]) -> Option<Self> {
        let header_bytes = u32_at(info, 8)? as usize;
        let header = info.get(12..)?;
        let algorithm = u32_at(header, 8)?;
        let key_bytes = u32_at(header, 16)? as usize / 8;
        let verifier = header.get(header_bytes..)?;
        let is_usual =
            (AES_128..=AES_256).contains(&algorithm) && matches!(key_bytes, 16 | 24 | 32);
        let hash = slice(verifier, 40, 32);
        (is_usual && hash.len() == 32).then(|| Standard {
            salt: slice(verifier, 4, 16).to_vec(),
            input: slice(verifier, 20, 16).to_vec(),
            hash: hash.to_vec(),
            key_bytes,
        })
    }

    /// The key, if the password is right.
    pub(super) fn key(&self, word: &str) -> Option<Vec<u8>> {
        let spun = cipher::spun(&SHA1, &self.salt, &utf16(word), ROUNDS);
        let last = cipher::hash(&SHA1, &[&spun, &[0; 4]]);
        let half = |filler: u8| {
            let mut block = [filler; 64];
            block.iter_mut().zip(&last).for_each(|(b, h)| *b ^= h);
            cipher::hash(&SHA1, &[&block])
        };
        let mut key = [half(0x36), half(0x5c)].concat();
        key.truncate(self.key_bytes);
        let right = cipher::hash(&SHA1, &[&cipher::ecb(&key, &self.input)]);
        cipher::ecb(&key, &self.hash).starts_with(&right).then_some(key)
    }
}
