//! The pcapng format (draft-ietf-opsawg-pcapng): sections, interfaces, packets.

use std::io;

use super::input::Input;
use super::{Error, FRAME_BYTES_MAX, Record};
use crate::address::Time;
use crate::link::Link;

/// The type of a section header, the same in both byte orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const SECTION_NUMBER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type, length before, length behind.
const BLOCK_OVERHEAD: u32 = 12;
/// Blocks of packets and interfaces are read whole, up to this many bytes; others are skipped.
const BLOCK_BYTES_MAX: u32 = FRAME_BYTES_MAX + (256 << 10);
/// Interfaces of a section; what follows is damage.
const INTERFACES_MAX: usize = 65_536;
const OPTION_TSRESOL: u16 = 9;
const OPTION_TSOFFSET: u16 = 14;

/// One interface description.
#[derive(Clone)]
struct Interface {
    link: Link,
    snaplen: u32,
    /// Ticks of a second.
    resolution: u128,
    /// Seconds to add.
    offset: i64,
}

/// What is known of the section that is being read.
pub(super) struct Section {
    big: bool,
    interfaces: Vec<Interface>,
}

/// The fields of a block, in the byte order of its section.
struct Fields<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Fields<'a> {
    fn u16(&self, at: usize) -> Option<u16> {
        let part = *self.bytes.get(at..)?.first_chunk::<2>()?;
        Some(if self.big { u16::from_be_bytes(part) } else { u16::from_le_bytes(part) })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let part = *self.bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big { u32::from_be_bytes(part) } else { u32::from_le_bytes(part) })
    }

    /// The value of an option, of those that begin at `at`.
    fn option(&self, mut at: usize, wanted: u16) -> Option<&'a [u8]> {
        loop {
            let (kind, length) = (self.u16(at)?, usize::from(self.u16(at + 2)?));
            if kind == 0 {
                return None;
            }
            if kind == wanted {
                return self.bytes.get(at + 4..at + 4 + length);
            }
            at += 4 + length.next_multiple_of(4);
        }
    }
}

impl Section {
    /// Reads the rest of the first section header, whose type was read.
    pub(super) fn open(input: &mut Input) -> Result<Self, Error> {
        let mut section = Self { big: false, interfaces: Vec::new() };
        let mut length = [0; 4];
        if input.fill(&mut length)? < length.len() {
            return Err(Error::Header("it ends within the section header"));
        }
        match section.begin(length, input)? {
            None => Ok(section),
            Some(reason) => Err(Error::Header(reason)),
        }
    }

