//! Messages: a head of seven bytes, a function and its data (Modbus application protocol 1.1b).

use std::ops::RangeInclusive;

use gauntlet_packet::Direction;

use crate::reader::Reader;
use crate::record::Fields;

/// Bytes that a message may have behind its length.
const LENGTHS: RangeInclusive<u16> = 2..=254;

/// Functions of responses that are exceptions have this bit.
const EXCEPTION: u8 = 0x80;

/// The most bits, and the most registers, that a request may ask for.
const BITS_MAX: u16 = 2000;
const REGISTERS_MAX: u16 = 125;

/// Bytes of data that a response to a read may have.
const READ_BYTES: RangeInclusive<u8> = 1..=250;

const DIAGNOSTIC: u8 = 8;
const INTERFACE: u8 = 43;

/// What a message's data has to do with the device's tables.
pub(super) mod access {
    pub(crate) const READ: u8 = 1;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const DISCRETES: u8 = 4;
    pub(crate) const COILS: u8 = 8;
    pub(crate) const INPUT: u8 = 16;
    pub(crate) const HOLDING: u8 = 32;
    pub(crate) const SINGLE: u8 = 64;
    pub(crate) const MULTIPLE: u8 = 128;
    pub(crate) const TABLES: u8 = DISCRETES | COILS | INPUT | HOLDING;
    pub(crate) const BITS: u8 = DISCRETES | COILS;
}

/// Whose a function is.
pub(super) mod category {
    pub(crate) const ASSIGNED: u8 = 1;
    pub(crate) const UNASSIGNED: u8 = 2;
    pub(crate) const USER: u8 = 4;
    pub(crate) const RESERVED: u8 = 8;
}

/// What is wrong with a message.
pub(super) mod defect {
    pub(crate) const VALUE: u8 = 1;
    pub(crate) const LENGTH: u8 = 2;
    pub(crate) const EXCEPTION: u8 = 4;
    pub(crate) const FUNCTION: u8 = 8;
    pub(crate) const PROTOCOL: u8 = 16;
}

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Response,
    Unknown,
}

impl From<Direction> for Way {
    fn from(direction: Direction) -> Self {
        if direction == Direction::ToServer { Self::Request } else { Self::Response }
    }
}

/// What is written to several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Several {
    pub(super) address: u16,
    pub(super) quantity: u16,
    pub(super) data: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    Empty,
    Exception,
    Diagnostic(u16),
    Interface(u8),
    ReadRequest { address: u16, quantity: u16 },
    ReadResponse(usize),
    Write { address: u16, value: u16 },
    WriteSeveral(Several),
    Mask { address: u16, masks: (u16, u16) },
    ReadWrite { quantity: u16, write: Several },
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u16,
    pub(super) protocol: u16,
    length: u16,
    pub(super) unit: u8,
    /// The function as it was sent, with the bit of exceptions.
    pub(super) function: u8,
    pub(super) access: u8,
    pub(super) category: u8,
    pub(super) data: Data,
    pub(super) defects: u8,
}

fn access_of(function: u8) -> u8 {
    use access::{COILS, DISCRETES, HOLDING, INPUT, MULTIPLE, READ, SINGLE, WRITE};
    match function {
        1 => COILS | READ,
        2 => DISCRETES | READ,
        3 => HOLDING | READ,
        4 => INPUT | READ,
        5 => COILS | WRITE | SINGLE,
        6 => HOLDING | WRITE | SINGLE,
        15 => COILS | WRITE | MULTIPLE,
        16 => HOLDING | WRITE | MULTIPLE,
        22 => HOLDING | WRITE,
        23 => HOLDING | READ | WRITE | MULTIPLE,
        _ => 0,
    }
}

/// Whose functions are that are no known ones.
fn category_of(function: u8) -> u8 {
    match function {
        0 | 128.. => 0,
        9..=14 | 41 | 42 | 90 | 91 | 125..=127 => category::RESERVED,
        65..=72 | 100..=110 => category::USER,
        _ => category::UNASSIGNED,
    }
}

