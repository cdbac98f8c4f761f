//! Control packets of MQTT 3.1, 3.1.1 and 5.

use crate::reader::Reader;

/// The most properties, topics or codes of one packet that are kept.
const LIST_MAX: usize = 1024;

/// Bytes of a variable number at most.
const VARIABLE_BYTES_MAX: u32 = 4;

/// Kinds of control packets.
pub mod kind {
    /// The client introduces itself.
    pub const CONNECT: u8 = 1;
    /// What the server says to that.
    pub const CONNACK: u8 = 2;
    /// A message.
    pub const PUBLISH: u8 = 3;
    /// It came (quality 1).
    pub const PUBACK: u8 = 4;
    /// It came (quality 2).
    pub const PUBREC: u8 = 5;
    /// It may be forgotten.
    pub const PUBREL: u8 = 6;
    /// It is forgotten.
    pub const PUBCOMP: u8 = 7;
    /// The client wants messages.
    pub const SUBSCRIBE: u8 = 8;
    /// What the server says to that.
    pub const SUBACK: u8 = 9;
    /// The client wants them no more.
    pub const UNSUBSCRIBE: u8 = 10;
    /// What the server says to that.
    pub const UNSUBACK: u8 = 11;
    /// Are you there?
    pub const PINGREQ: u8 = 12;
    /// Yes.
    pub const PINGRESP: u8 = 13;
    /// The end.
    pub const DISCONNECT: u8 = 14;
    /// More of signing in.
    pub const AUTH: u8 = 15;
}

/// Bits of CONNECT's flags.
pub mod connect {
    /// There is a name.
    pub const USERNAME: u8 = 0x80;
    /// There is a password.
    pub const PASSWORD: u8 = 0x40;
    /// The will is to be kept.
    pub const WILL_RETAIN: u8 = 0x20;
    /// There is a will.
    pub const WILL: u8 = 0x04;
    /// Nothing of earlier sessions counts.
    pub const CLEAN: u8 = 0x02;
}

/// Why a packet cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// More bytes are needed.
    Incomplete,
    /// It is broken.
    Invalid,
}

/// The head that all packets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: u8,
    /// It was sent before.
    pub is_again: bool,
    /// Quality of service.
    pub quality: u8,
    /// It is to be kept.
    pub is_kept: bool,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Bytes behind the head.
    pub body_bytes: usize,
}

/// A property's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// A number.
    Number(&'static str, u32),
    /// Text or bytes.
    Text(&'static str, Vec<u8>),
    /// A named text.
    Named(Vec<u8>, Vec<u8>),
}

/// How the client introduces itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connect {
    /// The protocol's name.
    pub protocol: Vec<u8>,
    /// Its version.
    pub version: u8,
    /// See [`connect`].
    pub flags: u8,
    /// The client's name for itself.
    pub client: Vec<u8>,
    /// The will's properties.
    pub will_properties: Vec<Property>,
    /// The will's topic.
    pub will_topic: Option<Vec<u8>>,
    /// The will.
    pub will_message: Option<Vec<u8>>,
    /// User's name.
    pub user: Option<Vec<u8>>,
    /// Password.
    pub password: Option<Vec<u8>>,
}

/// What a packet says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// CONNECT.
    Connect(Box<Connect>),
    /// CONNACK: whether there was a session, and a code.
    Connack(bool, u8),
    /// PUBLISH: topic, number, message.
    Publish(Vec<u8>, Option<u16>, Vec<u8>),
    /// Number and perhaps a reason.
    Number(u16, Option<u8>),
    /// SUBSCRIBE and UNSUBSCRIBE: number, topics with qualities.
    Topics(u16, Vec<(Vec<u8>, u8)>),
    /// SUBACK and UNSUBACK: number, codes.
    Codes(u16, Vec<u8>),
    /// DISCONNECT and AUTH.
    Reason(Option<u8>),
    /// Nothing.
    Empty,
    /// It was too long to be read; bytes with the head.
    TooLong(usize),
}

/// A control packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its head.
    pub head: Head,
    /// What it says.
    pub body: Body,
    /// Its properties (version 5).
    pub properties: Vec<Property>,
}