    /// Reads a section header behind type and length; what is wrong with it, if anything.
    fn begin(&mut self, length: [u8; 4], input: &mut Input) -> io::Result<Option<&'static str>> {
        let mut head = [0; 8];
        if input.fill(&mut head)? < head.len() {
            return Ok(Some("it ends within the section header"));
        }
        let fields = |big| Fields { bytes: &head, big };
        self.big = match (fields(false).u32(0), fields(true).u32(0)) {
            (Some(BYTE_ORDER), _) => false,
            (_, Some(BYTE_ORDER)) => true,
            _ => return Ok(Some("the section's byte order is unknown")),
        };
        if fields(self.big).u16(4) != Some(1) {
            return Ok(Some("the section is of a version that is not known"));
        }
        let length = if self.big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        // Type, length, byte order and version were read.
        let Some(rest) = length.checked_sub(16).filter(|_| length.is_multiple_of(4)) else {
            return Ok(Some("the section header's length is wrong"));
        };
        if !input.skip(u64::from(rest))? {
            return Ok(Some("it ends within the section header"));
        }
        self.interfaces.clear();
        Ok(None)
    }

    /// The next packet.
    pub(super) fn record(&mut self, input: &mut Input) -> io::Result<Record> {
        loop {
            let mut head = [0; 8];
            match input.fill(&mut head)? {
                0 => return Ok(Record::End),
                8 => {}
                _ => return Ok(Record::Damage("the file ends within the header of a block")),
            }
            let fields = Fields { bytes: &head, big: self.big };
            let (Some(kind), Some(length)) = (fields.u32(0), fields.u32(4)) else {
                return Ok(Record::Damage("the file ends within the header of a block"));
            };
            if kind == SECTION_NUMBER {
                let length = head.last_chunk::<4>().copied().unwrap_or_default();
                if let Some(reason) = self.begin(length, input)? {
                    return Ok(Record::Damage(reason));
                }
                continue;
            }
            let body = match length.checked_sub(BLOCK_OVERHEAD) {
                Some(body) if length.is_multiple_of(4) => body,
                _ => return Ok(Record::Damage("the length of a block is wrong")),
            };
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                if !input.skip(u64::from(body) + 4)? {
                    return Ok(Record::Damage("the file ends within a block"));
                }
                continue;
            }
            if body > BLOCK_BYTES_MAX {
                return Ok(Record::Damage("a block claims to be longer than any can be"));
            }
            let mut block = vec![0; body as usize];
            if input.fill(&mut block)? < block.len() || !input.skip(4)? {
                return Ok(Record::Damage("the file ends within a block"));
            }
            match self.block(kind, &block) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(reason) => return Ok(Record::Damage(reason)),
            }
        }
    }

    fn block(&mut self, kind: u32, block: &[u8]) -> Result<Option<Record>, &'static str> {
        let fields = Fields { bytes: block, big: self.big };
        if kind == INTERFACE {
            let interface = interface(&fields).ok_or("an interface description is too short")?;
            if self.interfaces.len() >= INTERFACES_MAX {
                return Err("there are too many interfaces");
            }
            self.interfaces.push(interface);
            return Ok(None);
        }
        self.packet(kind, &fields).ok_or("a packet block is damaged").map(Some)
    }

    fn packet(&self, kind: u32, fields: &Fields<'_>) -> Option<Record> {
        let (interface, captured, original_len, data_at) = match kind {
            SIMPLE_PACKET => {
                let original_len = fields.u32(0)?;
                let interface = self.interfaces.first()?;
                (interface, original_len.min(interface.snaplen), original_len, 4)
            }
            OLD_PACKET => {
                let interface = self.interfaces.get(usize::from(fields.u16(0)?))?;
                (interface, fields.u32(12)?, fields.u32(16)?, 20)
            }
            _ => {
                let interface = self.interfaces.get(fields.u32(0)? as usize)?;
                (interface, fields.u32(12)?, fields.u32(16)?, 20)
            }
        };
        if captured > FRAME_BYTES_MAX {
            return None;
        }
        let bytes = fields.bytes.get(data_at..data_at + captured as usize)?;
        let time = if kind == SIMPLE_PACKET {
            Time::default()
        } else {
            interface.time(u64::from(fields.u32(4)?) << 32 | u64::from(fields.u32(8)?))
        };
        Some(Record::Frame { time, link: interface.link, bytes: bytes.into(), original_len })
    }
}

fn interface(fields: &Fields<'_>) -> Option<Interface> {
    let link = Link::from(u32::from(fields.u16(0)?));
    let snaplen = match fields.u32(4)? {
        0 => FRAME_BYTES_MAX,
        given => given.min(FRAME_BYTES_MAX),
    };
    let resolution = match fields.option(8, OPTION_TSRESOL) {
        // A negative power of two, or of ten.
        Some([power, ..]) if power & 0x80 != 0 => 1u128 << (power & 0x3f),
        Some([power, ..]) => 10u128.pow(u32::from(*power).min(19)),
        _ => 1_000_000,
    };
    let offset = fields.option(8, OPTION_TSOFFSET).and_then(|value| {
        let value = *value.first_chunk::<8>()?;
        Some(if fields.big { i64::from_be_bytes(value) } else { i64::from_le_bytes(value) })
    });
    Some(Interface { link, snaplen, resolution, offset: offset.unwrap_or_default() })
}

impl Interface {
    fn time(&self, ticks: u64) -> Time {
        let micros = u128::from(ticks) * 1_000_000 / self.resolution;
        let seconds = i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
        Time {
            seconds: seconds.saturating_add(self.offset),
            micros: u32::try_from(micros % 1_000_000).unwrap_or_default(),
        }
    }
}
