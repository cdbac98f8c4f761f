//! What the DNS said to one question.

use std::fmt;
use std::net::IpAddr;

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, Record, RecordType};

/// Records of one answer that are kept; an answer with more is [`Outcome::TooLarge`].
pub const RECORDS_MAX: usize = 256;
/// Bytes of one answer that are kept; an answer with more is [`Outcome::TooLarge`].
pub const ANSWER_BYTES_MAX: usize = 32 * 1024;

/// Type of the records that are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// IPv4 addresses of a host (RFC 1035).
    A,
    /// IPv6 addresses of a host (RFC 3596).
    Aaaa,
    /// Mail exchangers of a domain (RFC 5321 section 5.1).
    Mx,
    /// Name servers of a zone.
    Ns,
    /// Names of an address.
    Ptr,
    /// Where a zone's authority lies.
    Soa,
    /// Certificates of a service (RFC 6698).
    Tlsa,
    /// Texts: SPF, DKIM and DMARC records, answers of lists.
    Txt,
}

impl Kind {
    /// Name as zones write it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::Aaaa => "AAAA",
            Kind::Mx => "MX",
            Kind::Ns => "NS",
            Kind::Ptr => "PTR",
            Kind::Soa => "SOA",
            Kind::Tlsa => "TLSA",
            Kind::Txt => "TXT",
        }
    }

    pub(super) fn record_type(self) -> RecordType {
        match self {
            Kind::A => RecordType::A,
            Kind::Aaaa => RecordType::AAAA,
            Kind::Mx => RecordType::MX,
            Kind::Ns => RecordType::NS,
            Kind::Ptr => RecordType::PTR,
            Kind::Soa => RecordType::SOA,
            Kind::Tlsa => RecordType::TLSA,
            Kind::Txt => RecordType::TXT,
        }
    }
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// There is at least one record of the kind.
    Answered,
    /// There is no such name (NXDOMAIN).
    NoName,
    /// The name has no records of this kind.
    NoData,
    /// Nobody answered in time.
    Timeout,
    /// The server refuses to answer us.
    Refused,
    /// The server failed, its answer was malformed, or the name is no name.
    Failed,
    /// More records or bytes than are kept.
    TooLarge,
    /// The answer is not what its signatures say (DNSSEC).
    Bogus,
    /// Aliases (CNAME) that lead back to themselves, or on and on.
    Looping,
    /// Too many questions were under way, or the message had asked all that it may.
    NotAsked,
}

impl Outcome {
    /// In words, as logs and pages say it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::NoName => "no such name",
            Outcome::NoData => "no such record",
            Outcome::Timeout => "timeout",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::TooLarge => "too large",
            Outcome::Bogus => "bogus",
            Outcome::Looping => "aliases without end",
            Outcome::NotAsked => "not asked",
        }
    }

    /// The DNS said so: there are records, or there are none. Anything else means *unknown*.
    pub fn is_certain(self) -> bool {
        matches!(self, Outcome::Answered | Outcome::NoName | Outcome::NoData)
    }

    /// The DNS said that there is nothing.
    pub fn is_nothing(self) -> bool {
        matches!(self, Outcome::NoName | Outcome::NoData)
    }
}

/// The data of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A or AAAA: an IP address.
    Address(IpAddr),
    /// MX: lower preference first; a lone `.` is a domain that takes no mail (RFC 7505).
    Exchanger {
        /// Lower ones are tried first.
        preference: u16,
        /// Host name in lower case without the final dot.
        host: String,
    },
    /// NS or PTR: a name in lower case without the final dot.
    Name(String),
    /// SOA (RFC 1035 section 3.3.13).
    Authority {
        /// The zone's first name server, in lower case without the final dot.
        server: String,
        /// Who is responsible, serial number and times, as zone files write them.
        rest: String,
    },
    /// TLSA (RFC 6698 section 2.1).
    Tlsa {
        /// Certificate usage, 0 to 3.
        usage: u8,
        /// Selector: 0 the certificate, 1 its public key.
        selector: u8,
        /// Matching type: 0 as it is, 1 SHA-256, 2 SHA-512.
        matching: u8,
        /// The certificate association data of TLSA (RFC 6698 section 2.1.4).
        data: Vec<u8>,
    },
    /// TXT: its character strings in one.
    Text(Vec<u8>),
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Address(ip) => write!(f, "{ip}"),
            Data::Exchanger { preference, host } => write!(f, "{preference} {host}"),
            Data::Name(name) => f.write_str(name),
            Data::Authority { server, rest } => write!(f, "{server} {rest}"),
            Data::Tlsa { usage, selector, matching, data } => {
                write!(f, "{usage} {selector} {matching} ")?;
                data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Data::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether there were records, none, or no answer.
    pub outcome: Outcome,
    /// The records, sorted as text except for [`Kind::Mx`], which is sorted by preference.
    pub data: Vec<Data>,
    /// The records are signed, and their signatures were verified up to the root (DNSSEC).
    pub secure: bool,
}

