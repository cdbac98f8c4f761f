//! SPF records as data (RFC 7208 section 4.6).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::macros::{MacroError, Template};
use gauntlet_mail::facts::AuthResult;

/// Why a record is malformed; the whole of it is then a `permerror` (section 4.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It has bytes over 127.
    #[error("it is not ASCII")]
    NotAscii,
    /// It has more terms than are read.
    #[error("more than {TERMS_MAX} terms")]
    TooManyTerms,
    /// A term is malformed.
    #[error("{term:?} {error}")]
    Term {
        /// As it was written.
        term: String,
        /// What is wrong with it.
        error: TermError,
    },
}

/// What is wrong with a term; completes a sentence that begins with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    /// Its domain is malformed.
    #[error(transparent)]
    Domain(#[from] MacroError),
    /// The modifier is there twice.
    #[error("is there twice")]
    Repeated,
    /// A mechanism of an address family without a network.
    #[error("has no network")]
    NoNetwork,
    /// `ip4:` before something else.
    #[error("is no IPv4 network")]
    NotIp4,
    /// `ip6:` before something else.
    #[error("is no IPv6 network")]
    NotIp6,
    /// A prefix length where none may be.
    #[error("has a length")]
    HasLength,
    /// A prefix length that is none of an address of this width.
    #[error("has no length of 0 to {0}")]
    LengthRange(u8),
    /// Something else where a prefix length may be.
    #[error("has no valid length")]
    NoLength,
    /// No mechanism has this name.
    #[error("is no mechanism")]
    Unknown,
}

/// A record: what is tried, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Mechanisms with the result of a match.
    pub directives: Vec<(AuthResult, Mechanism)>,
    /// Where to go on when nothing matched.
    pub redirect: Option<Template>,
    /// Where the explanation of a failure is.
    pub explanation: Option<Template>,
}

/// A mechanism: which clients it matches (RFC 7208 section 5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mechanism {
    /// `all`: matches every client.
    All,
    /// Whom another domain lets send.
    Include(Template),
    /// The addresses of a host.
    A(Option<Template>, Lengths),
    /// The mail exchangers of a domain.
    Mx(Option<Template>, Lengths),
    /// Whose reverse name is below a domain.
    Ptr(Option<Template>),
    /// `ip4:`, with the length of its prefix in bits.
    Ip4(Ipv4Addr, u8),
    /// `ip6:`, with the length of its prefix in bits.
    Ip6(Ipv6Addr, u8),
    /// Everybody, if a name has an address.
    Exists(Template),
}

/// Prefix lengths of networks, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Of IPv4, 0 to 32.
    pub v4: u8,
    /// Of IPv6, 0 to 128.
    pub v6: u8,
}

/// Terms of one record; a TXT answer is bounded, so this bounds memory only.
const TERMS_MAX: usize = 512;

/// The text is a record of this version (and may still be malformed).
pub fn is_record(text: &[u8]) -> bool {
    let rest = text.get(..6).filter(|v| v.eq_ignore_ascii_case(b"v=spf1"));
    rest.is_some() && matches!(text.get(6), None | Some(b' '))
}

impl Record {
    /// Reads a record for which [`is_record`] holds.
    ///
    /// # Errors
    /// What is malformed.
    pub fn parse(text: &[u8]) -> Result<Self, RecordError> {
        let text = std::str::from_utf8(text).ok().filter(|t| t.is_ascii());
        let text = text.ok_or(RecordError::NotAscii)?;
        let mut record = Record::default();
        let terms = text.get(6..).unwrap_or_default().split(' ').filter(|t| !t.is_empty());
        for (count, term) in terms.enumerate() {
            if count >= TERMS_MAX {
                return Err(RecordError::TooManyTerms);
            }
            record
                .term(term)
                .map_err(|error| RecordError::Term { term: term.to_owned(), error })?;
        }
        Ok(record)
    }

    fn term(&mut self, term: &str) -> Result<(), TermError> {
        if let Some((name, value)) = modifier(term) {
            let slot = match name.to_ascii_lowercase().as_str() {
                "redirect" => &mut self.redirect,
                "exp" => &mut self.explanation,
                _ => {
                    Template::parse_text(value, true)?;
                    return Ok(());
                }
            };
            if slot.is_some() {
                return Err(TermError::Repeated);
            }
            *slot = Some(Template::parse(value)?);
            return Ok(());
        }
        // What comes after "all" is ignored (section 5.1).
        if self.directives.last().is_some_and(|(_, last)| *last == Mechanism::All) {
            return Ok(());
        }
        let (result, rest) = match term.as_bytes().first() {
            Some(b'+') => (AuthResult::Pass, &term[1..]),
            Some(b'-') => (AuthResult::Fail, &term[1..]),
            Some(b'~') => (AuthResult::SoftFail, &term[1..]),
            Some(b'?') => (AuthResult::Neutral, &term[1..]),
            _ => (AuthResult::Pass, term),
        };
        self.directives.push((result, mechanism(rest)?));
        Ok(())
    }
}

