//! Units of DCE/RPC (DCE 1.1, C706 chapter 12; MS-RPCE).

use crate::reader::Reader;

/// Bytes of the header of connections.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the header of datagrams.
pub const DATAGRAM_HEADER_BYTES: usize = 80;

/// Types of units.
pub mod kind {
    #![allow(missing_docs)]
    pub const REQUEST: u8 = 0;
    pub const RESPONSE: u8 = 2;
    pub const BIND: u8 = 11;
    pub const BIND_ACK: u8 = 12;
    pub const ALTER_CONTEXT: u8 = 14;
    pub const ALTER_CONTEXT_RESPONSE: u8 = 15;
    pub const UNKNOWN: u8 = 99;
}

/// The first unit of a call.
pub const FIRST_FRAGMENT: u8 = 1;
/// The last unit of a call.
pub const LAST_FRAGMENT: u8 = 2;

/// Byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    pub(crate) fn u16(self, reader: &mut Reader<'_>) -> Option<u16> {
        match self {
            Order::Big => reader.be16(),
            Order::Little => reader.le16(),
        }
    }

    pub(crate) fn u32(self, reader: &mut Reader<'_>) -> Option<u32> {
        match self {
            Order::Big => reader.be32(),
            Order::Little => reader.le32(),
        }
    }
}

/// The header of a unit on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 5.
    pub version: u8,
    /// 0 or 1.
    pub minor: u8,
    /// See [`kind`].
    pub kind: u8,
    /// [`FIRST_FRAGMENT`], [`LAST_FRAGMENT`].
    pub flags: u8,
    /// How data is represented.
    pub representation: [u8; 4],
    /// Bytes of the unit with its header.
    pub length: u16,
    /// Number of the call.
    pub call: u32,
}

impl Header {
    /// Reads it; `None` if it is cut.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [version, minor, kind, flags] = reader.array()?;
        let representation: [u8; 4] = reader.array()?;
        let order = order_of(representation);
        let length = order.u16(reader)?;
        reader.skip(2)?;
        let call = order.u32(reader)?;
        Some(Self { version, minor, kind, flags, representation, length, call })
    }

    /// Byte order of the unit.
    pub fn order(&self) -> Order {
        order_of(self.representation)
    }
}

fn order_of(representation: [u8; 4]) -> Order {
    if representation[0] & 0x10 == 0 { Order::Big } else { Order::Little }
}

/// An interface that a client binds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Number of the context, which requests name.
    pub context: u16,
    /// In the order in which it is written.
    pub uuid: [u8; 16],
    /// Version.
    pub version: u16,
    /// Minor version.
    pub minor: u16,
    /// Its place in the list of the bind.
    pub place: u16,
    /// Number of the bind's call.
    pub call: u32,
    /// It came in a first fragment.
    pub is_first_fragment: bool,
    /// What the server said: 0 is accepted.
    pub result: Option<u16>,
}

impl Interface {
    /// Whether the server accepted it.
    pub fn is_accepted(&self) -> bool {
        self.result == Some(0)
    }

    /// As rules see it: the UUID's 16 bytes, the version's two (big-endian), and 1 if it came in a
    /// first fragment.
    pub fn key(&self) -> [u8; 19] {
        let mut key = [0; 19];
        let version = self.version.to_be_bytes();
        let last = [u8::from(self.is_first_fragment)];
        let bytes = self.uuid.iter().chain(&version).chain(&last);
        for (place, byte) in key.iter_mut().zip(bytes) {
            *place = *byte;
        }
        key
    }

