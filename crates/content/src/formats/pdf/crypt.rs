//! The standard security handler (ISO 32000-2 section 7.6): RC4 of 40 to 128 bits, AES of 128 and
//! 256 bits, with the user's or the owner's password.

use aes::Block;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use md5::{Digest, Md5};
use ring::digest::{SHA256, SHA384, SHA512, digest};

use super::value::{Dict, Value};
use crate::formats::rc4::rc4;

/// What a short password is filled up with (algorithm 2).
const PADDING: [u8; 32] = [
    0x28, 0xbf, 0x4e, 0x5e, 0x4e, 0x75, 0x8a, 0x41, 0x64, 0x00, 0x4e, 0x56, 0xff, 0xfa, 0x01, 0x08,
    0x2e, 0x2e, 0x00, 0xb6, 0xd0, 0x68, 0x3e, 0x80, 0x2f, 0x0c, 0xa9, 0xfe, 0x64, 0x53, 0x69, 0x7a,
];
/// Bytes of a password that revision 6 looks at.
const PASSWORD_BYTES_MAX: usize = 127;
/// Rounds of algorithm 2.B; chance ends it long before.
const ROUNDS_MAX: usize = 1_024;

/// A method of encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    None,
    Rc4,
    Aes128,
    Aes256,
}

/// What the encryption dictionary says.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    revision: usize,
    key_bytes: usize,
    owner: Vec<u8>,
    user: Vec<u8>,
    owner_key: Vec<u8>,
    user_key: Vec<u8>,
    permissions: u32,
    metadata: bool,
    id: Vec<u8>,
    strings: Method,
    streams: Method,
}

/// The key of a document.
#[derive(Debug, Clone)]
pub(super) struct Key {
    bytes: Vec<u8>,
    strings: Method,
    streams: Method,
    /// Whether metadata streams are encrypted.
    pub(super) metadata: bool,
}

impl Handler {
    /// Reads the dictionary; none if another handler is required. `id` is the first of the
    /// trailer's.
    pub(super) fn new(dict: &Dict, id: &[u8]) -> Option<Handler> {
        if dict.get("Filter").and_then(Value::name).is_some_and(|name| name != b"Standard") {
            return None;
        }
        let number = |key: &str| dict.get(key).and_then(Value::integer);
        let text = |key: &str| dict.get(key).and_then(Value::text).unwrap_or_default().to_vec();
        let version = number("V").unwrap_or(0);
        let revision = number("R").unwrap_or(2);
        // The permissions are a signed number of 32 bits that some write without a sign.
        let permissions = match dict.get("P") {
            Some(Value::Number(n)) => (*n as i64 & 0xffff_ffff) as u32,
            _ => 0,
        };
        let method = |key: &str| match version {
            0..=3 => Method::Rc4,
            _ => crypt_filter(dict, key),
        };
        let bits = match number("Length") {
            _ if version == 1 => 40,
            Some(bytes @ 5..=16) => bytes * 8,
            Some(bits) => bits,
            None if version >= 4 => 128,
            None => 40,
        };
        let handler = Handler {
            revision,
            key_bytes: if version >= 4 { 16 } else { (bits / 8).clamp(5, 16) },
            owner: text("O"),
            user: text("U"),
            owner_key: text("OE"),
            user_key: text("UE"),
            permissions,
            metadata: dict.get("EncryptMetadata") != Some(&Value::Bool(false)),
            id: id.to_vec(),
            strings: method("StrF"),
            streams: method("StmF"),
        };
        (matches!(revision, 2..=6) && handler.user.len() >= 32 && handler.owner.len() >= 32)
            .then_some(handler)
    }

    /// The key that a password gives; none if it is wrong.
    pub(super) fn open(&self, password: &str) -> Option<Key> {
        let bytes = if self.revision >= 5 {
            self.open_256(password.as_bytes())?
        } else {
            // Passwords of old revisions are in PDFDocEncoding, Latin-1 for most letters.
            let latin: Vec<u8> =
                password.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
            self.open_user(&latin).or_else(|| self.open_owner(&latin))?
        };
        let Handler { strings, streams, metadata, .. } = *self;
        Some(Key { bytes, strings, streams, metadata })
    }

