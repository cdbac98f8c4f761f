//! S/MIME in one part (RFC 8551 section 3.4 and 3.5; CMS, RFC 5652): what is signed or compressed
//! becomes an object, what is enveloped is encrypted. Certificates and detached signatures hold no
//! content.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::ZlibDecoder;

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Elements inside each other.
const DEPTH_MAX: usize = 16;
/// Pieces of one text of bytes.
const PIECES_MAX: usize = 1_000_000;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
/// A text of bytes in pieces.
const OCTETS_IN_PIECES: u8 = 0x24;
const CONTENT: u8 = 0xa0;

// Types of content (RFC 5652, RFC 3274, RFC 5083).
const SIGNED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
const ENVELOPED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03";
const ENCRYPTED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x06";
const COMPRESSED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x09";
const AUTH_ENVELOPED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x17";

/// Adds what is signed or compressed.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let Some((kind, content)) = content_info(bytes) else {
        return unpacker.defect(DefectKind::Corrupt, "no content");
    };
    match kind {
        SIGNED => {
            if let Some(body) = encapsulated(content) {
                add(|| &*body, body.len() as u64, unpacker);
            }
        }
        COMPRESSED => match encapsulated(content) {
            Some(packed) => add(|| ZlibDecoder::new(&*packed), packed.len() as u64, unpacker),
            None => unpacker.defect(DefectKind::Corrupt, "no compressed content"),
        },
        ENVELOPED | ENCRYPTED | AUTH_ENVELOPED => {
            unpacker.property(PropertyKind::Encrypted, "S/MIME");
            unpacker.defect(DefectKind::Encrypted, "for the recipient's key");
        }
        _ => {}
    }
}

/// The content is a MIME entity, which may have no field of a message.
fn add<R: Read>(make: impl Fn() -> R, packed: u64, unpacker: &mut Unpacker<'_>) {
    let body = unpacker.read_made(make, packed, "content");
    let name = "smime.eml".to_owned();
    unpacker.child(Child { name, declared_type: "message/rfc822".to_owned() }, &body);
}

/// An element: its tag, its content, and what follows it.
type Element<'b> = (u8, &'b [u8], &'b [u8]);

/// Reads an element (X.690), also one whose length is not said. Cut ones give what there is.
fn element(bytes: &[u8], depth: usize) -> Option<Element<'_>> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    match first {
        0x80 => {
            let length = open_length(rest, depth)?;
            let end = (length + 2).min(rest.len());
            Some((tag, &rest[..length], &rest[end..]))
        }
        0..0x80 => {
            let (content, behind) = rest.split_at(usize::from(first).min(rest.len()));
            Some((tag, content, behind))
        }
        _ => {
            let digits = rest.get(..usize::from(first & 0x7f)).filter(|d| d.len() <= 8)?;
            let length = digits.iter().fold(0u64, |all, d| all << 8 | u64::from(*d));
            let rest = &rest[digits.len()..];
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
            let (content, behind) = rest.split_at(length);
            Some((tag, content, behind))
        }
    }
}

/// Bytes up to the two zeros that end an element without a length.
fn open_length(bytes: &[u8], depth: usize) -> Option<usize> {
    if depth >= DEPTH_MAX {
        return None;
    }
    let mut rest = bytes;
    for _ in 0..PIECES_MAX {
        if rest.starts_with(&[0, 0]) || rest.is_empty() {
            break;
        }
        (_, _, rest) = element(rest, depth + 1)?;
    }
    Some(bytes.len() - rest.len())
}

/// Type and content (section 3).
fn content_info(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (SEQUENCE, outer, _) = element(bytes, 0)? else { return None };
    let (OBJECT_ID, kind, rest) = element(outer, 1)? else { return None };
    let (_, wrapped, _) = element(rest, 1)?;
    let (SEQUENCE, content, _) = element(wrapped, 2)? else { return None };
    Some((kind, content))
}

