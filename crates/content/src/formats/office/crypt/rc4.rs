//! RC4 as Word and Excel of 97 to 2003 use it: keys of 40 bits by MD5 (MS-OFFCRYPTO section 2.3.6),
//! or by SHA-1 and of up to 128 bits (RC4 CryptoAPI, section 2.3.5). Blocks have keys of their own.

use md5::{Digest, Md5};
use ring::digest::SHA1_FOR_LEGACY_USE_ONLY as SHA1;

use super::{cipher, utf16};
use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::formats::rc4::rc4;

/// What a document says about its encryption.
pub(in crate::formats::office) struct Rc4Info {
    salt: Vec<u8>,
    input: Vec<u8>,
    hash: Vec<u8>,
    /// Bytes of a key of the newer kind; none for the older one.
    key_bytes: Option<usize>,
}

/// The keys of a password.
pub(in crate::formats::office) struct Keys {
    base: Vec<u8>,
    key_bytes: Option<usize>,
}

impl Rc4Info {
    /// Reads the header, from its version on; none if it is another scheme.
    pub(in crate::formats::office) fn read(header: &[u8]) -> Option<Self> {
        match (u16_at(header, 0)?, u16_at(header, 2)?) {
            (1, 1) => Some(Rc4Info {
                salt: slice(header, 4, 16).to_vec(),
                input: slice(header, 20, 16).to_vec(),
                hash: header.get(36..52)?.to_vec(),
                key_bytes: None,
            }),
            (2..=4, 2) => {
                let size = u32_at(header, 8)? as usize;
                let bits = u32_at(header, 12 + 16)?;
                let verifier = header.get(12..)?.get(size..)?;
                // No bits are said for 40.
                let bits = if bits == 0 { 40 } else { bits };
                Some(Rc4Info {
                    salt: slice(verifier, 4, 16).to_vec(),
                    input: slice(verifier, 20, 16).to_vec(),
                    hash: verifier.get(40..60)?.to_vec(),
                    key_bytes: Some((bits as usize / 8).clamp(5, 16)),
                })
            }
            _ => None,
        }
    }

    /// The keys, if the password is right.
    pub(in crate::formats::office) fn keys(&self, word: &str) -> Option<Keys> {
        let keys = match self.key_bytes {
            Some(_) => {
                let base = cipher::hash(&SHA1, &[&self.salt, &utf16(word)]);
                Keys { base, key_bytes: self.key_bytes }
            }
            None => {
                let first = Md5::digest(utf16(word));
                let again = [&first[..5], &self.salt].concat().repeat(16);
                Keys { base: Md5::digest(again)[..5].to_vec(), key_bytes: None }
            }
        };
        // Input and hash are one stream.
        let plain = rc4(&keys.key(0), &[&self.input[..], &self.hash].concat());
        let (input, stored) = plain.split_at(self.input.len());
        let is_right = match self.key_bytes {
            Some(_) => cipher::hash(&SHA1, &[input]) == stored,
            None => Md5::digest(input)[..] == *stored,
        };
        is_right.then_some(keys)
    }
}

impl Keys {
    fn key(&self, block: u32) -> Vec<u8> {
        match self.key_bytes {
            Some(bytes) => {
                let mut key = cipher::hash(&SHA1, &[&self.base, &block.to_le_bytes()]);
                key.truncate(bytes);
                // Keys of 40 bits are filled up.
                if bytes == 5 {
                    key.resize(16, 0);
                }
                key
            }
            None => Md5::digest([&self.base[..], &block.to_le_bytes()].concat()).to_vec(),
        }
    }

    /// A stream whose every `block_bytes` have a key of their own.
    pub(in crate::formats::office) fn apply(&self, data: &[u8], block_bytes: usize) -> Vec<u8> {
        let blocks = (0u32..).zip(data.chunks(block_bytes));
        blocks.flat_map(|(number, block)| rc4(&self.key(number), block)).collect()
    }
}

/// Bytes behind a password shorter than 16 (MS-OFFCRYPTO section 2.3.7.2).
const PADDING: [u8; 15] =
    [0xbb, 0xff, 0xff, 0xba, 0xff, 0xff, 0xb9, 0x80, 0, 0xbe, 0x0f, 0, 0xbf, 0x0f, 0];

/// The 16 bytes of Excel's oldest scheme, if the password has this verifier.
pub(in crate::formats::office) fn xor_array(
    word: &str,
    key: u16,
    verifier: u16,
) -> Option<[u8; 16]> {
    let (word, _, _) = encoding_rs::WINDOWS_1252.encode(word);
    if word.is_empty() || word.len() > PADDING.len() {
        return None;
    }
    let turned = |sum: u16| (sum & 0x3fff) << 1 | (sum >> 14 & 1);
    let sum = word.iter().rev().fold(0, |sum, &b| turned(sum ^ u16::from(b)));
    if sum ^ word.len() as u16 ^ 0xce4b != verifier {
        return None;
    }
    let all = word.iter().chain(&PADDING);
    let mut array = [0; 16];
    for ((place, byte), key) in array.iter_mut().zip(all).zip(key.to_le_bytes().iter().cycle()) {
        *place = (byte ^ key).rotate_right(1);
    }
    Some(array)
}
