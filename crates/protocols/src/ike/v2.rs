//! Messages of version 2.

use gauntlet_packet::Direction;

use super::{Head, event};
use crate::reader::Reader;
use crate::record::Fields;

/// The most payloads of a message that are looked at.
const PAYLOADS_MAX: usize = 4096;

/// The most transforms of a message that are kept.
const TRANSFORMS_MAX: usize = 4096;

const SECURITY_ASSOCIATION: u8 = 33;
const KEY_EXCHANGE: u8 = 34;
const NOTIFY: u8 = 41;

/// Notifications below this are of errors.
const STATUS: u16 = 16384;

/// The protocol AH of a proposal: nothing is encrypted.
const AUTHENTICATION_HEADER: u8 = 2;

/// Kinds of transforms (RFC 7296, section 3.3.2).
mod transform {
    pub(super) const ENCRYPTION: u8 = 1;
    pub(super) const PRF: u8 = 2;
    pub(super) const AUTHENTICATION: u8 = 3;
    pub(super) const DH: u8 = 4;
    pub(super) const ESN: u8 = 5;
}

/// What a message says.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Kind and number of what the server has chosen.
    chosen: Vec<(u8, u16)>,
    errors: i64,
}

/// A message, and what there is to say of it.
#[derive(Default)]
pub(super) struct Read {
    pub(super) body: Body,
    pub(super) kinds: Vec<u8>,
    pub(super) events: Vec<u8>,
}

struct Proposal {
    protocol: u8,
    transforms: Vec<(u8, u16)>,
}

/// Reads what follows the head. Of malformed messages nothing counts.
pub(super) fn read(head: &Head, bytes: &[u8], direction: Direction) -> Read {
    let mut read = Read { kinds: vec![head.next], ..Read::default() };
    read.walk(head.next, bytes, direction).map_or_else(Read::default, |()| read)
}

impl Read {
    fn walk(&mut self, first: u8, bytes: &[u8], direction: Direction) -> Option<()> {
        let mut kind = first;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            if self.kinds.len() > PAYLOADS_MAX {
                return None;
            }
            let next = reader.u8()?;
            reader.skip(1)?;
            let length = usize::from(reader.be16()?).checked_sub(4)?;
            self.payload(kind, reader.take(length)?, direction)?;
            self.kinds.push(next);
            kind = next;
        }
        Some(())
    }

    fn payload(&mut self, kind: u8, data: &[u8], direction: Direction) -> Option<()> {
        let mut reader = Reader::new(data);
        match kind {
            SECURITY_ASSOCIATION => {
                let mut is_first = true;
                while !reader.is_empty() {
                    let mut ahead = reader;
                    let Some(proposal) = read_proposal(&mut ahead) else { break };
                    reader = ahead;
                    is_first = false;
                    self.proposal(&proposal, direction);
                }
                if is_first || !reader.is_empty() {
                    return None;
                }
            }
            KEY_EXCHANGE => reader.skip(4)?,
            NOTIFY => {
                reader.skip(1)?;
                let spi_bytes = usize::from(reader.u8()?);
                let notification = reader.be16()?;
                reader.skip(spi_bytes)?;
                self.body.errors += i64::from(notification < STATUS);
            }
            _ => {}
        }
        Some(())
    }

    fn proposal(&mut self, proposal: &Proposal, direction: Direction) {
        let transforms = &proposal.transforms;
        self.events.extend(transforms.iter().filter_map(|(kind, number)| weakness(*kind, *number)));
        if !transforms.iter().any(|(kind, _)| *kind == transform::DH) {
            self.events.push(event::NO_DH);
        }
        if proposal.protocol == AUTHENTICATION_HEADER {
            self.events.push(event::NO_ENCRYPTION);
        }
        let is_authentic = transforms.iter().any(|(kind, number)| match *kind {
            transform::AUTHENTICATION => *number != 0,
            transform::ENCRYPTION => is_authenticating(*number),
            _ => false,
        });
        if !is_authentic {
            self.events.push(event::NO_AUTHENTICATION);
        }
        if direction == Direction::ToClient {
            let room = TRANSFORMS_MAX.saturating_sub(self.body.chosen.len());
            self.body.chosen.extend(transforms.iter().take(room));
        }
    }
}

fn read_proposal(reader: &mut Reader<'_>) -> Option<Proposal> {
    reader.skip(2)?;
    let length = usize::from(reader.be16()?);
    reader.skip(1)?;
    let (protocol, spi_bytes, count) = (reader.u8()?, reader.u8()?, reader.u8()?);
    let spi_bytes = usize::from(spi_bytes);
    reader.skip(spi_bytes)?;
    let mut inner = Reader::new(reader.take(length.checked_sub(8 + spi_bytes)?)?);
    let mut transforms = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        inner.skip(2)?;
        let length = usize::from(inner.be16()?);
        let kind = inner.u8()?;
        inner.skip(1)?;
        transforms.push((kind, inner.be16()?));
        inner.skip(length.saturating_sub(8))?;
    }
    Some(Proposal { protocol, transforms })
}

/// Encryption that needs no further integrity protection (CCM, GCM, ChaCha20-Poly1305).
fn is_authenticating(encryption: u16) -> bool {
    matches!(encryption, 14..=16 | 18..=20 | 25..=28)
}

/// The event of a transform that nobody should offer.
fn weakness(kind: u8, number: u16) -> Option<u8> {
    match (kind, number) {
        // DES and its like, and none.
        (transform::ENCRYPTION, 1..=9 | 11) => Some(event::WEAK_ENCRYPTION),
        (transform::PRF | transform::DH, 0) => Some(event::INVALID_PROPOSAL),
        // MD5 and SHA-1.
        (transform::PRF, 1 | 2) => Some(event::WEAK_PRF),
        (transform::AUTHENTICATION, 1..=7) => Some(event::WEAK_AUTHENTICATION),
        // Groups of up to 1,536 bits.
        (transform::DH, 1 | 2 | 5 | 22) => Some(event::WEAK_DH),
        (transform::ENCRYPTION..=transform::ESN, _) => None,
        _ => Some(event::UNKNOWN_PROPOSAL),
    }
}

impl Body {
    /// What was chosen for an attribute of version 1's numbers.
    pub(super) fn chosen(&self, attribute: u8) -> Option<u32> {
        let wanted = match attribute {
            1 => transform::ENCRYPTION,
            3 => transform::AUTHENTICATION,
            4 => transform::DH,
            13 => transform::PRF,
            _ => return None,
        };
        let mut chosen = self.chosen.iter();
        chosen.find(|(kind, _)| *kind == wanted).map(|(_, number)| u32::from(*number))
    }

    pub(super) fn describe(&self, fields: &mut Fields) {
        let mut v2 = Fields::default();
        v2.number("errors", self.errors);
        fields.object("ikev2", v2);
    }
}

pub(super) fn payload_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "NoNextPayload",
        33 => "SecurityAssociation",
        34 => "KeyExchange",
        35 => "IdentInitiator",
        36 => "IdentResponder",
        37 => "Certificate",
        38 => "CertificateRequest",
        39 => "Authentication",
        40 => "Nonce",
        41 => "Notify",
        42 => "Delete",
        43 => "VendorID",
        44 => "TrafficSelectorInitiator",
        45 => "TrafficSelectorResponder",
        46 => "EncryptedAndAuthenticated",
        47 => "Configuration",
        48 => "ExtensibleAuthentication",
        _ => return None,
    })
}
