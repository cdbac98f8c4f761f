//! Encrypted entries: ZipCrypto (APPNOTE section 6.1) and AES as WinZip does it (AE-1, AE-2).

use std::num::NonZeroU32;

use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};
use ring::{hmac, pbkdf2};

use super::directory::Entry;
use super::method;
use crate::limits::Limits;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Method of an entry that is encrypted by AES; the real one is in its extra field.
const AES_METHOD: u16 = 99;
/// Extra field with the parameters of AES.
const AES_EXTRA: u16 = 0x9901;
/// Rounds by which a key is made of a password.
const ROUNDS: u32 = 1_000;
/// Bytes of the message authentication code behind the data.
const CODE_BYTES: usize = 10;
/// Bytes of the header of ZipCrypto.
const HEADER_BYTES: usize = 12;

/// What came of an encrypted entry.
pub(super) enum Opened {
    /// The file, and the password that opens it.
    File(Vec<u8>, String),
    /// The entry cannot be decrypted: the defect, and its detail.
    Failed(DefectKind, &'static str),
}

/// Bytes of a try, which is a reading, too: as much as one object may have.
fn try_bytes_max(data: &[u8], limits: &Limits) -> u64 {
    let ratio = limits.ratio_max.saturating_mul(data.len() as u64).max(limits.ratio_bytes_min);
    limits.object_bytes_max.min(ratio)
}

/// Whether the data is the file without a password, whatever flags say: its checksum tells.
pub(super) fn is_clear(entry: &Entry, data: &[u8], limits: &Limits) -> bool {
    let size_max = try_bytes_max(data, limits);
    let sizes = (entry.size, entry.flags);
    let file = method::try_unpack(entry.method, data, sizes, size_max).unwrap_or_default();
    !file.is_empty() && file.len() as u64 == entry.size && crc32fast::hash(&file) == entry.crc
}

/// Tries the password that opened an entry before, then all of them.
pub(super) fn open(
    entry: &Entry,
    data: &[u8],
    known: Option<&str>,
    unpacker: &mut Unpacker<'_>,
) -> Opened {
    if entry.flags & 0x40 != 0 && entry.method != AES_METHOD {
        return Opened::Failed(DefectKind::Unsupported, "PKWARE's strong encryption");
    }
    let size_max = try_bytes_max(data, unpacker.limits());
    let attempt = |password: &str| -> Option<(Vec<u8>, String)> {
        let file = match entry.method {
            AES_METHOD => aes(entry, data, password, size_max),
            _ => zip_crypto(entry, data, password, size_max),
        };
        file.map(|file| (file, password.to_owned()))
    };
    let opened = known.and_then(attempt).or_else(|| unpacker.with_password(attempt));
    match opened {
        Some((file, password)) => {
            // Counted as what every other entry yields.
            let file = unpacker.read(&mut file.as_slice(), data.len() as u64, "");
            Opened::File(file, password)
        }
        None => Opened::Failed(DefectKind::Encrypted, ""),
    }
}

/// The three keys of ZipCrypto (APPNOTE section 6.1.5).
struct Keys([u32; 3]);

impl Keys {
    fn new(password: &str) -> Self {
        let mut keys = Keys([0x1234_5678, 0x2345_6789, 0x3456_7890]);
        password.bytes().for_each(|byte| keys.update(byte));
        keys
    }

    fn update(&mut self, byte: u8) {
        let [a, b, c] = &mut self.0;
        *a = crc(*a, byte);
        *b = b.wrapping_add(*a & 0xff).wrapping_mul(134_775_813).wrapping_add(1);
        *c = crc(*c, b.to_be_bytes()[0]);
    }

    fn decrypt(&mut self, byte: u8) -> u8 {
        let word = (self.0[2] | 2) & 0xffff;
        let plain = byte ^ (word.wrapping_mul(word ^ 1) >> 8).to_le_bytes()[0];
        self.update(plain);
        plain
    }
}

/// One step of CRC-32 without its inversions.
fn crc(old: u32, byte: u8) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut value = i as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    };
    old >> 8 ^ TABLE[usize::from(old.to_le_bytes()[0] ^ byte)]
}

fn zip_crypto(entry: &Entry, data: &[u8], password: &str, size_max: u64) -> Option<Vec<u8>> {
    let (header, body) = data.split_at_checked(HEADER_BYTES)?;
    let mut keys = Keys::new(password);
    let last = header.iter().map(|&b| keys.decrypt(b)).last()?;
    // One of 256 wrong passwords passes; the checksum of the file tells the rest.
    let by_crc = entry.crc.to_be_bytes()[0];
    let by_time = entry.time.to_be_bytes()[0];
    if last != by_crc && last != by_time {
        return None;
    }
    let plain: Vec<u8> = body.iter().map(|&b| keys.decrypt(b)).collect();
    let file = method::try_unpack(entry.method, &plain, (entry.size, entry.flags), size_max)?;
    let whole = (file.len() as u64) < size_max;
    (!whole || crc32fast::hash(&file) == entry.crc).then_some(file)
}

fn aes(entry: &Entry, data: &[u8], password: &str, size_max: u64) -> Option<Vec<u8>> {
    let (strength, method) = aes_parameters(&entry.extra)?;
    let key_bytes = 8 + 8 * usize::from(strength);
    let (salt, rest) = data.split_at_checked(key_bytes / 2)?;
    let (check, rest) = rest.split_at_checked(2)?;
    let (body, code) = rest.split_at_checked(rest.len().checked_sub(CODE_BYTES)?)?;
    let mut keys = vec![0; 2 * key_bytes + 2];
    let rounds = NonZeroU32::new(ROUNDS)?;
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, rounds, salt, password.as_bytes(), &mut keys);
    if keys[2 * key_bytes..] != *check {
        return None;
    }
    let authentication =
        hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &keys[key_bytes..2 * key_bytes]);
    if hmac::sign(&authentication, body).as_ref()[..CODE_BYTES] != *code {
        return None;
    }
    let plain = match strength {
        1 => counter_mode(&Aes128::new_from_slice(&keys[..key_bytes]).ok()?, body),
        2 => counter_mode(&Aes192::new_from_slice(&keys[..key_bytes]).ok()?, body),
        _ => counter_mode(&Aes256::new_from_slice(&keys[..key_bytes]).ok()?, body),
    };
    method::try_unpack(method, &plain, (entry.size, entry.flags), size_max)
}

/// Strength (1 to 3 for keys of 128, 192 and 256 bits) and method of an entry.
fn aes_parameters(extra: &[u8]) -> Option<(u8, u16)> {
    let mut rest = extra;
    while let [id0, id1, size0, size1, behind @ ..] = rest {
        let size = usize::from(u16::from_le_bytes([*size0, *size1]));
        if u16::from_le_bytes([*id0, *id1]) == AES_EXTRA {
            let [_, _, b'A', b'E', strength @ 1..=3, m0, m1, ..] = behind else { return None };
            return Some((*strength, u16::from_le_bytes([*m0, *m1])));
        }
        rest = behind.get(size..)?;
    }
    None
}

/// Counter mode with a counter of 128 bits, little-endian, that begins at one.
fn counter_mode(
    cipher: &impl BlockEncrypt<BlockSize = aes::cipher::consts::U16>,
    data: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for (chunk, counter) in data.chunks(16).zip(1u128..) {
        let mut block = Block::from(counter.to_le_bytes());
        cipher.encrypt_block(&mut block);
        out.extend(chunk.iter().zip(block).map(|(a, b)| a ^ b));
    }
    out
}