/// A number of one to four bytes, and how many they are.
fn variable(bytes: &[u8]) -> Result<(u32, usize), Defect> {
    let mut value = 0;
    for (place, shift) in (0..VARIABLE_BYTES_MAX).enumerate() {
        let byte = *bytes.get(place).ok_or(Defect::Incomplete)?;
        value |= u32::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            return Ok((value, place + 1));
        }
    }
    Err(Defect::Invalid)
}

impl Head {
    /// Reads a head.
    pub fn read(bytes: &[u8]) -> Result<Self, Defect> {
        let (first, rest) = bytes.split_first().ok_or(Defect::Incomplete)?;
        let (length, length_bytes) = variable(rest)?;
        Ok(Self {
            kind: first >> 4,
            is_again: first & 8 != 0,
            quality: (first >> 1) & 3,
            is_kept: first & 1 != 0,
            head_bytes: 1 + length_bytes,
            body_bytes: usize::try_from(length).unwrap_or(usize::MAX),
        })
    }
}

impl Packet {
    /// Reads a packet of a session with this version; its bytes are `head.head_bytes +
    /// head.body_bytes`. Bodies of more than `bytes_max` are not read.
    pub fn read(bytes: &[u8], version: u8, bytes_max: usize) -> Result<Self, Defect> {
        let head = Head::read(bytes)?;
        let whole = head.head_bytes + head.body_bytes;
        if head.body_bytes > bytes_max {
            return Ok(Self { head, body: Body::TooLong(whole), properties: Vec::new() });
        }
        let body = bytes.get(head.head_bytes..whole).ok_or(Defect::Incomplete)?;
        let (body, properties) = read_body(&head, body, version).ok_or(Defect::Invalid)?;
        Ok(Self { head, body, properties })
    }
}

fn read_body(head: &Head, bytes: &[u8], version: u8) -> Option<(Body, Vec<Property>)> {
    let is_new = version == 5;
    let mut reader = Reader::new(bytes);
    Some(match head.kind {
        kind::CONNECT => return read_connect(&mut reader),
        kind::CONNACK => {
            let flags = reader.u8()?;
            let code = reader.u8()?;
            let properties = properties(&mut reader, is_new)?;
            (Body::Connack(flags & 1 != 0, code), properties)
        }
        kind::PUBLISH => {
            let topic = reader.prefixed16()?.to_vec();
            let number = if head.quality > 0 { Some(reader.be16()?) } else { None };
            let properties = properties(&mut reader, is_new)?;
            (Body::Publish(topic, number, reader.take_rest().to_vec()), properties)
        }
        kind::PUBACK | kind::PUBREC | kind::PUBREL | kind::PUBCOMP => {
            let number = reader.be16()?;
            let (reason, properties) = if version < 5 {
                (None, Vec::new())
            } else if reader.is_empty() {
                (Some(0), Vec::new())
            } else {
                let reason = reader.u8()?;
                let some = !reader.is_empty();
                (Some(reason), properties(&mut reader, some)?)
            };
            (Body::Number(number, reason), properties)
        }
        kind::SUBSCRIBE | kind::UNSUBSCRIBE => {
            let number = reader.be16()?;
            let properties = properties(&mut reader, is_new)?;
            let topics = topics(&mut reader, head.kind == kind::SUBSCRIBE);
            if topics.is_empty() && head.kind == kind::SUBSCRIBE {
                return None;
            }
            (Body::Topics(number, topics), properties)
        }
        kind::SUBACK | kind::UNSUBACK => {
            let number = reader.be16()?;
            let properties = properties(&mut reader, is_new)?;
            let codes = reader.take_rest();
            (Body::Codes(number, codes.iter().copied().take(LIST_MAX).collect()), properties)
        }
        kind::DISCONNECT if version < 5 => (Body::Reason(None), Vec::new()),
        // A lone reason counts as none.
        kind::DISCONNECT if bytes.len() < 2 => (Body::Reason(Some(0)), Vec::new()),
        kind::DISCONNECT | kind::AUTH => {
            let reason = reader.u8()?;
            (Body::Reason(Some(reason)), properties(&mut reader, true)?)
        }
        _ => (Body::Empty, Vec::new()),
    })
}

