//! Queries and answers. Pure: no socket, no clock.

use std::net::IpAddr;

use gauntlet_web::settings::{BlockedAnswer, DnsSettings};
use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::opt::EdnsOption;
use hickory_resolver::proto::rr::rdata::svcb::SvcParamKey;
use hickory_resolver::proto::rr::rdata::{A, AAAA, HTTPS, SOA};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};

/// Bytes of a header (RFC 1035 section 4.1.1).
const HEADER_BYTES: usize = 12;
/// Bytes that a client takes by UDP if it says nothing (RFC 1035 section 4.2.1).
const PLAIN_BYTES_MAX: u16 = 512;
/// Bytes that pass every network without fragments (DNS flag day 2020).
const UDP_BYTES_MAX: u16 = 1_232;
/// Extended errors (RFC 8914 section 4).
const EXTENDED_ERROR: u16 = 15;
const BLOCKED: u16 = 15;
const NETWORK_ERROR: u16 = 23;
/// Bytes of a text in an extended error.
const TEXT_BYTES_MAX: usize = 200;

/// One question of a client.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    id: u16,
    /// As it came: its letters may be upper and lower case at random.
    pub(crate) question: Query,
    recurses: bool,
    checking_disabled: bool,
    wants_authentic: bool,
    /// The most bytes by UDP, and whether DNSSEC records are wanted, if the client speaks EDNS.
    edns: Option<(u16, bool)>,
}

/// What another question has in common with one, so that it has the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    name: Name,
    kind: RecordType,
    class: DNSClass,
    flags: [bool; 3],
}

/// What is no question.
#[derive(Debug)]
pub(crate) enum NotAsked {
    /// Nothing is answered.
    Ignored,
    /// This is answered.
    Answered(Box<Message>),
}

