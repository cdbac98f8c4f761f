//! Messages of the DNS (RFC 1035 section 4) as they are on the wire: header, questions, records.
//!
//! Names are read with compression. A pointer that leads to itself, more than 255 labels or more
//! than 1,025 bytes cut the name short and are told as [`NameDefects`], so that the message is
//! still seen; what cannot be delimited makes the message malformed.

use std::fmt::Write as _;

use crate::reader::Reader;

/// Longest name in its written form; longer ones are cut (RFC 1035 allows 255).
pub const NAME_BYTES_MAX: usize = 1025;

/// Labels and pointers of a name.
pub const LABELS_MAX: usize = 255;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 12;

/// The header (RFC 1035 section 4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Identifier that a response repeats.
    pub id: u16,
    /// QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode.
    pub flags: u16,
    /// Questions that it announces.
    pub questions: u16,
    /// Answers that it announces.
    pub answers: u16,
    /// Authority records that it announces.
    pub authorities: u16,
    /// Additional records that it announces.
    pub additionals: u16,
}

impl Header {
    /// Reads it; `None` if it is cut short.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            id: reader.be16()?,
            flags: reader.be16()?,
            questions: reader.be16()?,
            answers: reader.be16()?,
            authorities: reader.be16()?,
            additionals: reader.be16()?,
        })
    }

    /// A response.
    pub fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// What kind of query it is.
    pub fn opcode(&self) -> u8 {
        u8::try_from((self.flags >> 11) & 0xf).unwrap_or_default()
    }

    /// The low four bits of the response code; those of EDNS are not added.
    pub fn rcode(&self) -> u16 {
        self.flags & 0xf
    }

    /// Whether a message of `length` bytes can have what this header announces: two bytes a
    /// record, none only if there is nothing behind the header, a question in each request.
    pub fn is_plausible(&self, length: usize) -> bool {
        let records = [self.questions, self.answers, self.authorities, self.additionals]
            .iter()
            .map(|&count| usize::from(count))
            .sum::<usize>();
        let fits = 2 * records <= length && (records > 0 || length <= HEADER_BYTES);
        fits && (self.is_response() || self.questions > 0)
    }
}

/// What was wrong with names, without making the message unreadable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameDefects {
    /// A pointer led to itself.
    pub infinite_loop: bool,
    /// The written form was cut.
    pub truncated: bool,
    /// There were more labels than allowed.
    pub too_many_labels: bool,
}

/// A question (RFC 1035 section 4.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Labels joined by dots, without a dot at the end.
    pub name: Vec<u8>,
    /// Type.
    pub rrtype: u16,
    /// Class.
    pub class: u16,
}

/// A resource record (RFC 1035 section 4.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its owner.
    pub name: Vec<u8>,
    /// Type.
    pub rrtype: u16,
    /// Class.
    pub class: u16,
    /// Seconds for which it may be kept.
    pub ttl: u32,
    /// Its data.
    pub data: RecordData,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordData {
    /// A or AAAA: the address's bytes, however many there are.
    Address(Vec<u8>),
    /// CNAME, NS, PTR or MX: a name (the preference of MX is not kept).
    Name(Vec<u8>),
    /// SOA.
    Soa(Box<Soa>),
    /// TXT: its strings.
    Text(Vec<Vec<u8>>),
    /// SRV (RFC 2782).
    Service {
        /// Lower is asked first.
        priority: u16,
        /// Share among equals.
        weight: u16,
        /// Port.
        port: u16,
        /// Host.
        target: Vec<u8>,
    },
    /// SSHFP (RFC 4255).
    SshFingerprint {
        /// Algorithm of the key.
        algorithm: u8,
        /// Algorithm of the fingerprint.
        kind: u8,
        /// The fingerprint.
        fingerprint: Vec<u8>,
    },
    /// OPT (RFC 6891): code and data of each option.
    Options(Vec<(u16, Vec<u8>)>),
    /// Everything else, as it is.
    Other(Vec<u8>),
}

/// SOA (RFC 1035 section 3.3.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soa {
    /// Primary name server.
    pub primary: Vec<u8>,
    /// Mailbox of who is responsible.
    pub mailbox: Vec<u8>,
    /// Version of the zone.
    pub serial: u32,
    /// Seconds between two looks.
    pub refresh: u32,
    /// Seconds after a failed look.
    pub retry: u32,
    /// Seconds until the zone is not answered for.
    pub expire: u32,
    /// Lifetime of negative answers, in seconds.
    pub minimum: u32,
}

