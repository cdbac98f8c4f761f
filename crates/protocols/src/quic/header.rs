//! Heads of packets.

use crate::reader::Reader;

/// Versions of Google.
const Q043: u32 = 0x5130_3433;
const Q044: u32 = 0x5130_3434;
const Q045: u32 = 0x5130_3435;
const Q046: u32 = 0x5130_3436;

/// Version 2 (RFC 9369).
pub(super) const V2: u32 = 0x6b33_43cf;

/// Flags of packets of Google's old versions.
mod public {
    pub(super) const VERSION: u8 = 0x01;
    pub(super) const NONCE: u8 = 0x04;
    pub(super) const DESTINATION: u8 = 0x08;
    pub(super) const MULTIPATH: u8 = 0x40;
}

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Initial,
    Retry,
    Handshake,
    ZeroRoundTrip,
    Negotiation,
    Short,
}

/// The head of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Type,
    pub(super) is_long: bool,
    pub(super) version: u32,
    /// The version as it was sent, if it was.
    pub(super) version_bytes: Vec<u8>,
    /// The identifier of the one that it goes to.
    pub(super) destination: Vec<u8>,
    /// Bytes behind the head.
    pub(super) length: u16,
}

/// A number of up to 62 bits (RFC 9000, section 16).
pub(super) fn variable(reader: &mut Reader<'_>) -> Option<u64> {
    let first = reader.u8()?;
    let more = (1_usize << (first >> 6)) - 1;
    let rest = reader.take(more)?;
    Some(rest.iter().fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte)))
}

impl Head {
    /// Reads it; says also how long it is.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        let first = reader.u8()?;
        let mut head = match first {
            0x80.. => Self::read_long(first, &mut reader)?,
            _ if first & public::MULTIPATH == 0 => Self::read_public(first, &mut reader)?,
            _ => Self::new(Type::Short),
        };
        let has_length = head.is_long && head.kind == Type::Initial && !head.is_google();
        let length = if has_length {
            let length = variable(&mut reader)?;
            usize::try_from(length).ok().filter(|length| *length <= reader.left())?
        } else {
            reader.left()
        };
        head.length = u16::try_from(length).ok()?;
        Some((head, reader.position()))
    }

    fn new(kind: Type) -> Self {
        Self {
            kind,
            is_long: false,
            version: 0,
            version_bytes: Vec::new(),
            destination: Vec::new(),
            length: 0,
        }
    }

    /// Of Google's versions before the 44th.
    fn read_public(first: u8, reader: &mut Reader<'_>) -> Option<Self> {
        let mut head = Self::new(Type::Short);
        let has_destination = first & public::DESTINATION != 0;
        if has_destination {
            head.destination = reader.take(8)?.to_vec();
        } else if first & public::NONCE != 0 {
            reader.skip(32)?;
        }
        if first & public::VERSION != 0 {
            head.kind = Type::Initial;
            let version = reader.array::<4>()?;
            head.version = u32::from_be_bytes(version);
            head.version_bytes = version.to_vec();
        }
        reader.skip(1 + usize::from(first >> 4 & 3))?;
        if has_destination {
            // The hash that authenticates the message.
            reader.skip(12)?;
        }
        Some(head)
    }

    fn read_long(first: u8, reader: &mut Reader<'_>) -> Option<Self> {
        let version_bytes = reader.array::<4>()?;
        let version = u32::from_be_bytes(version_bytes);
        let kind = kind(first, version)?;
        let mut head = Self {
            is_long: true,
            version,
            version_bytes: version_bytes.to_vec(),
            ..Self::new(kind)
        };
        if head.is_google() {
            let lengths = reader.u8()?;
            let length = |half: u8| usize::from(if half == 0 { 0 } else { half + 3 });
            head.destination = reader.take(length(lengths >> 4))?.to_vec();
            reader.skip(length(lengths & 15))?;
        } else {
            head.destination = reader.prefixed8()?.to_vec();
            reader.prefixed8()?;
        }
        match kind {
            // Number and hash.
            Type::Initial if head.is_google() => reader.skip(4 + 12)?,
            Type::Initial => {
                let token = usize::try_from(variable(reader)?).ok()?;
                reader.skip(token)?;
            }
            Type::Retry => {
                reader.take_rest();
            }
            _ => {}
        }
        Some(head)
    }

    fn is_google(&self) -> bool {
        (Q043..=Q046).contains(&self.version)
    }

    /// The version's name in fingerprints.
    pub(super) fn cyu_version(&self) -> Option<&'static str> {
        Some(match self.version {
            Q043 => "43",
            Q044 | Q045 => "44",
            Q046 => "46",
            _ => return None,
        })
    }

    /// The version's name in records.
    pub(super) fn version_name(&self) -> String {
        match self.version {
            0x5130_3339 | Q043..=Q046 => {
                String::from_utf8_lossy(&self.version.to_be_bytes()).into_owned()
            }
            V2 => "v2".to_owned(),
            version => format!("{version:x}"),
        }
    }
}

fn kind(first: u8, version: u32) -> Option<Type> {
    let bits = first >> 4 & 3;
    Some(match (version, bits) {
        (0, _) => Type::Negotiation,
        (Q043..=Q045, _) => match first & 0x7f {
            0x7f => Type::Initial,
            0x7e => Type::Retry,
            0x7d => Type::Handshake,
            0x7c => Type::ZeroRoundTrip,
            _ => return None,
        },
        (V2, 0) => Type::Retry,
        (V2, 1) | (_, 0) => Type::Initial,
        (V2, 2) => Type::ZeroRoundTrip,
        (V2, _) => Type::Handshake,
        (_, 1) => Type::ZeroRoundTrip,
        (_, 2) => Type::Handshake,
        _ => Type::Retry,
    })
}
