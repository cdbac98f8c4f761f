//! Files that OpenPGP (RFC 9580) or age encrypted: nothing in a message opens them.
//!
//! An OpenPGP message is a series of packets. One that is encrypted begins with session keys, each
//! for a recipient's key or a password, and then has the data under them. Binary files have no
//! other signature, so that both must be there.

use base64_simd::forgiving_decode_to_vec;
use memchr::memmem;

use super::lines;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// The first line of a message in ASCII Armor (RFC 9580 section 6.2.1).
const ARMOR: &[u8] = b"-----BEGIN PGP MESSAGE-----";
/// Armored messages of one text that are looked at.
const ARMORED_MAX: usize = 16;
/// Bytes of the Base64 of one that are decoded: session keys for some thirty recipients.
const ARMOR_BYTES_MAX: usize = 32 << 10;
/// Packets before the data: one for each recipient.
const PACKETS_MAX: usize = 1_000;
/// The first line of age's format (C2SP, age-encryption.org/v1), and of its armor.
const AGE: [&[u8]; 2] = [b"age-encryption.org/v1\n", b"-----BEGIN AGE ENCRYPTED FILE-----"];

// Kinds of packets (section 5).
const KEY_OF_RECIPIENT: u8 = 1;
const KEY_OF_PASSWORD: u8 = 3;
const DATA: u8 = 9;
const MARKER: u8 = 10;
const DATA_WITH_INTEGRITY: u8 = 18;
const DATA_AEAD: u8 = 20;
const PADDING: u8 = 21;

/// What opens a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenedBy {
    Key,
    Password,
}

/// Notes that a file is encrypted.
pub(super) fn note(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if AGE.iter().any(|begin| bytes.starts_with(begin)) {
        unpacker.property(PropertyKind::Encrypted, "age");
        return unpacker.defect(DefectKind::Encrypted, "by age");
    }
    if let Some(by) = encrypted(bytes).or_else(|| armored(bytes)) {
        unpacker.property(PropertyKind::Encrypted, "OpenPGP");
        let what = match by {
            OpenedBy::Key => "for the recipient's key",
            OpenedBy::Password => "by a password of OpenPGP",
        };
        unpacker.defect(DefectKind::Encrypted, what);
    }
}

/// The first encrypted message of a text.
fn armored(text: &[u8]) -> Option<OpenedBy> {
    memmem::find_iter(text, ARMOR).take(ARMORED_MAX).find_map(|at| {
        let behind = text.get(at + ARMOR.len()..)?;
        let behind = &behind[..behind.len().min(ARMOR_BYTES_MAX)];
        // Fields such as `Version`, then an empty line.
        let body = lines(behind).skip(1).skip_while(|line| !line.trim_ascii().is_empty());
        let is_base64 = |line: &&[u8]| !line.starts_with(b"-----") && !line.starts_with(b"=");
        let body = body.take_while(is_base64).flatten().copied();
        let body: Vec<u8> = body.filter(|byte| !byte.is_ascii_whitespace()).collect();
        // What is cut off need not be whole.
        let whole = body.len() - body.len() % 4;
        encrypted(&forgiving_decode_to_vec(&body[..whole]).ok()?)
    })
}

/// How the message is opened; none if it is none, or not encrypted.
fn encrypted(bytes: &[u8]) -> Option<OpenedBy> {
    let (mut rest, mut by) = (bytes, None);
    for _ in 0..PACKETS_MAX {
        let (kind, content, behind) = packet(rest)?;
        let version = content.first().copied();
        match (kind, version) {
            // Whoever has any of the keys opens it; a password may be in the mail.
            (KEY_OF_PASSWORD, Some(4..=6)) => by = Some(OpenedBy::Password),
            (KEY_OF_RECIPIENT, Some(3 | 6)) => by = by.or(Some(OpenedBy::Key)),
            (MARKER | PADDING, _) => {}
            (DATA | DATA_WITH_INTEGRITY | DATA_AEAD, _) => return by,
            _ => return None,
        }
        rest = behind;
    }
    by
}