/// The content that is signed or compressed (section 5.1): behind a version and algorithms.
fn encapsulated(mut rest: &[u8]) -> Option<Cow<'_, [u8]>> {
    for _ in 0..4 {
        let (tag, content, behind) = element(rest, 3)?;
        rest = behind;
        // Algorithms are a sequence, too, but their type is followed by something else.
        if tag == SEQUENCE
            && let Some((OBJECT_ID, _, inner)) = element(content, 4)
            && let Some((CONTENT, wrapped, _)) = element(inner, 4)
        {
            return octets(wrapped, 5);
        }
        if tag == SET && behind.is_empty() {
            return None;
        }
    }
    None
}

/// The bytes of a text of bytes, put together from its pieces.
fn octets(bytes: &[u8], depth: usize) -> Option<Cow<'_, [u8]>> {
    let (tag, content, _) = element(bytes, depth)?;
    match tag {
        OCTETS => Some(Cow::Borrowed(content)),
        OCTETS_IN_PIECES if depth < DEPTH_MAX => {
            let (mut all, mut rest) = (Vec::new(), content);
            for _ in 0..PIECES_MAX {
                let Some((_, _, behind)) = element(rest, depth + 1) else { break };
                if let Some(piece) = octets(rest, depth + 1) {
                    all.extend_from_slice(&piece);
                }
                rest = behind;
            }
            Some(Cow::Owned(all))
        }
        // Older programs put the content itself here (PKCS #7).
        _ => Some(Cow::Borrowed(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, paths, tree};

    fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
        match content.len() {
            short @ 0..128 => [&[tag, short as u8], content].concat(),
            long => [&[tag, 0x82], &(long as u16).to_be_bytes()[..], content].concat(),
        }
    }

    fn info(kind: &[u8], inner: &[u8]) -> Vec<u8> {
        let parts = [tagged(6, kind), tagged(0xa0, &tagged(0x30, inner))].concat();
        tagged(0x30, &parts)
    }

    const ENTITY: &[u8] = b"Content-Type: text/plain\r\n\r\nhello";

    #[test]
    fn what_is_signed() {
        let data = tagged(6, b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01");
        let wrapped = tagged(0xa0, &tagged(4, ENTITY));
        let inner =
            [vec![2, 1, 1], tagged(0x31, &[]), tagged(0x30, &[data.clone(), wrapped].concat())];
        let whole = info(SIGNED, &inner.concat());
        let found = tree(&whole, "smime.p7m");
        assert_eq!(paths(&found), ["smime.p7m", "smime.p7m/smime.eml"]);
        assert_eq!(found.objects[1].size, ENTITY.len() as u64);
        nasty(&whole, "smime.p7m");
        // The same in pieces and without lengths, as programs write it that do not know them.
        let pieces =
            [&[0x24, 0x80][..], &tagged(4, &ENTITY[..9]), &tagged(4, &ENTITY[9..]), &[0, 0]];
        let open = [
            &[0x30, 0x80][..],
            &tagged(6, SIGNED),
            &[0xa0, 0x80, 0x30, 0x80, 2, 1, 1, 0x31, 0, 0x30, 0x80],
            &data,
            &[0xa0, 0x80],
            &pieces.concat(),
            &[0; 10],
        ];
        let open = open.concat();
        assert_eq!(tree(&open, "a.p7m").objects[1].size, ENTITY.len() as u64);
        nasty(&open, "a.p7m");
        let deep = [0x30, 0x80].repeat(20_000);
        assert!(element(&deep, 0).is_none());
    }

    #[test]
    fn a_detached_signature_and_an_envelope() {
        let data = tagged(6, b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01");
        let inner = [vec![2, 1, 1], tagged(0x31, &[]), tagged(0x30, &data), tagged(0x31, &[])];
        let found = tree(&info(SIGNED, &inner.concat()), "smime.p7s");
        assert!(found.objects.len() == 1 && found.objects[0].defects.is_empty(), "{found:?}");
        let found = tree(&info(ENVELOPED, &[2, 1, 0]), "smime.p7m");
        assert_eq!(found.objects[0].defects[0].kind, DefectKind::Encrypted);
    }
}