impl Asked {
    /// Reads a query.
    ///
    /// # Errors
    /// If it is none, or none that is answered here.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, NotAsked> {
        let Ok(query) = Message::from_vec(bytes) else { return Err(format_error(bytes)) };
        let (about, edns) = (query.metadata, query.edns.as_ref());
        if about.message_type != MessageType::Query {
            return Err(NotAsked::Ignored);
        }
        let failed = |code: ResponseCode| {
            let mut answer = Message::error_msg(about.id, about.op_code, code);
            answer.metadata.recursion_desired = about.recursion_desired;
            answer.queries.clone_from(&query.queries);
            if edns.is_some() {
                let mut edns = own_edns(false);
                edns.set_rcode_high(code.high());
                answer.edns = Some(edns);
            }
            NotAsked::Answered(Box::new(answer))
        };
        if about.op_code != OpCode::Query {
            return Err(failed(ResponseCode::NotImp));
        }
        if edns.is_some_and(|edns| edns.version() != 0) {
            return Err(failed(ResponseCode::BADVERS));
        }
        let [question] = &query.queries[..] else { return Err(failed(ResponseCode::FormErr)) };
        if matches!(question.query_type, RecordType::AXFR | RecordType::IXFR) {
            return Err(failed(ResponseCode::Refused));
        }
        Ok(Asked {
            id: about.id,
            question: question.clone(),
            recurses: about.recursion_desired,
            checking_disabled: about.checking_disabled,
            wants_authentic: about.authentic_data,
            edns: edns.map(|edns| (edns.max_payload(), edns.flags().dnssec_ok)),
        })
    }

    fn wants_dnssec(&self) -> bool {
        self.edns.is_some_and(|(_, wants)| wants)
    }

    /// By what its answer may be kept; none if it may not.
    pub(crate) fn key(&self) -> Option<Key> {
        self.recurses.then(|| Key {
            name: self.question.name.to_lowercase(),
            kind: self.question.query_type,
            class: self.question.query_class,
            flags: [self.wants_dnssec(), self.checking_disabled, self.wants_authentic],
        })
    }

    /// The question for another resolver.
    pub(crate) fn for_upstream(&self, id: u16) -> Message {
        let mut query = Message::new(id, MessageType::Query, OpCode::Query);
        query.metadata.recursion_desired = self.recurses;
        query.metadata.checking_disabled = self.checking_disabled;
        query.metadata.authentic_data = self.wants_authentic;
        query.queries.push(self.question.clone());
        query.edns = Some(own_edns(self.wants_dnssec()));
        query
    }

    /// Makes an answer of another resolver this client's.
    pub(crate) fn finish(&self, mut answer: Message) -> Message {
        answer.metadata.id = self.id;
        answer.metadata.recursion_desired = self.recurses;
        answer.metadata.checking_disabled = self.checking_disabled;
        // RFC 6840 section 5.8.
        answer.metadata.authentic_data &= self.wants_authentic || self.wants_dnssec();
        answer.queries = vec![self.question.clone()];
        let options = answer.edns.take().map(|edns| edns.options().clone());
        answer.edns = self.edns.map(|_| {
            let mut edns = own_edns(self.wants_dnssec());
            // Of options, only why there is no answer is for others than their sender.
            let known = options.and_then(|o| o.get(EXTENDED_ERROR.into()).cloned());
            known.into_iter().for_each(|option| edns.options_mut().insert(option));
            edns
        });
        answer
    }

    fn begun(&self, code: ResponseCode) -> Message {
        let mut answer = Message::error_msg(self.id, OpCode::Query, code);
        answer.metadata.recursion_available = true;
        answer
    }

    /// The answer if no resolver gave one.
    pub(crate) fn failed(&self) -> Message {
        let mut answer = self.begun(ResponseCode::ServFail);
        answer.edns = Some(with_error(NETWORK_ERROR, "no resolver answered"));
        self.finish(answer)
    }

    /// The answer for what a rule blocks.
    pub(crate) fn blocked(&self, settings: &DnsSettings, why: &str) -> Message {
        let (name, kind) = (&self.question.name, self.question.query_type);
        let ttl = settings.block_ttl_seconds;
        let null = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let addresses = match settings.blocked {
            BlockedAnswer::Address => &settings.block_addresses[..],
            BlockedAnswer::Null => &null,
            BlockedAnswer::Nxdomain | BlockedAnswer::Refused => &[],
        };
        let mut answer = self.begun(match settings.blocked {
            BlockedAnswer::Nxdomain => ResponseCode::NXDomain,
            BlockedAnswer::Refused => ResponseCode::Refused,
            BlockedAnswer::Null | BlockedAnswer::Address => ResponseCode::NoError,
        });
        answer.answers.extend(addresses.iter().filter_map(|address| {
            let data = match (address, kind) {
                (IpAddr::V4(v4), RecordType::A | RecordType::ANY) => RData::A(A(*v4)),
                (IpAddr::V6(v6), RecordType::AAAA | RecordType::ANY) => RData::AAAA(AAAA(*v6)),
                _ => return None,
            };
            Some(Record::from_rdata(name.clone(), ttl, data))
        }));
        if answer.answers.is_empty() && settings.blocked != BlockedAnswer::Refused {
            // Without it, clients would not keep that there is nothing (RFC 2308 section 5).
            let soa = SOA::new(name.clone(), Name::root(), 1, 3_600, 600, 86_400, ttl);
            answer.authorities.push(Record::from_rdata(name.clone(), ttl, RData::SOA(soa)));
        }
        answer.edns = Some(with_error(BLOCKED, why));
        self.finish(answer)
    }

    /// The bytes of an answer by UDP, and whether it is cut: then the client asks by TCP.
    pub(crate) fn datagram(&self, answer: &Message) -> Option<(Vec<u8>, bool)> {
        let bytes_max = self.edns.map_or(PLAIN_BYTES_MAX, |(bytes, _)| bytes);
        let bytes_max = usize::from(bytes_max.clamp(PLAIN_BYTES_MAX, UDP_BYTES_MAX));
        let bytes = answer.to_vec().ok()?;
        if bytes.len() <= bytes_max {
            return Some((bytes, false));
        }
        let mut cut = answer.truncate();
        cut.queries = vec![self.question.clone()];
        cut.edns.clone_from(&answer.edns);
        Some((cut.to_vec().ok()?, true))
    }
}

/// The answer to what cannot be read: its number and no more is known.
fn format_error(bytes: &[u8]) -> NotAsked {
    match bytes {
        [first, second, flags, ..] if bytes.len() >= HEADER_BYTES && flags & 0x80 == 0 => {
            let id = u16::from_be_bytes([*first, *second]);
            let answer = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
            NotAsked::Answered(Box::new(answer))
        }
        _ => NotAsked::Ignored,
    }
}

fn own_edns(dnssec_ok: bool) -> Edns {
    let mut edns = Edns::new();
    edns.set_version(0).set_max_payload(UDP_BYTES_MAX).set_dnssec_ok(dnssec_ok);
    edns
}