/// `name=value`: a name of letters, digits, `-`, `_`, `.` that begins with a letter.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let (name, value) = term.split_once('=')?;
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic());
    let fine = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    (starts && fine).then_some((name, value))
}

fn mechanism(text: &str) -> Result<Mechanism, TermError> {
    let end = text.find([':', '/']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let value = rest.strip_prefix(':');
    Ok(match name.to_ascii_lowercase().as_str() {
        "all" if rest.is_empty() => Mechanism::All,
        "include" => Mechanism::Include(Template::parse(value.ok_or(MacroError::NoDomain)?)?),
        "exists" => Mechanism::Exists(Template::parse(value.ok_or(MacroError::NoDomain)?)?),
        "ptr" => match value {
            Some(domain) => Mechanism::Ptr(Some(Template::parse(domain)?)),
            None if rest.is_empty() => Mechanism::Ptr(None),
            None => return Err(TermError::HasLength),
        },
        "a" => {
            let (domain, lengths) = domain_and_lengths(rest)?;
            Mechanism::A(domain, lengths)
        }
        "mx" => {
            let (domain, lengths) = domain_and_lengths(rest)?;
            Mechanism::Mx(domain, lengths)
        }
        "ip4" => {
            let (address, bits) = network(value.ok_or(TermError::NoNetwork)?, 32)?;
            Mechanism::Ip4(address.parse().map_err(|_| TermError::NotIp4)?, bits)
        }
        "ip6" => {
            let (address, bits) = network(value.ok_or(TermError::NoNetwork)?, 128)?;
            Mechanism::Ip6(address.parse().map_err(|_| TermError::NotIp6)?, bits)
        }
        _ => return Err(TermError::Unknown),
    })
}

fn network(text: &str, width: u8) -> Result<(&str, u8), TermError> {
    match text.split_once('/') {
        Some((address, bits)) => Ok((address, length(bits, width)?)),
        None => Ok((text, width)),
    }
}

/// A prefix length: digits without a leading zero, at most the width.
fn length(text: &str, width: u8) -> Result<u8, TermError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let bits = text.parse::<u8>().ok().filter(|bits| plain && *bits <= width);
    bits.ok_or(TermError::LengthRange(width))
}

/// `[":" domain-spec] ["/" v4-length] ["//" v6-length]`.
fn domain_and_lengths(rest: &str) -> Result<(Option<Template>, Lengths), TermError> {
    let (mut head, mut lengths) = (rest, Lengths { v4: 32, v6: 128 });
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((before, bits)) = head.rsplit_once("//").filter(|(_, bits)| digits(bits)) {
        lengths.v6 = length(bits, 128)?;
        head = before;
    }
    if let Some((before, bits)) = head.rsplit_once('/').filter(|(_, bits)| digits(bits)) {
        lengths.v4 = length(bits, 32)?;
        head = before;
    }
    let domain = match head.strip_prefix(':') {
        Some(domain) => Some(Template::parse(domain)?),
        None if head.is_empty() => None,
        None => return Err(TermError::NoLength),
    };
    Ok((domain, lengths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(is_record(b"v=spf1") && is_record(b"V=SPF1 -all"));
        assert!(!is_record(b"v=spf10") && !is_record(b"v=spf1-all") && !is_record(b" v=spf1"));
    }

    #[test]
    fn malformed_records_name_the_term() {
        for (record, term) in [
            ("v=spf1 ip4:1.2.3", "ip4:1.2.3"),
            ("v=spf1 ip4:1.2.3.4/33", "ip4:1.2.3.4/33"),
            ("v=spf1 ip4:1.2.3.4/08", "ip4:1.2.3.4/08"),
            ("v=spf1 ip6:::1//5", "ip6:::1//5"),
            ("v=spf1 a:/24", "a:/24"),
            ("v=spf1 a/33", "a/33"),
            ("v=spf1 include", "include"),
            ("v=spf1 include:", "include:"),
            ("v=spf1 all.", "all."),
            ("v=spf1 all/8", "all/8"),
            ("v=spf1 redirect=a.b redirect=c.d", "redirect=c.d"),
            ("v=spf1 exists:%{z}.b", "exists:%{z}.b"),
            ("v=spf1 exists:%(d).b", "exists:%(d).b"),
            ("v=spf1 foo", "foo"),
            ("v=spf1 -", "-"),
            ("v=spf1 mx\u{a0}", "not ASCII"),
        ] {
            let error = Record::parse(record.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(term), "{record}: {error}");
        }
        let fine = "v=spf1 A:b.example/24//64 -MX//3 ?ptr:x.example ~exists:%{ir}.x.example \
                    unknown=%{d}/x exp=e.example redirect=%{d2} all";
        let record = Record::parse(fine.as_bytes()).unwrap();
        assert_eq!(record.directives.len(), 5);
        assert_eq!(Record::parse(b"v=spf1 -all ip:1.2.3.4 exp=a.b").unwrap().directives.len(), 1);
    }
}