fn read_connect(reader: &mut Reader<'_>) -> Option<(Body, Vec<Property>)> {
    let mut body = Connect {
        protocol: reader.prefixed16()?.to_vec(),
        version: reader.u8()?,
        flags: reader.u8()?,
        ..Connect::default()
    };
    // How long the client may be silent.
    reader.skip(2)?;
    let is_new = body.version == 5;
    let has = |flag| body.flags & flag != 0;
    let properties = properties(reader, is_new)?;
    body.client = reader.prefixed16()?.to_vec();
    if has(connect::WILL) {
        body.will_properties = self::properties(reader, is_new)?;
        body.will_topic = Some(reader.prefixed16()?.to_vec());
        body.will_message = Some(reader.prefixed16()?.to_vec());
    }
    if body.flags & connect::USERNAME != 0 {
        body.user = Some(reader.prefixed16()?.to_vec());
    }
    if body.flags & connect::PASSWORD != 0 {
        body.password = Some(reader.prefixed16()?.to_vec());
    }
    Some((Body::Connect(Box::new(body)), properties))
}

fn topics(reader: &mut Reader<'_>, has_quality: bool) -> Vec<(Vec<u8>, u8)> {
    let mut topics = Vec::new();
    while topics.len() < LIST_MAX {
        let Some(topic) = reader.prefixed16() else { break };
        let Some(quality) = (if has_quality { reader.u8() } else { Some(0) }) else { break };
        topics.push((topic.to_vec(), quality));
    }
    topics
}

/// The properties that come next, if there are some.
fn properties(reader: &mut Reader<'_>, some: bool) -> Option<Vec<Property>> {
    let mut properties = Vec::new();
    if !some {
        return Some(properties);
    }
    let length = next_variable(reader)?;
    let mut inner = Reader::new(reader.take(usize::try_from(length).ok()?)?);
    while !inner.is_empty() {
        let number = next_variable(&mut inner)?;
        if let Some(property) = property(&mut inner, number)?
            && properties.len() < LIST_MAX
        {
            properties.push(property);
        }
    }
    Some(properties)
}

fn next_variable(reader: &mut Reader<'_>) -> Option<u32> {
    let (value, bytes) = variable(reader.rest()).ok()?;
    reader.skip(bytes)?;
    Some(value)
}

/// A property of this number; within `None` for an unknown one.
fn property(reader: &mut Reader<'_>, number: u32) -> Option<Option<Property>> {
    let text = match number {
        3 => "content_type",
        8 => "response_topic",
        9 => "correlation_data",
        18 => "assigned_client_identifier",
        21 => "authentication_method",
        22 => "authentication_data",
        26 => "response_information",
        28 => "server_reference",
        31 => "reason_string",
        _ => "",
    };
    if !text.is_empty() {
        return Some(Some(Property::Text(text, reader.prefixed16()?.to_vec())));
    }
    let (name, bytes) = match number {
        1 => ("payload_format_indicator", 1),
        2 => ("message_expiry_interval", 4),
        11 => ("subscription_identifier", 0),
        17 => ("session_expiry_interval", 4),
        19 => ("server_keep_alive", 2),
        23 => ("request_problem_information", 1),
        24 => ("will_delay_interval", 4),
        25 => ("request_response_information", 1),
        33 => ("receive_maximum", 2),
        34 => ("topic_alias_maximum", 2),
        35 => ("topic_alias", 2),
        36 => ("maximum_qos", 1),
        37 => ("retain_available", 1),
        38 => {
            let name = reader.prefixed16()?.to_vec();
            return Some(Some(Property::Named(name, reader.prefixed16()?.to_vec())));
        }
        39 => ("maximum_packet_size", 4),
        40 => ("wildcard_subscription_available", 1),
        41 => ("subscription_identifier_available", 1),
        42 => ("shared_subscription_available", 1),
        _ => return Some(None),
    };
    let value = match bytes {
        0 => next_variable(reader)?,
        1 => u32::from(reader.u8()?),
        2 => u32::from(reader.be16()?),
        _ => reader.be32()?,
    };
    Some(Some(Property::Number(name, value)))
}