fn with_error(code: u16, text: &str) -> Edns {
    let mut data = code.to_be_bytes().to_vec();
    let end = text.floor_char_boundary(TEXT_BYTES_MAX.min(text.len()));
    data.extend_from_slice(&text.as_bytes()[..end]);
    let mut edns = own_edns(false);
    edns.options_mut().insert(EdnsOption::Unknown(EXTENDED_ERROR, data));
    edns
}

/// Whether a message answers this query: nobody else knows its number and the question.
pub(crate) fn answers(answer: &Message, query: &Message) -> bool {
    answer.metadata.id == query.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == query.queries
}

/// Names that an answer leads to: aliases, and targets of HTTPS records.
pub(crate) fn aliases(answer: &Message) -> impl Iterator<Item = &Name> {
    answer.answers.iter().filter_map(|record| match &record.data {
        RData::CNAME(name) => Some(&name.0),
        RData::HTTPS(https) => Some(&https.0.target_name).filter(|name| !name.is_root()),
        RData::SVCB(svcb) => Some(&svcb.target_name).filter(|name| !name.is_root()),
        _ => None,
    })
}

/// Takes the keys of Encrypted ClientHello out of an answer; signatures over it, which prove what
/// it was, go with them.
pub(crate) fn remove_ech(answer: &mut Message) {
    let mut has_changed = false;
    for record in &mut answer.answers {
        let (RData::HTTPS(HTTPS(svcb)) | RData::SVCB(svcb)) = &mut record.data else { continue };
        let before = svcb.svc_params.len();
        svcb.svc_params.retain(|(key, _)| *key != SvcParamKey::EchConfigList);
        has_changed |= svcb.svc_params.len() < before;
    }
    if has_changed {
        answer.answers.retain(|record| record.record_type() != RecordType::RRSIG);
        answer.metadata.authentic_data = false;
    }
}

/// How long an answer may be kept, in seconds (RFC 2181 section 5.2, RFC 2308 section 5); none if
/// it may not.
pub(crate) fn time_to_live(answer: &Message) -> Option<u32> {
    if answer.metadata.truncation {
        return None;
    }
    let least = answer.answers.iter().chain(&answer.authorities).map(|record| record.ttl).min()?;
    let is_negative = match answer.metadata.response_code {
        ResponseCode::NoError => answer.answers.is_empty(),
        ResponseCode::NXDomain => true,
        _ => return None,
    };
    if !is_negative {
        return Some(least);
    }
    answer.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(soa.minimum.min(least)),
        _ => None,
    })
}

/// An answer that was kept for so many seconds.
pub(crate) fn aged(mut answer: Message, seconds: u32) -> Message {
    let Message { answers, authorities, additionals, .. } = &mut answer;
    for record in answers.iter_mut().chain(authorities).chain(additionals) {
        record.ttl = record.ttl.saturating_sub(seconds);
    }
    answer
}

/// The host that is judged: of names with other labels in front, such as those of DNS-SD, the part
/// that names a host; none of the root.
pub(crate) fn host(name: &Name) -> Option<String> {
    let is_plain =
        |label: &&[u8]| label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let labels: Vec<&[u8]> = name.iter().collect();
    let mut plain: Vec<_> = labels.into_iter().rev().take_while(is_plain).collect();
    plain.reverse();
    let text = plain.iter().map(|label| String::from_utf8_lossy(label)).collect::<Vec<_>>();
    (!text.is_empty()).then(|| text.join(".").to_ascii_lowercase())
}

/// The answer to a query of these bytes if a rule blocks it, and after an answer of these bytes:
/// all that is read of the network, for tests with random bytes.
#[doc(hidden)]
pub fn answer_bytes(query: &[u8], upstream: &[u8]) -> Option<Vec<u8>> {
    let asked = match Asked::read(query) {
        Ok(asked) => asked,
        Err(NotAsked::Ignored) => return None,
        Err(NotAsked::Answered(answer)) => return answer.to_vec().ok(),
    };
    let _ = host(&asked.question.name);
    if let Ok(mut answer) = Message::from_vec(upstream) {
        remove_ech(&mut answer);
        let _ = (aliases(&answer).filter_map(host).count(), time_to_live(&answer));
        let _ = asked.datagram(&asked.finish(aged(answer, 1)));
    }
    let blocked = asked.blocked(&DnsSettings::default(), "test");
    asked.datagram(&blocked).map(|(bytes, _)| bytes)
}