    /// Its UUID as text.
    pub fn uuid_text(&self) -> String {
        let mut text = String::with_capacity(36);
        for (place, byte) in self.uuid.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

/// Interfaces of a bind, behind the header; `None` if it is cut.
pub fn read_bind(body: &[u8], header: &Header) -> Option<Vec<Interface>> {
    let order = header.order();
    let mut reader = Reader::new(body);
    reader.skip(8)?;
    let count = reader.u8()?;
    reader.skip(3)?;
    let mut interfaces = Vec::new();
    for place in 0..u16::from(count) {
        let context = order.u16(&mut reader)?;
        reader.skip(2)?;
        let uuid = uuid(reader.array()?, order);
        let version = order.u16(&mut reader)?;
        let minor = order.u16(&mut reader)?;
        reader.skip(20)?;
        interfaces.push(Interface {
            context,
            uuid,
            version,
            minor,
            place,
            call: header.call,
            is_first_fragment: header.flags & FIRST_FRAGMENT != 0,
            result: None,
        });
    }
    Some(interfaces)
}

/// The first three numbers of a UUID are in the unit's byte order.
pub fn uuid(bytes: [u8; 16], order: Order) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let head = match order {
        Order::Big => return bytes,
        Order::Little => [d, c, b, a, f, e, h, g],
    };
    let mut uuid = [0; 16];
    for (place, byte) in uuid.iter_mut().zip(head.iter().chain(&rest)) {
        *place = *byte;
    }
    uuid
}

/// Results of a bind, in the order of its interfaces; `None` if it is cut.
pub fn read_bind_ack(body: &[u8]) -> Option<Vec<u16>> {
    let mut reader = Reader::new(body);
    reader.skip(8)?;
    let length = reader.le16()?;
    reader.skip(usize::from(length))?;
    let beyond = usize::from(length.wrapping_add(2) % 4);
    if beyond != 0 {
        reader.skip(4 - beyond)?;
    }
    let count = reader.u8()?;
    reader.skip(3)?;
    let mut results = Vec::new();
    for _ in 0..count {
        results.push(reader.le16()?);
        reader.skip(22)?;
    }
    Some(results)
}

/// Context and operation of a request.
pub fn read_request(body: &[u8], order: Order) -> Option<(u16, u16)> {
    let mut reader = Reader::new(body);
    reader.skip(4)?;
    Some((order.u16(&mut reader)?, order.u16(&mut reader)?))
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// 4.
    pub version: u8,
    /// See [`kind`].
    pub kind: u8,
    /// Flags.
    pub flags: [u8; 2],
    /// How data is represented.
    pub representation: [u8; 3],
    /// The conversation.
    pub activity: [u8; 16],
    /// Number of the call in it.
    pub sequence: u32,
    /// Bytes behind the header.
    pub length: u16,
    /// Number of the fragment.
    pub fragment: u16,
}

impl DatagramHeader {
    /// Reads it; `None` if it is cut.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [version, kind, first, second] = reader.array()?;
        let representation: [u8; 3] = reader.array()?;
        let order = if representation[0] == 0 { Order::Big } else { Order::Little };
        reader.skip(1 + 16 + 16)?;
        let activity = uuid(reader.array()?, Order::Little);
        reader.skip(8)?;
        let sequence = order.u32(reader)?;
        reader.skip(6)?;
        let length = order.u16(reader)?;
        let fragment = order.u16(reader)?;
        reader.skip(2)?;
        let flags = [first, second];
        Some(Self { version, kind, flags, representation, activity, sequence, length, fragment })
    }

    /// The call's last datagram.
    pub fn is_last(&self) -> bool {
        let [flags, _] = self.flags;
        flags & 0x04 == 0 || flags & 0x02 != 0
    }
}

/// A type as records name it.
pub fn kind_name(kind: u8) -> String {
    const NAMES: [&str; 21] = [
        "REQUEST",
        "PING",
        "RESPONSE",
        "FAULT",
        "WORKING",
        "NOCALL",
        "REJECT",
        "ACK",
        "CL_CANCEL",
        "FACK",
        "CANCEL_ACK",
        "BIND",
        "BINDACK",
        "BINDNAK",
        "ALTER_CONTEXT",
        "ALTER_CONTEXT_RESP",
        "AUTH3",
        "SHUTDOWN",
        "CO_CANCEL",
        "ORPHANED",
        "RTS",
    ];
    match NAMES.get(usize::from(kind)) {
        Some(name) => (*name).to_owned(),
        None if kind == kind::UNKNOWN => "UNKNOWN".to_owned(),
        None => kind.to_string(),
    }
}
