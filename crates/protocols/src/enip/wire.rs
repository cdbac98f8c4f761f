//! Messages of EtherNet/IP (CIP volume 2, chapter 2) and of CIP in them (CIP volume 1, appendix C).
//! Numbers are little-endian.

use crate::reader::Reader;

/// Bytes of a message's header.
pub(crate) const HEADER_BYTES: usize = 24;
/// The most messages in one `Multiple_Service_Packet`.
const NESTED_MAX: usize = 1024;
/// The most numbers of one kind (classes, attributes, states ...) that are kept of a message.
const VALUES_MAX: usize = 4096;

pub(crate) mod command {
    pub(crate) const NOP: u16 = 0;
    pub(crate) const LIST_SERVICES: u16 = 4;
    pub(crate) const LIST_IDENTITY: u16 = 0x63;
    pub(crate) const LIST_INTERFACES: u16 = 0x64;
    pub(crate) const REGISTER_SESSION: u16 = 0x65;
    pub(crate) const UNREGISTER_SESSION: u16 = 0x66;
    pub(crate) const SEND_RR_DATA: u16 = 0x6f;
    pub(crate) const SEND_UNIT_DATA: u16 = 0x70;
    pub(crate) const INDICATE_STATUS: u16 = 0x72;
    pub(crate) const CANCEL: u16 = 0x73;
}

mod item {
    pub(super) const IDENTITY: u16 = 0xc;
    pub(super) const CONNECTED_DATA: u16 = 0xb1;
    pub(super) const UNCONNECTED_DATA: u16 = 0xb2;
    pub(super) const SERVICES: u16 = 0x100;
}

/// Services of CIP.
const GET_ATTRIBUTE_LIST: u8 = 3;
const SET_ATTRIBUTE_LIST: u8 = 4;
pub(crate) const MULTIPLE_SERVICE: u8 = 10;
/// The bit of a service that makes it a response.
const RESPONSE: u8 = 0x80;

/// Kinds of logical segments of a path (the segment's type without its format).
pub(crate) const CLASS: u8 = 8;
pub(crate) const INSTANCE: u8 = 9;
pub(crate) const ATTRIBUTE: u8 = 12;

/// A message's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub command: u16,
    /// Bytes behind the header.
    pub length: u16,
    pub session: u32,
    pub status: u32,
    pub options: u32,
}

impl Header {
    /// `None`: there are fewer than 24 bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (command, length) = (reader.le16()?, reader.le16()?);
        let (session, status) = (reader.le32()?, reader.le32()?);
        reader.le64()?;
        Some(Self { command, length, session, status, options: reader.le32()? })
    }

    /// Whether bytes that begin with this header, and go on with these, are EtherNet/IP.
    pub(crate) fn is_likely(&self, body: &[u8]) -> bool {
        if !matches!(self.status, 0..=3 | 0x64 | 0x65 | 0x69 | 0x6a) {
            return false;
        }
        match self.command {
            command::NOP => self.options == 0,
            command::REGISTER_SESSION => self.length == 4,
            command::UNREGISTER_SESSION => matches!(self.length, 0 | 4),
            command::LIST_INTERFACES => {
                let mut reader = Reader::new(body);
                let count = reader.le16();
                count.is_some_and(|count| reader.left() >= 2 * usize::from(count))
            }
            command::LIST_SERVICES
            | command::LIST_IDENTITY
            | command::SEND_RR_DATA
            | command::SEND_UNIT_DATA
            | command::INDICATE_STATUS
            | command::CANCEL => true,
            _ => false,
        }
    }
}

/// A part of a message, for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins, counted from the header.
    pub at: usize,
    /// Its bytes, as it says itself.
    pub len: usize,
}

/// What a device says of itself (`ListIdentity`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub protocol_version: u16,
    pub vendor: u16,
    pub device_type: u16,
    pub product_code: u16,
    /// Major version, then minor version.
    pub revision: [u8; 2],
    pub status: u16,
    pub serial: u32,
    pub name: Vec<u8>,
    pub state: u8,
}

/// What a device offers (`ListServices`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Services {
    pub protocol_version: u16,
    pub capabilities: u16,
    pub name: Vec<u8>,
}

/// What a message carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Body {
    /// Nothing that is read.
    #[default]
    Other,
    /// The version of the protocol that a session shall have.
    Session(u16),
    /// The first item, if it is an identity.
    Identities(Option<Identity>),
    /// The first item, if it is of services.
    Services(Option<Services>),
    Interfaces,
    Cip(CipBody),
}