    /// Algorithms 2, 4, 5 and 6.
    fn open_user(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut hash = Md5::new();
        hash.update(padded(password));
        hash.update(&self.owner[..32]);
        hash.update(self.permissions.to_le_bytes());
        hash.update(&self.id);
        if self.revision >= 4 && !self.metadata {
            hash.update([0xff; 4]);
        }
        let mut key = hash.finalize().to_vec();
        let length = if self.revision == 2 { 5 } else { self.key_bytes };
        if self.revision >= 3 {
            for _ in 0..50 {
                key = Md5::digest(&key[..length]).to_vec();
            }
        }
        key.truncate(length);
        let right = if self.revision == 2 {
            rc4(&key, &PADDING) == self.user[..32]
        } else {
            let mut hash = Md5::new();
            hash.update(PADDING);
            hash.update(&self.id);
            let mut sum = hash.finalize().to_vec();
            for round in 0..20 {
                sum = rc4(&xored(&key, round), &sum);
            }
            sum == self.user[..16]
        };
        right.then_some(key)
    }

    /// Algorithm 7: the owner's password opens the user's.
    fn open_owner(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut key = Md5::digest(padded(password)).to_vec();
        let length = if self.revision == 2 { 5 } else { self.key_bytes };
        let mut user = self.owner[..32].to_vec();
        if self.revision >= 3 {
            for _ in 0..50 {
                key = Md5::digest(&key).to_vec();
            }
            for round in (0..20).rev() {
                user = rc4(&xored(&key[..length], round), &user);
            }
        } else {
            user = rc4(&key[..length], &user);
        }
        self.open_user(&user)
    }

    /// Algorithm 2.A: revisions 5 and 6.
    fn open_256(&self, password: &[u8]) -> Option<Vec<u8>> {
        let password = &password[..password.len().min(PASSWORD_BYTES_MAX)];
        let (user, owner) = (self.user.get(..48)?, self.owner.get(..48)?);
        let hash = |salt: &[u8], more: &[u8]| {
            if self.revision == 5 {
                digest(&SHA256, &[password, salt, more].concat()).as_ref().to_vec()
            } else {
                hash_2b(password, salt, more)
            }
        };
        let (key, wrapped) = if hash(&user[32..40], &[]) == user[..32] {
            (hash(&user[40..48], &[]), &self.user_key)
        } else if hash(&owner[32..40], user) == owner[..32] {
            (hash(&owner[40..48], user), &self.owner_key)
        } else {
            return None;
        };
        cbc_decrypt(&key, &[0; 16], wrapped.get(..32)?)
    }
}

/// The method of a crypt filter that a version 4 or 5 dictionary names.
fn crypt_filter(dict: &Dict, key: &str) -> Method {
    let name = dict.get(key).and_then(Value::name).unwrap_or(b"Identity");
    let filter = std::str::from_utf8(name)
        .ok()
        .and_then(|name| dict.get("CF")?.dict()?.get(name)?.dict())
        .and_then(|filter| filter.get("CFM"))
        .and_then(Value::name);
    match filter {
        Some(b"V2") => Method::Rc4,
        Some(b"AESV2") => Method::Aes128,
        Some(b"AESV3") => Method::Aes256,
        _ => Method::None,
    }
}

impl Key {
    /// A string of an object, decrypted.
    pub(super) fn string(&self, number: u32, generation: u32, data: &[u8]) -> Vec<u8> {
        self.decrypt(self.strings, number, generation, data)
    }

    pub(super) fn stream(&self, number: u32, generation: u32, data: &[u8]) -> Vec<u8> {
        self.decrypt(self.streams, number, generation, data)
    }

    /// Algorithms 1 and 1.A.
    fn decrypt(&self, method: Method, number: u32, generation: u32, data: &[u8]) -> Vec<u8> {
        let of_object = |salt: &[u8]| {
            let mut hash = Md5::new();
            hash.update(&self.bytes);
            hash.update(&number.to_le_bytes()[..3]);
            hash.update(&generation.to_le_bytes()[..2]);
            hash.update(salt);
            let mut key = hash.finalize().to_vec();
            key.truncate((self.bytes.len() + 5).min(16));
            key
        };
        let key = match method {
            Method::None => return data.to_vec(),
            Method::Rc4 => return rc4(&of_object(&[]), data),
            Method::Aes128 => of_object(b"sAlT"),
            Method::Aes256 => self.bytes.clone(),
        };
        let Some((start, data)) = data.split_first_chunk::<16>() else { return Vec::new() };
        let whole = data.len() / 16 * 16;
        let mut plain = cbc_decrypt(&key, start, &data[..whole]).unwrap_or_default();
        // Padding that is none is kept: readers do not mind.
        if let Some(&count @ 1..=16) = plain.last() {
            plain.truncate(plain.len() - usize::from(count));
        }
        plain
    }
}

fn padded(password: &[u8]) -> Vec<u8> {
    password.iter().chain(&PADDING).copied().take(32).collect()
}

fn xored(key: &[u8], with: u8) -> Vec<u8> {
    key.iter().map(|b| b ^ with).collect()
}