/// The kind of the first packet (section 4.2), its content as far as it is there, and what follows.
fn packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (kind, length, rest) = match first {
        0xc0.. => match *rest {
            [n @ 0..=191, ref rest @ ..] => (first & 0x3f, usize::from(n), rest),
            [n @ 192..=223, m, ref rest @ ..] => {
                (first & 0x3f, ((usize::from(n) - 192) << 8) + usize::from(m) + 192, rest)
            }
            [255, a, b, c, d, ref rest @ ..] => {
                let length = u32::from_be_bytes([a, b, c, d]);
                (first & 0x3f, usize::try_from(length).ok()?, rest)
            }
            // In pieces, which only data comes in.
            [n @ 224..=254, ref rest @ ..] => (first & 0x3f, 1 << (n & 0x1f), rest),
            _ => return None,
        },
        0x80..0xc0 => {
            let kind = first >> 2 & 0x0f;
            match (first & 3, rest) {
                (0, &[n, ref rest @ ..]) => (kind, usize::from(n), rest),
                (1, &[a, b, ref rest @ ..]) => {
                    (kind, usize::from(u16::from_be_bytes([a, b])), rest)
                }
                (2, &[a, b, c, d, ref rest @ ..]) => {
                    let length = u32::from_be_bytes([a, b, c, d]);
                    (kind, usize::try_from(length).ok()?, rest)
                }
                // To the end.
                (3, rest) => (kind, rest.len(), rest),
                _ => return None,
            }
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at(length.min(rest.len()));
    Some((kind, content, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, tree};

    /// A session key under a password (version 4, AES-256, salted and iterated), and data.
    fn by_password() -> Vec<u8> {
        let mut bytes = b"\x8c\x0d\x04\x09\x03\x02saltsalt\xff".to_vec();
        bytes.extend(b"\xd2\x29\x01");
        bytes.extend([0x5a; 40]);
        bytes
    }

    /// Session keys for two recipients, and data whose length is not said.
    fn by_key() -> Vec<u8> {
        let mut bytes = Vec::new();
        for n in 0..2 {
            bytes.extend(b"\x85\x01\x0c\x03");
            bytes.extend([n; 267]);
        }
        bytes.extend(b"\xd2\xe9\x01");
        bytes.extend([0x5a; 900]);
        bytes
    }

    fn armor(bytes: &[u8]) -> Vec<u8> {
        let base64 = base64_simd::STANDARD.encode_to_string(bytes);
        let lines: Vec<&str> =
            base64.as_bytes().chunks(64).map(|l| std::str::from_utf8(l).unwrap()).collect();
        let head = "Ann wrote:\r\n-----BEGIN PGP MESSAGE-----\r\nVersion: 1\r\n\r\n";
        format!("{head}{}\r\n=AAAA\r\n-----END PGP MESSAGE-----\r\n", lines.join(" \r\n")).into()
    }

    fn found(bytes: &[u8]) -> Option<String> {
        let found = tree(bytes, "a.gpg");
        let object = &found.objects[0];
        let is_encrypted = object.has(PropertyKind::Encrypted);
        assert_eq!(object.defects.len(), usize::from(is_encrypted), "{:?}", object.defects);
        let defect = object.defects.first()?;
        assert_eq!(defect.kind, DefectKind::Encrypted);
        Some(defect.detail.clone())
    }

    #[test]
    fn messages_are_known_with_and_without_armor() {
        for (bytes, text) in [
            (by_password(), "by a password of OpenPGP"),
            (armor(&by_password()), "by a password of OpenPGP"),
            (by_key(), "for the recipient's key"),
            (armor(&by_key()), "for the recipient's key"),
            (b"age-encryption.org/v1\n-> X25519 a\n".to_vec(), "by age"),
        ] {
            assert_eq!(found(&bytes).as_deref(), Some(text));
        }
        nasty(&by_password(), "a.gpg");
        nasty(&armor(&by_key()), "a.asc");
    }

    #[test]
    fn what_is_signed_or_begins_alike_is_not_encrypted() {
        // A compressed and a literal packet, keys without data, data without keys.
        let signed: &[u8] = b"\xa3\x01\x5b\x0e\xed\xf3\xcc\xc0";
        for bytes in [signed, &by_password()[..15], &by_password()[15..], b"\x85\x01\x0c\x09abc"] {
            assert_eq!(found(bytes), None, "{bytes:?}");
            assert_eq!(found(&armor(bytes)), None, "{bytes:?}");
        }
        assert_eq!(found(b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n"), None);
    }
}