/// CIP in a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CipBody {
    /// Of connected data in the second item: its number in the connection.
    pub connected: Option<u16>,
    /// The first item with data, from its service on.
    pub bytes: Vec<u8>,
    /// What that one asks for and answers, with those in it.
    pub values: Values,
}

/// Numbers in a message of CIP and in those in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Values {
    pub classes: Vec<u32>,
    pub instances: Vec<u32>,
    pub attributes: Vec<u32>,
    pub status: Vec<u8>,
    pub extended_status: Vec<u16>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub header: Header,
    pub body: Body,
    /// What the header promises is not there.
    pub is_invalid: bool,
    pub items: Vec<Part>,
    pub cips: Vec<Part>,
}

/// Reads a message, and says how long it is. `None`: not all of it is there.
pub(crate) fn read(bytes: &[u8]) -> Option<(Message, usize)> {
    let header = Header::read(bytes)?;
    let length = HEADER_BYTES + usize::from(header.length);
    let data = bytes.get(HEADER_BYTES..length)?;
    let mut message = Message {
        header,
        body: Body::Other,
        is_invalid: false,
        items: Vec::new(),
        cips: Vec::new(),
    };
    let has_items = matches!(
        header.command,
        command::LIST_SERVICES | command::LIST_IDENTITY | command::LIST_INTERFACES
    );
    let read = match header.command {
        command::REGISTER_SESSION => read_session(data).map(|body| (body, Items::default())),
        _ if has_items && header.length > 0 => read_list(header.command, data),
        command::SEND_RR_DATA | command::SEND_UNIT_DATA => read_data(data),
        _ => return Some((message, length)),
    };
    match read {
        Some((body, items)) => {
            message.body = body;
            message.items = items.parts;
            message.cips = items.cips;
        }
        None => message.is_invalid = true,
    }
    Some((message, length))
}

fn read_session(data: &[u8]) -> Option<Body> {
    let mut reader = Reader::new(data);
    let version = reader.le16()?;
    reader.le16()?;
    Some(Body::Session(version))
}

/// What the items of a message say.
#[derive(Default)]
struct Items {
    parts: Vec<Part>,
    cips: Vec<Part>,
    identity: Option<Identity>,
    services: Option<Services>,
    connected: Option<u16>,
    data: Option<(Vec<u8>, Values)>,
}

fn read_list(command: u16, data: &[u8]) -> Option<(Body, Items)> {
    let mut items = read_items(Reader::new(data))?;
    // Only messages that carry CIP have frames of it.
    items.cips.clear();
    let body = match command {
        command::LIST_IDENTITY => Body::Identities(items.identity.take()),
        command::LIST_SERVICES => Body::Services(items.services.take()),
        _ => Body::Interfaces,
    };
    Some((body, items))
}

fn read_data(data: &[u8]) -> Option<(Body, Items)> {
    let mut reader = Reader::new(data);
    // The interface's handle, and a timeout.
    reader.skip(6)?;
    let mut items = read_items(reader)?;
    let (bytes, values) = items.data.take().unwrap_or_default();
    Some((Body::Cip(CipBody { connected: items.connected, bytes, values }), items))
}

fn read_items(mut reader: Reader<'_>) -> Option<Items> {
    let mut items = Items::default();
    let count = reader.le16()?;
    for place in 0..count {
        let at = HEADER_BYTES + reader.position();
        let (kind, length) = (reader.le16()?, usize::from(reader.le16()?));
        let data = reader.take(length)?;
        items.parts.push(Part { at, len: 4 + length });
        match kind {
            item::IDENTITY => {
                let identity = read_identity(data)?;
                items.identity = items.identity.or((place == 0).then_some(identity));
            }
            item::SERVICES => {
                let services = read_services(data)?;
                items.services = items.services.or((place == 0).then_some(services));
            }
            item::CONNECTED_DATA => {
                let number = u16::from_le_bytes(*data.first_chunk()?);
                if place == 1 {
                    items.connected = Some(number);
                }
                items.cip(data.get(2..)?, Part { at: at + 6, len: length })?;
            }
            item::UNCONNECTED_DATA => items.cip(data, Part { at: at + 4, len: length })?,
            _ => {}
        }
    }
    Some(items)
}

impl Items {
    fn cip(&mut self, bytes: &[u8], part: Part) -> Option<()> {
        let cip = Cip::read(bytes)?;
        self.cips.push(part);
        let nested = cip.nested.iter().map(|(inner, _)| Part { at: part.at + inner.at, ..*inner });
        self.cips.extend(nested);
        if self.data.is_none() {
            let mut values = Values::default();
            cip.gather(&mut values);
            self.data = Some((bytes.to_vec(), values));
        }
        Some(())
    }
}