/// AES in CBC mode without padding; none if the key has neither 16 nor 32 bytes.
fn cbc_decrypt(key: &[u8], start: &[u8; 16], data: &[u8]) -> Option<Vec<u8>> {
    enum Cipher {
        Short(Box<aes::Aes128>),
        Long(Box<aes::Aes256>),
    }
    let cipher = match key.len() {
        16 => Cipher::Short(Box::new(aes::Aes128::new_from_slice(key).ok()?)),
        32 => Cipher::Long(Box::new(aes::Aes256::new_from_slice(key).ok()?)),
        _ => return None,
    };
    let mut out = Vec::with_capacity(data.len());
    let mut previous = *start;
    for chunk in data.as_chunks::<16>().0 {
        let mut block = Block::from(*chunk);
        match &cipher {
            Cipher::Short(cipher) => cipher.decrypt_block(&mut block),
            Cipher::Long(cipher) => cipher.decrypt_block(&mut block),
        }
        out.extend(block.iter().zip(previous).map(|(b, p)| b ^ p));
        previous = *chunk;
    }
    Some(out)
}

fn cbc_encrypt(key: &[u8; 16], start: &[u8; 16], data: &mut [u8]) {
    let cipher = aes::Aes128::new(&Block::from(*key));
    let mut previous = *start;
    for chunk in data.as_chunks_mut::<16>().0 {
        let mut block = Block::from(*chunk);
        block.iter_mut().zip(previous).for_each(|(b, p)| *b ^= p);
        cipher.encrypt_block(&mut block);
        chunk.copy_from_slice(&block);
        previous = *chunk;
    }
}

/// Hash of a password for revision 6 (algorithm 2.B).
fn hash_2b(password: &[u8], salt: &[u8], more: &[u8]) -> Vec<u8> {
    let mut key = digest(&SHA256, &[password, salt, more].concat()).as_ref().to_vec();
    for round in 0..ROUNDS_MAX {
        let mut data = [password, &key, more].concat().repeat(64);
        let (Some(cipher), Some(start)) = (key.first_chunk::<16>(), key[16..].first_chunk::<16>())
        else {
            break;
        };
        cbc_encrypt(cipher, start, &mut data);
        let sum: u32 = data.iter().take(16).map(|&b| u32::from(b)).sum();
        let method = [&SHA256, &SHA384, &SHA512][(sum % 3) as usize];
        key = digest(method, &data).as_ref().to_vec();
        let last = usize::from(data.last().copied().unwrap_or(0));
        // `round + 1` rounds are done.
        if round >= 63 && last + 32 <= round + 1 {
            break;
        }
    }
    key.truncate(32);
    key
}

#[cfg(test)]
impl Key {
    /// Encrypts for tests: RC4 is its own inverse.
    pub(super) fn for_tests(bytes: Vec<u8>) -> Key {
        Key { bytes, strings: Method::Rc4, streams: Method::Rc4, metadata: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AES of 256 bits in CBC mode, the other direction of what is under test.
    fn cbc_encrypt_256(key: &[u8], start: [u8; 16], data: &[u8]) -> Vec<u8> {
        let cipher = aes::Aes256::new_from_slice(key).unwrap();
        let mut previous = start;
        let mut out = Vec::new();
        for chunk in data.as_chunks::<16>().0 {
            let mut block = Block::from(*chunk);
            block.iter_mut().zip(previous).for_each(|(b, p)| *b ^= p);
            cipher.encrypt_block(&mut block);
            previous.copy_from_slice(&block);
            out.extend_from_slice(&block);
        }
        out
    }

    #[test]
    fn revision_6_opens_with_its_password() {
        let key = [0x42; 32];
        let salted = |salt: &[u8]| hash_2b(b"word", salt, &[]);
        let user = [salted(b"validate"), b"validate".to_vec(), b"key salt".to_vec()].concat();
        let wrapped = cbc_encrypt_256(&salted(b"key salt"), [0; 16], &key);
        let handler = Handler {
            revision: 6,
            key_bytes: 32,
            owner: vec![0; 48],
            user,
            owner_key: vec![0; 32],
            user_key: wrapped,
            permissions: 0,
            metadata: true,
            id: Vec::new(),
            strings: Method::Aes256,
            streams: Method::Aes256,
        };
        assert!(handler.open("").is_none() && handler.open("other").is_none());
        let opened = handler.open("word").unwrap();
        let padded = [b"hidden text".as_slice(), &[5; 5]].concat();
        let secret = [[7; 16].to_vec(), cbc_encrypt_256(&key, [7; 16], &padded)].concat();
        assert_eq!(opened.string(1, 0, &secret), b"hidden text");
        assert_eq!(opened.stream(1, 0, &secret[..20]), b"");
    }
}