impl Answer {
    /// An answer without records.
    pub fn empty(outcome: Outcome) -> Self {
        Answer { outcome, data: Vec::new(), secure: false }
    }

    /// The addresses in it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.data.iter().filter_map(|data| match data {
            Data::Address(ip) => Some(*ip),
            _ => None,
        })
    }

    /// The texts in it.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.data.iter().filter_map(|data| match data {
            Data::Text(text) => Some(text.as_slice()),
            _ => None,
        })
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.data.iter().filter_map(|data| match data {
            Data::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Bytes that it takes in the cache, about.
    pub(super) fn weight(&self) -> usize {
        let of = |data: &Data| match data {
            Data::Address(_) => 0,
            Data::Exchanger { host: name, .. } | Data::Name(name) => name.len(),
            Data::Authority { server, rest } => server.len() + rest.len(),
            Data::Tlsa { data, .. } | Data::Text(data) => data.len(),
        };
        let size = std::mem::size_of::<Data>();
        self.data.iter().map(|data| size + of(data)).sum::<usize>() + 128
    }
}

/// Reads the records of this kind.
pub(super) fn read(kind: Kind, records: &[Record], secure: bool) -> Answer {
    let data: Vec<Data> = records
        .iter()
        .filter(|record| record.record_type() == kind.record_type())
        .take(RECORDS_MAX + 1)
        .filter_map(|record| read_one(&record.data))
        .collect();
    if data.is_empty() {
        return Answer::empty(Outcome::NoData);
    }
    let mut answer = Answer { outcome: Outcome::Answered, data, secure };
    if answer.data.len() > RECORDS_MAX || answer.weight() > ANSWER_BYTES_MAX {
        return Answer::empty(Outcome::TooLarge);
    }
    // Servers rotate their answers; verdicts must not depend on it.
    match kind {
        Kind::Mx => answer.data.sort_by_cached_key(|data| match data {
            Data::Exchanger { preference, host } => (*preference, host.clone()),
            _ => (u16::MAX, String::new()),
        }),
        _ => answer.data.sort_by_cached_key(ToString::to_string),
    }
    answer
}

fn read_one(data: &RData) -> Option<Data> {
    let host = |name: &hickory_resolver::proto::rr::Name| {
        let name = name.to_lowercase().to_ascii();
        name.strip_suffix('.').unwrap_or(&name).to_owned()
    };
    Some(match data {
        RData::A(ip) => Data::Address(ip.0.into()),
        RData::AAAA(ip) => Data::Address(ip.0.into()),
        RData::MX(mx) => Data::Exchanger { preference: mx.preference, host: host(&mx.exchange) },
        RData::NS(name) => Data::Name(host(&name.0)),
        RData::PTR(name) => Data::Name(host(&name.0)),
        RData::SOA(soa) => Data::Authority {
            server: host(&soa.mname),
            rest: format!(
                "{} {} {} {} {} {}",
                host(&soa.rname),
                soa.serial,
                soa.refresh,
                soa.retry,
                soa.expire,
                soa.minimum
            ),
        },
        RData::TLSA(tlsa) => Data::Tlsa {
            usage: tlsa.cert_usage.into(),
            selector: tlsa.selector.into(),
            matching: tlsa.matching.into(),
            data: tlsa.cert_data.clone(),
        },
        RData::TXT(txt) => Data::Text(txt.txt_data.concat()),
        _ => return None,
    })
}

/// The server says that there is nothing, without the record that such an answer has (RFC 2308).
pub(super) fn lacks_authority(error: &NetError) -> bool {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            none.response_code == ResponseCode::NoError && none.soa.is_none()
        }
        _ => false,
    }
}

/// Where an answer says that the name is an alias for.
pub(super) fn alias(records: &[Record]) -> Option<&hickory_resolver::proto::rr::Name> {
    records.iter().find_map(|record| match &record.data {
        RData::CNAME(target) => Some(&target.0),
        _ => None,
    })
}

/// What an error of the resolver means, and for how many seconds that stays so, if it says.
pub(super) fn read_error(error: &NetError) -> (Outcome, Option<u32>) {
    let outcome = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            let outcome = match none.response_code {
                ResponseCode::NXDomain => Outcome::NoName,
                ResponseCode::NoError => Outcome::NoData,
                ResponseCode::Refused => Outcome::Refused,
                _ => Outcome::Failed,
            };
            return (outcome, none.negative_ttl);
        }
        NetError::Dns(DnsError::Nsec { response, proof, .. }) => {
            match (response.metadata.response_code, proof.is_bogus()) {
                (_, true) => Outcome::Bogus,
                (ResponseCode::NXDomain, _) => Outcome::NoName,
                _ => Outcome::NoData,
            }
        }
        NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)) => Outcome::Refused,
        NetError::Dns(DnsError::DnssecBogus) => Outcome::Bogus,
        NetError::Timeout | NetError::NoConnections | NetError::Busy => Outcome::Timeout,
        _ => Outcome::Failed,
    };
    (outcome, None)
}