fn read_identity(data: &[u8]) -> Option<Identity> {
    let mut reader = Reader::new(data);
    let protocol_version = reader.le16()?;
    // A socket's address.
    reader.skip(16)?;
    Some(Identity {
        protocol_version,
        vendor: reader.le16()?,
        device_type: reader.le16()?,
        product_code: reader.le16()?,
        revision: reader.array()?,
        status: reader.le16()?,
        serial: reader.le32()?,
        name: reader.prefixed8()?.to_vec(),
        state: reader.u8()?,
    })
}

fn read_services(data: &[u8]) -> Option<Services> {
    let mut reader = Reader::new(data);
    Some(Services {
        protocol_version: reader.le16()?,
        capabilities: reader.le16()?,
        name: reader.take(16)?.to_vec(),
    })
}

/// A request or response of CIP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cip {
    pub service: u8,
    pub is_response: bool,
    /// Segments of a request's path: their kinds and values.
    pub path: Vec<(u8, u32)>,
    /// Attributes that a request lists.
    pub attributes: Vec<u16>,
    status: u8,
    extended_status: Option<u16>,
    /// Those in a `Multiple_Service_Packet`, with their places in it.
    pub nested: Vec<(Part, Cip)>,
}

impl Cip {
    /// `None`: something is missing.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self::take(bytes, true)?.0)
    }

    /// Also says how long it is. Those in another one have none in them.
    fn take(bytes: &[u8], is_outer: bool) -> Option<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        let service = reader.u8()?;
        let mut cip = Self {
            service: service & !RESPONSE,
            is_response: service & RESPONSE != 0,
            ..Self::default()
        };
        if cip.is_response {
            reader.u8()?;
            cip.status = reader.u8()?;
            let extended = reader.prefixed8()?;
            cip.extended_status = extended.try_into().ok().map(u16::from_le_bytes);
        } else {
            cip.path = read_path(&mut reader)?;
        }
        match (cip.service, cip.is_response) {
            (MULTIPLE_SERVICE, _) if is_outer => cip.read_nested(&mut reader)?,
            (GET_ATTRIBUTE_LIST, false) => {
                let count = usize::from(reader.le16()?);
                let list = reader.take(2 * count)?.chunks_exact(2).take(VALUES_MAX);
                let numbers = list.filter_map(|pair| pair.try_into().ok().map(u16::from_le_bytes));
                cip.attributes = numbers.collect();
            }
            // What follows the first attribute depends on the class.
            (SET_ATTRIBUTE_LIST, false) if reader.le16()? > 0 => {
                cip.attributes = vec![reader.le16()?];
            }
            _ => {}
        }
        Some((cip, reader.position()))
    }

    fn read_nested(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let (base, list) = (reader.position(), reader.rest());
        let count = usize::from(reader.le16()?);
        let mut places = Reader::new(reader.take(2 * count)?);
        for _ in 0..count.min(NESTED_MAX) {
            let place = usize::from(places.le16()?);
            let (cip, len) = Self::take(list.get(place..)?, false)?;
            self.nested.push((Part { at: base + place, len }, cip));
        }
        Some(())
    }

    fn gather(&self, values: &mut Values) {
        if self.is_response {
            push(&mut values.status, self.status);
            if let Some(status) = self.extended_status {
                push(&mut values.extended_status, status);
            }
        }
        for (kind, value) in &self.path {
            match *kind {
                CLASS => push(&mut values.classes, *value),
                INSTANCE => push(&mut values.instances, *value),
                ATTRIBUTE => push(&mut values.attributes, *value),
                _ => {}
            }
        }
        for attribute in &self.attributes {
            push(&mut values.attributes, u32::from(*attribute));
        }
        for (_, cip) in &self.nested {
            cip.gather(values);
        }
    }
}

fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() < VALUES_MAX {
        list.push(value);
    }
}

/// A path of logical segments, whose length is in words.
fn read_path(reader: &mut Reader<'_>) -> Option<Vec<(u8, u32)>> {
    let words = usize::from(reader.u8()?);
    let mut segments = Reader::new(reader.take(2 * words)?);
    let mut path = Vec::new();
    while !segments.is_empty() {
        let kind = segments.u8()?;
        if kind >> 5 != 1 {
            return None;
        }
        let value = match kind & 3 {
            0 => segments.u8()?.into(),
            1 => {
                segments.u8()?;
                segments.le16()?.into()
            }
            2 => {
                segments.u8()?;
                segments.le32()?
            }
            _ => return None,
        };
        path.push((kind >> 2, value));
    }
    Some(path)
}
