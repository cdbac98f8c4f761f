//! Messages of version 1.

use gauntlet_packet::Direction;

use super::Head;
use crate::reader::Reader;
use crate::record::{Fields, Value};
use crate::text::hex;

/// How deep payloads may be within payloads: proposals within associations are two.
const DEPTH_MAX: u8 = 16;

/// The most payloads of a message that are looked at.
const PAYLOADS_MAX: usize = 4096;

/// Everything behind the head is encrypted.
const ENCRYPTED: u8 = 1;

pub(super) const SECURITY_ASSOCIATION: u8 = 1;
const PROPOSAL: u8 = 2;
const TRANSFORM: u8 = 3;
const KEY_EXCHANGE: u8 = 4;
const NONCE: u8 = 10;
const VENDOR: u8 = 13;

/// The domain of interpretation of IPsec.
const IPSEC: u32 = 1;

/// An attribute of a transform: its kind and its value, if that is a number.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    kind: u16,
    number: Option<u32>,
}

/// What a message says.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) key_exchange: Vec<u8>,
    pub(super) nonce: Vec<u8>,
    /// Their bytes in hexadecimal digits.
    pub(super) vendors: Vec<String>,
    pub(super) transforms: Vec<Vec<Attribute>>,
    domain: Option<u32>,
    is_encrypted: bool,
}

/// A message, and what there is to say of it.
pub(super) struct Read {
    pub(super) body: Body,
    pub(super) kinds: Vec<u8>,
    pub(super) is_encrypted: bool,
    /// Bytes follow that are no payload.
    pub(super) has_extra: bool,
}

struct Walk {
    body: Body,
    kinds: Vec<u8>,
    payloads: usize,
}

/// Reads what follows the head; `None`: malformed.
pub(super) fn read(head: &Head, bytes: &[u8]) -> Option<Read> {
    let mut walk = Walk { body: Body::default(), kinds: vec![head.next], payloads: 0 };
    let is_encrypted = head.flags & ENCRYPTED != 0;
    let mut has_extra = false;
    if !is_encrypted {
        has_extra = walk.list(head.next, bytes, 0)?;
    }
    walk.body.is_encrypted = is_encrypted;
    Some(Read { body: walk.body, kinds: walk.kinds, is_encrypted, has_extra })
}

impl Walk {
    /// Payloads one after the other, the first of this kind; says whether bytes are left.
    fn list(&mut self, first: u8, bytes: &[u8], depth: u8) -> Option<bool> {
        let mut kind = first;
        let mut reader = Reader::new(bytes);
        while let Some((next, data)) = payload(&mut reader) {
            self.payloads += 1;
            if self.payloads > PAYLOADS_MAX {
                return None;
            }
            self.payload(kind, data, depth)?;
            kind = next;
        }
        Some(!reader.is_empty())
    }

    fn payload(&mut self, kind: u8, data: &[u8], depth: u8) -> Option<()> {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        if depth > DEPTH_MAX {
            return None;
        }
        let mut reader = Reader::new(data);
        match kind {
            SECURITY_ASSOCIATION => {
                let domain = reader.be32()?;
                if domain == IPSEC {
                    reader.skip(4)?;
                }
                self.body.domain = Some(domain);
                if domain == IPSEC {
                    self.list(PROPOSAL, reader.rest(), depth + 1)?;
                }
            }
            PROPOSAL => {
                reader.skip(2)?;
                let spi_bytes = usize::from(reader.u8()?);
                reader.skip(1 + spi_bytes)?;
                self.list(TRANSFORM, reader.rest(), depth + 1)?;
            }
            TRANSFORM if reader.skip(4).is_some() => {
                self.body.transforms.push(attributes(reader.rest()));
            }
            KEY_EXCHANGE => self.body.key_exchange = data.to_vec(),
            NONCE => self.body.nonce = data.to_vec(),
            VENDOR => self.body.vendors.push(hex(data)),
            _ => {}
        }
        Some(())
    }
}

/// The next payload: the kind of the one behind it, and its bytes. Nothing is read where it is not
/// complete.
fn payload<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let mut ahead = *reader;
    let next = ahead.u8()?;
    ahead.skip(1)?;
    let length = usize::from(ahead.be16()?);
    let data = ahead.take(length.saturating_sub(4))?;
    *reader = ahead;
    Some((next, data))
}

fn attributes(bytes: &[u8]) -> Vec<Attribute> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(|| attribute(&mut reader)).collect()
}

fn attribute(reader: &mut Reader<'_>) -> Option<Attribute> {
    let head = reader.be16()?;
    let value = reader.be16()?;
    let number = match (head >> 15, value) {
        (1, value) => Some(u32::from(value)),
        (_, 4) => Some(reader.be32()?),
        (_, length) => {
            reader.skip(usize::from(length))?;
            None
        }
    };
    Some(Attribute { kind: head & 0x7fff, number })
}

impl Body {
    /// A number of the first transform.
    pub(super) fn chosen(&self, kind: u8) -> Option<u32> {
        let mut attributes = self.transforms.first()?.iter();
        attributes
            .find_map(|attribute| attribute.number.filter(|_| attribute.kind == u16::from(kind)))
    }

    pub(super) fn describe(&self, direction: Direction, fields: &mut Fields) {
        let mut v1 = Fields::default();
        if let Some(domain) = self.domain {
            v1.number("doi", i64::from(domain));
        }
        v1.truth("encrypted_payloads", self.is_encrypted);
        if !self.is_encrypted {
            let mut side = Fields::default();
            let parts = [
                ("key_exchange_payload", "key_exchange_payload_length", &self.key_exchange),
                ("nonce_payload", "nonce_payload_length", &self.nonce),
            ];
            for (name, length_name, bytes) in parts {
                if !bytes.is_empty() {
                    side.text(name, hex(bytes).as_bytes());
                    side.number(length_name, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
                }
            }
            let is_client = direction == Direction::ToServer;
            v1.object(if is_client { "client" } else { "server" }, side);
            if !self.vendors.is_empty() {
                let vendors = self.vendors.iter().cloned().map(Value::Text);
                v1.list("vendor_ids", vendors.collect());
            }
        }
        fields.object("ikev1", v1);
    }
}

pub(super) fn payload_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "None",
        1 => "SecurityAssociation",
        2 => "Proposal",
        3 => "Transform",
        4 => "KeyExchange",
        5 => "Identification",
        6 => "Certificate",
        7 => "CertificateRequest",
        8 => "Hash",
        9 => "Signature",
        10 => "Nonce",
        11 => "Notification",
        12 => "Delete",
        13 => "VendorID",
        15 => "SaKekPayload",
        16 => "SaTekPayload",
        17 => "KeyDownload",
        18 => "SequenceNumber",
        19 => "ProofOfPossession",
        20 => "NatDiscovery",
        21 => "NatOriginalAddress",
        22 => "GroupAssociatedPolicy",
        _ => return None,
    })
}