impl RecordData {
    /// The domain name that rules may look at: of CNAME, NS, PTR, MX, and the primary of SOA.
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            Self::Soa(soa) => Some(&soa.primary),
            _ => None,
        }
    }

    /// An address as EVE writes it: IPv6 in full.
    pub fn address_text(&self) -> Option<String> {
        let Self::Address(bytes) = self else { return None };
        Some(match bytes.as_slice() {
            [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
            long if long.len() == 16 => {
                let mut text = String::with_capacity(39);
                for (index, byte) in long.iter().enumerate() {
                    if index > 0 && index % 2 == 0 {
                        text.push(':');
                    }
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
            _ => String::new(),
        })
    }
}

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// Questions.
    pub questions: Vec<Question>,
    /// Answers.
    pub answers: Vec<Record>,
    /// Authority records; `None` if they cannot be read.
    pub authorities: Option<Vec<Record>>,
    /// Additional records; `None` if they cannot be read (empty if the authorities could not).
    pub additionals: Option<Vec<Record>>,
    /// What was wrong with its names.
    pub defects: NameDefects,
}

impl Message {
    /// Reads a message; `None` if header, questions or answers are cut short or senseless.
    ///
    /// Each record takes at least eleven bytes of the message, so that the number of records is
    /// bounded by the message's length.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let header = Header::read(&mut reader)?;
        let mut defects = NameDefects::default();
        let mut questions = Vec::new();
        for _ in 0..header.questions {
            questions.push(Question {
                name: read_name(&mut reader, bytes, &mut defects)?,
                rrtype: reader.be16()?,
                class: reader.be16()?,
            });
        }
        let answers = read_records(&mut reader, bytes, header.answers, &mut defects)?;
        let authorities = read_records(&mut reader, bytes, header.authorities, &mut defects);
        let additionals = if authorities.is_some() {
            read_records(&mut reader, bytes, header.additionals, &mut defects)
        } else {
            Some(Vec::new())
        };
        Some(Self { header, questions, answers, authorities, additionals, defects })
    }
}

/// Reads a name at the reader's place; compression leads into `message`.
fn read_name<'m>(
    reader: &mut Reader<'m>,
    message: &'m [u8],
    defects: &mut NameDefects,
) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(32);
    let mut place = *reader;
    // Where reading goes on, once a pointer was followed.
    let mut after: Option<Reader<'m>> = None;
    for labels in 1.. {
        let before = place;
        let Some(length) = place.u8() else { break };
        match length & 0xc0 {
            0 if length == 0 => break,
            0 => {
                let label = place.take(usize::from(length))?;
                if name.len() <= NAME_BYTES_MAX {
                    if !name.is_empty() {
                        name.push(b'.');
                    }
                    name.extend_from_slice(label);
                }
            }
            0xc0 => {
                let offset = usize::from(length & 0x3f) << 8 | usize::from(place.u8()?);
                let target = message.get(offset..)?;
                if target == before.rest() {
                    defects.infinite_loop = true;
                    after?;
                    break;
                }
                after.get_or_insert(place);
                place = Reader::at(message, offset);
            }
            _ => return None,
        }
        if labels > LABELS_MAX {
            defects.too_many_labels = true;
            after?;
            defects.truncated = true;
            break;
        }
        if name.len() > NAME_BYTES_MAX {
            defects.truncated = true;
            if after.is_some() {
                break;
            }
        }
    }
    name.truncate(NAME_BYTES_MAX);
    *reader = after.unwrap_or(place);
    Some(name)
}

fn read_records<'m>(
    reader: &mut Reader<'m>,
    message: &'m [u8],
    count: u16,
    defects: &mut NameDefects,
) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    for _ in 0..count {
        let name = read_name(reader, message, defects)?;
        let rrtype = reader.be16()?;
        let class = reader.be16()?;
        let ttl = reader.be32()?;
        let data = reader.prefixed16()?;
        let data = read_data(data, message, rrtype, defects)?;
        records.push(Record { name, rrtype, class, ttl, data });
    }
    Some(records)
}

fn read_data<'m>(
    data: &'m [u8],
    message: &'m [u8],
    rrtype: u16,
    defects: &mut NameDefects,
) -> Option<RecordData> {
    let mut reader = Reader::new(data);
    Some(match rrtype {
        1 | 28 => RecordData::Address(data.to_vec()),
        2 | 5 | 12 => RecordData::Name(read_name(&mut reader, message, defects)?),
        6 => RecordData::Soa(Box::new(Soa {
            primary: read_name(&mut reader, message, defects)?,
            mailbox: read_name(&mut reader, message, defects)?,
            serial: reader.be32()?,
            refresh: reader.be32()?,
            retry: reader.be32()?,
            expire: reader.be32()?,
            minimum: reader.be32()?,
        })),
        15 => {
            reader.skip(2)?;
            RecordData::Name(read_name(&mut reader, message, defects)?)
        }
        16 => {
            let mut strings = Vec::new();
            while !reader.is_empty() {
                strings.push(reader.prefixed8()?.to_vec());
            }
            RecordData::Text(strings)
        }
        33 => RecordData::Service {
            priority: reader.be16()?,
            weight: reader.be16()?,
            port: reader.be16()?,
            target: read_name(&mut reader, message, defects)?,
        },
        41 => {
            let mut options = Vec::new();
            while !reader.is_empty() {
                options.push((reader.be16()?, reader.prefixed16()?.to_vec()));
            }
            RecordData::Options(options)
        }
        44 => RecordData::SshFingerprint {
            algorithm: reader.u8()?,
            kind: reader.u8()?,
            fingerprint: reader.take_rest().to_vec(),
        },
        _ => RecordData::Other(data.to_vec()),
    })
}
