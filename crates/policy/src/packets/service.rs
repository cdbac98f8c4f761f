//! Services: a protocol, and ports or types of ICMP.

use super::{Carried, Opening};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

/// Protocols that may be written by their names (IANA's list of protocol numbers).
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("tcp", TCP),
    ("udp", UDP),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", ICMPV6),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", SCTP),
];

/// Types of ICMP by their names (RFC 792).
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
];

/// Types of ICMPv6 by their names (RFC 4443, 4861).
const TYPES_V6: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("redirect", 137),
];

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Service {
    protocol: u8,
    detail: Detail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Any,
    /// Of the receiver, first and last.
    Ports(u16, u16),
    /// Type, and code if it matters.
    Type(u8, Option<u8>),
}

impl Service {
    /// Reads `tcp`, `tcp/80`, `udp/5000-5999`, `icmp/echo-request`, `icmp/3.4`, `ip/47`.
    ///
    /// # Errors
    /// What it should be.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once('/') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        if name == "ip" {
            let number = rest.and_then(|rest| rest.parse().ok());
            let protocol =
                number.ok_or_else(|| format!("{text:?} names no protocol; write e.g. ip/47"))?;
            return Ok(Service { protocol, detail: Detail::Any });
        }
        let found = PROTOCOLS.iter().find(|(known, _)| *known == name);
        let protocol = match found {
            Some((_, protocol)) => *protocol,
            None => return Err(unknown(text)),
        };
        let Some(rest) = rest else { return Ok(Service { protocol, detail: Detail::Any }) };
        let detail = match protocol {
            TCP | UDP | SCTP => ports(rest),
            ICMP => kind(rest, TYPES),
            ICMPV6 => kind(rest, TYPES_V6),
            _ => return Err(format!("{text:?}: {name} has no ports; write {name} alone")),
        };
        let detail = detail.map_err(|wanted| format!("{text:?}: {rest:?} is {wanted}"))?;
        Ok(Service { protocol, detail })
    }

    pub(super) fn holds(&self, opening: &Opening<'_>) -> bool {
        self.protocol == opening.protocol
            && match (self.detail, opening.carried) {
                (Detail::Any, _) => true,
                (Detail::Ports(first, last), Carried::Ports { destination, .. }) => {
                    (first..=last).contains(&destination)
                }
                (Detail::Type(wanted, wanted_code), Carried::Icmp { kind, code }) => {
                    wanted == kind && wanted_code.is_none_or(|wanted| wanted == code)
                }
                _ => false,
            }
    }
}

fn unknown(text: &str) -> String {
    let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
    format!(
        "{text:?} is neither a group of [ips.services] nor a service such as tcp/443, \
         udp/5000-5999, icmp/echo-request, ip/47; protocols are {}",
        names.join(", ")
    )
}

fn ports(text: &str) -> Result<Detail, &'static str> {
    const WANTED: &str = "no port and no range of ports such as 8000-8099";
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Detail::Ports(first, last)),
        _ => Err(WANTED),
    }
}

fn kind(text: &str, names: &[(&str, u8)]) -> Result<Detail, &'static str> {
    const WANTED: &str = "no type of ICMP; write a number, TYPE.CODE, or e.g. echo-request";
    let (kind, code) = match text.split_once('.') {
        Some((kind, code)) => (kind, Some(code.parse().map_err(|_| WANTED)?)),
        None => (text, None),
    };
    let named = names.iter().find(|(name, _)| *name == kind).map(|(_, number)| *number);
    let kind = named.or_else(|| kind.parse().ok()).ok_or(WANTED)?;
    Ok(Detail::Type(kind, code))
}

/// A protocol's number by its name, or as a number.
pub(super) fn protocol_number(name: &str) -> Option<u8> {
    let found = PROTOCOLS.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number).or_else(|| name.parse().ok())
}

/// A protocol's name, or `ip/N`.
pub(super) fn protocol_name(number: u8) -> String {
    let found = PROTOCOLS.iter().find(|(_, known)| *known == number);
    found.map_or_else(|| format!("ip/{number}"), |(name, _)| (*name).to_owned())
}

/// What a flow's first packet asks for, as a service is written.
pub(super) fn shown(opening: &Opening<'_>) -> String {
    let name = protocol_name(opening.protocol);
    match opening.carried {
        Carried::Ports { destination, .. } => format!("{name}/{destination}"),
        Carried::Icmp { kind, code } => {
            let names = if opening.protocol == ICMP { TYPES } else { TYPES_V6 };
            match names.iter().find(|(_, number)| *number == kind) {
                Some((kind, _)) if code == 0 => format!("{name}/{kind}"),
                _ => format!("{name}/{kind}.{code}"),
            }
        }
        Carried::Nothing => name,
    }
}
