//! Keys of initial packets, which anybody can compute (RFC 9001, section 5.2).

use gauntlet_packet::Direction;
use ring::aead::{self, quic};
use ring::hkdf;

use super::header::V2;

/// Bytes of a key, and of a sample of what is encrypted.
const KEY_BYTES: usize = 16;

/// Bytes of the number of a packet at most.
const NUMBER_BYTES_MAX: usize = 4;

const SALT_Q050: [u8; 20] = [
    0x50, 0x45, 0x74, 0xef, 0xd0, 0x66, 0xfe, 0x2f, 0x9d, 0x94, 0x5c, 0xfc, 0xdb, 0xd3, 0xa7, 0xf0,
    0xd3, 0xb5, 0x6b, 0x45,
];
/// Of drafts 23 to 28.
const SALT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65,
    0xbe, 0xf9, 0xf5, 0x02,
];
/// Of drafts 29 to 32.
const SALT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0,
    0x43, 0x90, 0xa8, 0x99,
];
const SALT_1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];

/// Keys of both directions.
pub(super) struct Initial {
    client: Keys,
    server: Keys,
}

struct Keys {
    head: quic::HeaderProtectionKey,
    packet: aead::LessSafeKey,
    nonce: [u8; aead::NONCE_LEN],
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) without context.
fn expand<const N: usize>(secret: &hkdf::Prk, label: &str) -> Option<[u8; N]> {
    let name = format!("tls13 {label}");
    let size = u16::try_from(N).ok()?.to_be_bytes();
    let name_bytes = [u8::try_from(name.len()).ok()?];
    let info = [&size[..], &name_bytes, name.as_bytes(), &[0]];
    let mut made = [0; N];
    secret.expand(&info, Length(N)).ok()?.fill(&mut made).ok()?;
    Some(made)
}

impl Keys {
    fn of(secret: &hkdf::Prk, label: &str, version: u32) -> Option<Self> {
        let secret: [u8; 32] = expand(secret, label)?;
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret);
        let prefix = if version == V2 { "quicv2" } else { "quic" };
        let head: [u8; KEY_BYTES] = expand(&secret, &format!("{prefix} hp"))?;
        let key: [u8; KEY_BYTES] = expand(&secret, &format!("{prefix} key"))?;
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).ok()?;
        Some(Self {
            head: quic::HeaderProtectionKey::new(&quic::AES_128, &head).ok()?,
            packet: aead::LessSafeKey::new(key),
            nonce: expand(&secret, &format!("{prefix} iv"))?,
        })
    }

    /// Mask and length of the number of a packet whose head without it is `at` bytes long.
    fn unmask(&self, packet: &[u8], at: usize) -> Option<(u8, Vec<u8>)> {
        let sample = packet.get(at + NUMBER_BYTES_MAX..at + NUMBER_BYTES_MAX + KEY_BYTES)?;
        let [first_mask, masks @ ..] = self.head.new_mask(sample).ok()?;
        let first = packet.first()?;
        let bits = if first & 0x80 == 0 { 0x1f } else { 0x0f };
        let first = first ^ first_mask & bits;
        let length = usize::from(first & 3) + 1;
        let number = packet.get(at..at + length)?.iter().zip(masks).map(|(byte, mask)| byte ^ mask);
        Some((first, number.collect()))
    }
}

impl Initial {
    /// Keys of a version, if it is known, for the identifier that the client chose.
    pub(super) fn of(version: u32, destination: &[u8]) -> Option<Self> {
        let salt = match version {
            0x5130_3530 => &SALT_Q050,
            0xff00_001d..=0xff00_0020 => &SALT_29,
            0xface_b002 | 0xff00_0017..=0xff00_001c => &SALT_23,
            1 | 0xff00_0021..=0xff00_0022 => &SALT_1,
            V2 => &SALT_2,
            _ => return None,
        };
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(destination);
        let client = Keys::of(&secret, "client in", version)?;
        let server = Keys::of(&secret, "server in", version)?;
        Some(Self { client, server })
    }

    /// What is in a packet whose head (without its number) is `at` bytes long.
    pub(super) fn open(&self, direction: Direction, packet: &[u8], at: usize) -> Option<Vec<u8>> {
        let keys = if direction == Direction::ToServer { &self.client } else { &self.server };
        let (first, number) = keys.unmask(packet, at)?;
        let body = at + number.len();
        let mut head = packet.get(..at)?.to_vec();
        *head.first_mut()? = first;
        head.extend(&number);
        let number = number.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let mut nonce = keys.nonce;
        for (byte, other) in nonce.iter_mut().rev().zip(number.to_le_bytes()) {
            *byte ^= other;
        }
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let mut sealed = packet.get(body..)?.to_vec();
        let opened = keys.packet.open_in_place(nonce, aead::Aad::from(head), &mut sealed).ok()?;
        let length = opened.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

/// Seals frames into a packet with this head, the number 5 in one byte.
#[cfg(test)]
pub(super) fn seal(version: u32, destination: &[u8], head: &[u8], frames: &[u8]) -> Vec<u8> {
    let keys = Initial::of(version, destination).expect("the version is known").client;
    let at = head.len();
    let mut packet = [head, &[5]].concat();
    let mut nonce = keys.nonce;
    nonce[11] ^= 5;
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let mut sealed = frames.to_vec();
    let aad = aead::Aad::from(packet.clone());
    keys.packet.seal_in_place_append_tag(nonce, aad, &mut sealed).expect("it fits");
    packet.extend(sealed);
    let sample = &packet[at + NUMBER_BYTES_MAX..at + NUMBER_BYTES_MAX + KEY_BYTES];
    let mask = keys.head.new_mask(sample).expect("it is long enough");
    packet[0] ^= mask[0] & 0x0f;
    packet[at] ^= mask[1];
    packet
}