/// Reads a message: it and its length, or how many bytes are missing at least.
pub(super) fn read(bytes: &[u8], way: Way) -> Result<(Message, usize), usize> {
    let mut reader = Reader::new(bytes);
    let head = (reader.be16(), reader.be16(), reader.be16());
    let (Some(id), Some(protocol), Some(length)) = head else { return Err(1) };
    let mut message = Message {
        id,
        protocol,
        length,
        unit: 0,
        function: 0,
        access: 0,
        category: 0,
        data: Data::Empty,
        defects: if protocol == 0 { 0 } else { defect::PROTOCOL },
    };
    if !LENGTHS.contains(&length) {
        message.defects |= defect::LENGTH;
        let skipped = reader.left().min(usize::from(length));
        return Ok((message, reader.position() + skipped));
    }
    let data = reader
        .take(usize::from(length))
        .ok_or_else(|| usize::from(length).saturating_sub(reader.left()))?;
    message.take(data, way);
    Ok((message, reader.position()))
}

impl Message {
    fn code(&self) -> u8 {
        self.function & !EXCEPTION
    }

    /// The function is one that has a name.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.code(), 1..=24 | INTERFACE)
    }

    pub(super) fn has_access(&self) -> bool {
        self.access & (access::READ | access::WRITE) != 0
    }

    /// What is behind the length.
    fn take(&mut self, bytes: &[u8], way: Way) {
        let mut reader = Reader::new(bytes);
        let (Some(unit), Some(function)) = (reader.u8(), reader.u8()) else { return };
        (self.unit, self.function) = (unit, function);
        self.access = access_of(self.code());
        let read = match way {
            Way::Request => self.take_request(&mut reader),
            _ if function & EXCEPTION != 0 => self.take_exception(&mut reader),
            Way::Response => self.take_response(&mut reader),
            Way::Unknown => match function {
                DIAGNOSTIC => self.take_diagnostic(&mut reader),
                INTERFACE => self.take_interface(&mut reader),
                _ => self.take_other(&mut reader),
            },
        };
        if read.is_none() {
            self.defects |= defect::LENGTH;
            if self.data == Data::Empty {
                self.data = Data::Other;
            }
        } else if !reader.is_empty() {
            self.defects |= defect::LENGTH;
        }
        self.category = match (self.code(), &self.data) {
            (DIAGNOSTIC, Data::Diagnostic(5..=9 | 22..)) => category::RESERVED,
            (INTERFACE, Data::Interface(kind)) if !matches!(kind, 13 | 14) => category::RESERVED,
            (DIAGNOSTIC, Data::Diagnostic(_)) | (INTERFACE, Data::Interface(_)) => {
                category::ASSIGNED
            }
            (DIAGNOSTIC | INTERFACE, _) => 0,
            _ if self.is_known() => category::ASSIGNED,
            _ => category_of(self.function),
        };
    }

    fn flag(&mut self, is_wrong: bool, defect: u8) {
        if is_wrong {
            self.defects |= defect;
        }
    }

    fn take_exception(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let code = reader.u8()?;
        let function = self.code();
        let is_wrong = match code {
            3 => function == DIAGNOSTIC,
            2 => matches!(function, 7..=14 | 17..=21),
            8 => !matches!(function, 20 | 21),
            1 | 4..=7 | 10 | 11 => false,
            _ => true,
        };
        self.flag(is_wrong, defect::EXCEPTION);
        self.data = Data::Exception;
        Some(())
    }

    fn take_diagnostic(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let kind = reader.be16()?;
        reader.take_rest();
        self.data = Data::Diagnostic(kind);
        Some(())
    }

    fn take_interface(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let kind = reader.u8()?;
        reader.take_rest();
        self.data = Data::Interface(kind);
        Some(())
    }

    fn take_other(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        reader.take_rest();
        self.data = Data::Other;
        Some(())
    }

    fn take_request(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let length = reader.left();
        match self.code() {
            DIAGNOSTIC => {
                let value = reader.rest().get(2..4).map(<[u8]>::to_vec);
                self.flag(length != 4, defect::LENGTH);
                self.take_diagnostic(reader)?;
                if let (Data::Diagnostic(kind), Some(value), 4) = (&self.data, value, length) {
                    let is_fine = matches!(
                        (kind, value.as_slice()),
                        (0 | 4 | 5..=9 | 22.., _) | (_, [0, 0]) | (1, [0xff, 0]) | (3, [_, 0])
                    );
                    self.flag(!is_fine, defect::VALUE);
                }
                return Some(());
            }
            INTERFACE => return self.take_interface(reader),
            20 | 21 if length == 0 => self.flag(true, defect::LENGTH),
            7 | 11 | 12 | 17 if length > 0 => self.flag(true, defect::LENGTH),
            24 if length != 2 => self.flag(true, defect::LENGTH),
            _ => {
                let is_wrong = self.function == 0 || self.function & EXCEPTION != 0;
                self.flag(is_wrong, defect::FUNCTION);
                if self.access & access::READ != 0 {
                    self.take_read_request(reader)?;
                    if self.access & access::WRITE == 0 {
                        return Some(());
                    }
                }
                if self.access & access::WRITE != 0 {
                    return self.take_write_request(reader);
                }
            }
        }
        self.take_other(reader)
    }

    fn take_read_request(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let (address, quantity) = (reader.be16()?, reader.be16()?);
        let most = if self.access & access::BITS != 0 { BITS_MAX } else { REGISTERS_MAX };
        self.flag(quantity == 0 || quantity > most, defect::VALUE);
        self.data = Data::ReadRequest { address, quantity };
        Some(())
    }

    fn take_write_request(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let address = reader.be16()?;
        if self.access & access::SINGLE != 0 {
            let value = reader.be16()?;
            let is_coil = self.access & access::COILS != 0;
            self.flag(is_coil && !matches!(value, 0 | 0xff00), defect::VALUE);
            self.data = Data::Write { address, value };
        } else if self.access & access::MULTIPLE != 0 {
            let (quantity, count) = (reader.be16()?, reader.u8()?);
            let count = usize::from(count);
            self.flag(quantity == 0 || reader.left() != count, defect::LENGTH);
            let (most, wanted) = if self.access & access::BITS != 0 {
                (BITS_MAX, usize::from(quantity.div_ceil(8)))
            } else {
                (REGISTERS_MAX, 2 * usize::from(quantity))
            };
            self.flag(quantity > most || count != wanted, defect::VALUE);
            let write = Several { address, quantity, data: reader.take_rest().to_vec() };
            self.data = match self.data {
                Data::ReadRequest { quantity, .. } => Data::ReadWrite { quantity, write },
                _ => Data::WriteSeveral(write),
            };
        } else {
            self.data = Data::Mask { address, masks: (reader.be16()?, reader.be16()?) };
        }
        Some(())
    }

    fn take_response(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        match self.code() {
            DIAGNOSTIC => return self.take_diagnostic(reader),
            INTERFACE => return self.take_interface(reader),
            7 if reader.left() != 1 => self.flag(true, defect::LENGTH),
            11 if reader.left() != 4 => self.flag(true, defect::LENGTH),
            _ if self.access & access::READ != 0 => {
                let count = reader.u8()?;
                let left = reader.take_rest().len();
                let is_fine = READ_BYTES.contains(&count) && left == usize::from(count);
                self.flag(!is_fine, defect::VALUE);
                self.data = Data::ReadResponse(left);
                return Some(());
            }
            _ if self.access & access::WRITE != 0 => return self.take_write_response(reader),
            _ => {}
        }
        self.take_other(reader)
    }

    fn take_write_response(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let address = reader.be16()?;
        if self.access & (access::SINGLE | access::MULTIPLE) == 0 {
            self.data = Data::Mask { address, masks: (reader.be16()?, reader.be16()?) };
            return Some(());
        }
        let value = reader.be16()?;
        if self.access & access::MULTIPLE != 0 {
            let most = if self.access & access::BITS != 0 { REGISTERS_MAX } else { BITS_MAX };
            self.flag(value == 0 || value > most, defect::VALUE);
        }
        self.data = Data::Write { address, value };
        Some(())
    }

    /// Whether the two belong together; notes if what they say differs.
    pub(super) fn answers(&mut self, other: &Self) -> bool {
        let same = self.id == other.id && self.unit == other.unit && self.code() == other.code();
        if !same || self.is_known() != other.is_known() || self.access != other.access {
            return false;
        }
        if self.category != category::ASSIGNED || other.data == Data::Exception {
            return true;
        }
        let has_length = |message: &Self| message.defects & defect::LENGTH != 0;
        let agrees = match (&self.data, &other.data) {
            (Data::Exception, _) | (Data::Other, Data::Other) => true,
            (Data::Other, _) => return has_length(self),
            (_, Data::Other) => return has_length(other),
            (Data::ReadResponse(bytes), Data::ReadRequest { quantity, .. })
            | (Data::ReadRequest { quantity, .. }, Data::ReadResponse(bytes)) => {
                *bytes == usize::from(quantity.div_ceil(8))
            }
            (Data::ReadResponse(bytes), Data::ReadWrite { quantity, .. })
            | (Data::ReadWrite { quantity, .. }, Data::ReadResponse(bytes)) => {
                *bytes == 2 * usize::from(*quantity)
            }
            (Data::Write { .. }, Data::Write { .. }) | (Data::Mask { .. }, Data::Mask { .. }) => {
                self.data == other.data
            }
            (Data::Write { address, value }, Data::WriteSeveral(several))
            | (Data::WriteSeveral(several), Data::Write { address, value }) => {
                (*address, *value) == (several.address, several.quantity)
            }
            (Data::Diagnostic(one), Data::Diagnostic(two)) => return one == two,
            (Data::Interface(one), Data::Interface(two)) => return one == two,
            _ => return false,
        };
        self.flag(!agrees, defect::VALUE);
        true
    }

    /// Places that are read or written, counted from 1.
    pub(super) fn places(&self) -> Option<RangeInclusive<u16>> {
        let (address, quantity) = match &self.data {
            Data::Write { address, .. } | Data::Mask { address, .. } => (*address, 1),
            Data::ReadRequest { address, quantity } => (*address, *quantity),
            Data::WriteSeveral(write) | Data::ReadWrite { write, .. } => {
                (write.address, write.quantity)
            }
            _ => return None,
        };
        let last = address.checked_add(quantity)?;
        (quantity > 0).then(|| address.saturating_add(1)..=last)
    }

    /// What is written to a place, counted from 1.
    pub(super) fn written(&self, place: u16) -> Option<u16> {
        if self.places().is_some_and(|places| !places.contains(&place)) {
            return None;
        }
        let is_coil = self.access & access::COILS != 0;
        match &self.data {
            Data::Write { value, .. } if self.access & access::SINGLE != 0 => {
                Some(if is_coil { u16::from(*value != 0) } else { *value })
            }
            Data::WriteSeveral(write) | Data::ReadWrite { write, .. } => {
                let index = place.checked_sub(write.address.checked_add(1)?)?;
                let at = usize::from(index) * 2;
                // As registers: two bytes are read, of coils too.
                let at = if is_coil { at >> 3 } else { at };
                let pair = write.data.get(at..at + 2)?.try_into().ok()?;
                let value = u16::from_be_bytes(pair);
                Some(if is_coil { value >> (index & 7) & 1 } else { value })
            }
            _ => None,
        }
    }

    pub(super) fn describe(&self) -> Fields {
        let mut fields = Fields::default();
        fields.number("transaction_id", i64::from(self.id));
        fields.number("protocol_id", i64::from(self.protocol));
        fields.number("unit_id", i64::from(self.unit));
        fields.number("function_raw", i64::from(self.function));
        fields
    }
}
