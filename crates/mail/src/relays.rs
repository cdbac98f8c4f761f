//! Received fields (RFC 5321 section 4.4) as the common servers write them, and how far they can be
//! believed.
//!
//! What the field says is kept apart by who vouches for it: `helo` is the client's own word, `rdns`
//! and `ip` are what the server saw. Forms read: Postfix, Sendmail, Exim, qmail, Exchange, Gmail,
//! Communigate and what follows their patterns; of anything else, as much as can be told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use memchr::memrchr;

use crate::date;

/// Bytes of one Received field that are read.
const FIELD_BYTES_MAX: usize = 4_096;
/// Words and comments of one field that are read.
const TOKENS_MAX: usize = 200;

/// One hop: a server says from whom it took the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Relay {
    /// Index of the field in [`crate::Message::headers`].
    pub header: u32,
    /// What the client called itself; empty if the field does not say.
    pub helo: String,
    /// The client's name by reverse DNS, as the server found it; empty if unknown.
    pub rdns: String,
    /// The client's address; none for mail that began on the server itself.
    pub ip: Option<IpAddr>,
    /// The server that wrote the field.
    pub by: String,
    /// Protocol: `ESMTPS`, `LMTP`, `local` ...
    pub with: String,
    /// The server's identifier of the message.
    pub id: String,
    /// The recipient, when the field names one.
    pub recipient: String,
    /// Unix time in seconds; none if there is no date that can be read.
    pub date: Option<i64>,
    /// The client had logged in.
    pub authenticated: bool,
    /// The hop was encrypted.
    pub encrypted: bool,
}

/// A range of addresses: `192.0.2.0/24`, `2001:db8::/32`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.trim().split_once('/').unwrap_or((text.trim(), ""));
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("'{text}' is no network; write e.g. 192.0.2.0/24"))?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits =
            match bits {
                "" => max,
                bits => bits.parse().ok().filter(|b| *b <= max).ok_or_else(|| {
                    format!("'{text}': the prefix must be a number from 0 to {max}")
                })?,
            };
        Ok(Network { address, prefix_bits })
    }
}

impl Network {
    /// Whether `ip` lies in the range; addresses mapped into IPv6 count as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                u32::from(net).checked_shr(shift) == u32::from(ip).checked_shr(shift)
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                u128::from(net).checked_shr(shift) == u128::from(ip).checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// How far the Received fields can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrustPath {
    /// So many relays, from the top, were written by servers that are trusted.
    pub trusted: usize,
    /// Index of the relay by which the message came in from outside; none if it never was outside.
    pub entry: Option<usize>,
}

/// Walks down from the newest relay. The first is our own server's word; the next is believed as
/// long as the client of the one above is in `networks` or, when none are configured, has a private
/// address; or had logged in.
pub fn trust_path(relays: &[Relay], networks: &[Network]) -> TrustPath {
    for (i, relay) in relays.iter().enumerate() {
        let Some(ip) = relay.ip else { continue };
        let ours = if networks.is_empty() {
            is_private(ip)
        } else {
            networks.iter().any(|n| n.contains(ip))
        };
        if relay.authenticated {
            return TrustPath { trusted: i + 1, entry: None };
        }
        if !ours {
            return TrustPath { trusted: i + 1, entry: Some(i) };
        }
    }
    TrustPath { trusted: relays.len(), entry: None }
}

/// Addresses that the internet does not route: private, loopback, link-local, shared (RFC 6890).
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let shared = a == 100 && (64..128).contains(&b);
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || shared
        }
        IpAddr::V6(ip) => {
            let head = ip.segments()[0];
            ip.is_loopback()
                || ip.is_unspecified()
                || head & 0xfe00 == 0xfc00
                || head & 0xffc0 == 0xfe80
        }
    }
}

/// Reads one unfolded Received value.
pub fn parse(value: &[u8]) -> Relay {
    let value = &value[..value.len().min(FIELD_BYTES_MAX)];
    let mut relay = Relay::default();
    let clauses = match memrchr(b';', value) {
        Some(semicolon) => {
            relay.date = date::parse(value[semicolon + 1..].trim_ascii());
            &value[..semicolon]
        }
        None => value,
    };
    let mut clause = Clause::None;
    let mut from = From::default();
    let mut last: &[u8] = b"";
    for token in tokens(clauses) {
        match token {
            Token::Word(word) => {
                if let Some(next) = Clause::named(word, last) {
                    clause = next;
                } else {
                    clause.take(word, &mut relay, &mut from);
                }
                last = word;
            }
            Token::Comment(comment) => {
                marks(comment, &mut relay);
                if clause == Clause::From {
                    from.comment(comment);
                }
            }
        }
    }
    from.settle(&mut relay);
    protocol_marks(&mut relay);
    relay
}

/// The clauses of a Received field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    None,
    From,
    By,
    With,
    Id,
    For,
    /// A word of the clause was taken; what follows is noise.
    Done,
}

impl Clause {
    /// The clause that `word` begins. A keyword right after another is that one's value
    /// (`from by.example.com`, a host called `with`): it is taken as such.
    fn named(word: &[u8], last: &[u8]) -> Option<Clause> {
        let keyword = |w: &[u8]| {
            let mut lower = [0u8; 4];
            let lower = lower.get_mut(..w.len())?;
            lower.copy_from_slice(w);
            lower.make_ascii_lowercase();
            match &*lower {
                b"from" => Some(Clause::From),
                b"by" => Some(Clause::By),
                b"with" => Some(Clause::With),
                b"id" => Some(Clause::Id),
                b"for" => Some(Clause::For),
                b"via" => Some(Clause::Done),
                _ => None,
            }
        };
        keyword(word).filter(|_| keyword(last).is_none())
    }

    fn take(&mut self, word: &[u8], relay: &mut Relay, from: &mut From) {
        let slot = match self {
            Clause::From => {
                // Further words of the clause belong to no form that is known.
                if from.word.is_empty() {
                    from.word = text(word);
                }
                return;
            }
            Clause::By => &mut relay.by,
            Clause::With => &mut relay.with,
            Clause::Id => &mut relay.id,
            Clause::For => &mut relay.recipient,
            Clause::None | Clause::Done => return,
        };
        if slot.is_empty() {
            *slot = text(word.trim_ascii_end().strip_suffix(b";").unwrap_or(word));
            if *self == Clause::For {
                *slot = slot.trim_matches(['<', '>']).to_owned();
            }
        }
        *self = Clause::Done;
    }
}

/// What the from clause says, before it is clear which word is the client's own.
#[derive(Default)]
struct From {
    word: String,
    helo: Option<String>,
    rdns: Option<String>,
    ip: Option<IpAddr>,
}

impl From {
    /// `(name [192.0.2.1])`, `([192.0.2.1] helo=x)`, `(HELO x) (192.0.2.1)`, `(user@192.0.2.1)` ...
    fn comment(&mut self, comment: &[u8]) {
        let words = comment.split(|b| b.is_ascii_whitespace() || matches!(b, b'(' | b')' | b','));
        let mut words = words.filter(|w| !w.is_empty()).take(TOKENS_MAX).peekable();
        let mut first = true;
        while let Some(word) = words.next() {
            let is_first = std::mem::take(&mut first);
            let lower = word.to_ascii_lowercase();
            if matches!(&*lower, b"helo" | b"ehlo") {
                self.helo = self.helo.take().or_else(|| words.next().map(text));
            } else if let Some(name) = lower.strip_prefix(b"helo=") {
                self.helo =
                    self.helo.take().or_else(|| Some(text(&word[word.len() - name.len()..])));
            } else if let Some(ip) = address(word) {
                self.ip = self.ip.or(Some(ip));
            } else if is_first {
                // `user@host` is an answer of the ident protocol before the name.
                let name = memrchr(b'@', word).map_or(word, |at| &word[at + 1..]);
                match address(name) {
                    Some(ip) => self.ip = self.ip.or(Some(ip)),
                    None if memchr::memchr(b'.', name).is_some() && !name.contains(&b'=') => {
                        self.rdns = self.rdns.take().or_else(|| Some(text(name)));
                    }
                    None => {}
                }
            }
        }
    }

    fn settle(self, relay: &mut Relay) {
        relay.ip = self.ip.or_else(|| address(self.word.as_bytes()));
        let word_is_name = address(self.word.as_bytes()).is_none();
        let unknown = |name: &str| name.eq_ignore_ascii_case("unknown") || name.is_empty();
        match self.helo {
            // Exim and qmail put what they looked up first.
            Some(helo) => {
                relay.helo = helo;
                if word_is_name && !unknown(&self.word) {
                    relay.rdns = self.word;
                }
            }
            None => relay.helo = self.word,
        }
        if let Some(rdns) = self.rdns {
            relay.rdns = rdns;
        }
        if let Some(stripped) = relay.rdns.strip_suffix('.') {
            relay.rdns = stripped.to_owned();
        }
    }
}

/// Encryption and authentication as comments mention them.
fn marks(comment: &[u8], relay: &mut Relay) {
    let lower = comment.to_ascii_lowercase();
    let has = |needle: &[u8]| memchr::memmem::find(&lower, needle).is_some();
    relay.encrypted |= has(b"using tls")
        || has(b"version=tls")
        || has(b"tlsv1")
        || has(b"tls1_")
        || has(b"version=ssl")
        || has(b"using ssl");
    relay.authenticated |= has(b"authenticated sender")
        || lower.starts_with(b"authenticated")
        || has(b"(authenticated bits")
        || lower.starts_with(b"account ");
}

/// Encryption and authentication as the protocol's name says (RFC 3848): `ESMTPSA`.
fn protocol_marks(relay: &mut Relay) {
    let with = relay.with.to_ascii_uppercase();
    let tail = ["UTF8SMTP", "UTF8LMTP", "ESMTP", "LMTP"].iter().find_map(|p| with.strip_prefix(p));
    match tail {
        Some("A") => relay.authenticated = true,
        Some("S") => relay.encrypted = true,
        Some("SA") => (relay.encrypted, relay.authenticated) = (true, true),
        _ => relay.encrypted |= with == "HTTPS",
    }
    relay.authenticated |= with == "ASMTP";
}

/// `[192.0.2.1]`, `[IPv6:2001:db8::1]`, `192.0.2.1`, `[192.0.2.1]:25`, `2001:db8::1`.
fn address(word: &[u8]) -> Option<IpAddr> {
    let word = std::str::from_utf8(word).ok()?;
    let inside = match word.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => word,
    };
    let plain = match inside.get(..5) {
        Some(tag) if tag.eq_ignore_ascii_case("ipv6:") => &inside[5..],
        _ => inside,
    };
    let v4 = plain.split_once(':').map_or(plain, |(ip, _)| ip);
    let v6 = plain.split('%').next().unwrap_or_default();
    v4.parse::<Ipv4Addr>()
        .map(IpAddr::V4)
        .or_else(|_| v6.parse::<Ipv6Addr>().map(IpAddr::V6))
        .ok()
        .map(|ip| ip.to_canonical())
}

/// A word or the inside of a comment.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Comment(&'a [u8]),
}

/// Splits at white space; comments may nest, and one that never closes is read as words.
fn tokens(value: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    let iterator = std::iter::from_fn(move || {
        at += value.get(at..)?.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let rest = value.get(at..).filter(|r| !r.is_empty())?;
        if rest[0] == b'('
            && let Some(length) = comment_length(rest)
        {
            at += length;
            return Some(Token::Comment(&rest[1..length - 1]));
        }
        let ends = |b: &u8| b.is_ascii_whitespace() || *b == b'(';
        let length = 1 + rest[1..].iter().position(ends).unwrap_or(rest.len() - 1);
        at += length;
        Some(Token::Word(&rest[..length]))
    });
    iterator.take(TOKENS_MAX)
}

fn comment_length(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0u32;
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(i + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: &str) -> (String, String, String, String, String) {
        let r = parse(value.as_bytes());
        let ip = r.ip.map(|ip| ip.to_string()).unwrap_or_default();
        (r.helo, r.rdns, ip, r.by, r.with)
    }

    fn is(value: &str, helo: &str, rdns: &str, ip: &str, by: &str, with: &str) {
        let want = (helo.into(), rdns.into(), ip.into(), by.into(), with.into());
        assert_eq!(row(value), want, "{value}");
    }

    #[test]
    fn forms_of_the_common_servers() {
        is(
            "from mail.example.com (mx1.example.com [192.0.2.1]) by mx.example.org (Postfix) with \
            ESMTPS id 4AB12 for <bob@example.org>; Sat, 21 Nov 2026 10:00:00 +0100 (CET)",
            "mail.example.com",
            "mx1.example.com",
            "192.0.2.1",
            "mx.example.org",
            "ESMTPS",
        );
        is(
            "from x (unknown [IPv6:2001:db8::1]) by y (Postfix) with SMTP id 1",
            "x",
            "",
            "2001:db8::1",
            "y",
            "SMTP",
        );
        is(
            "from h.example (root@r.example.com [192.0.2.9] (may be forged)) by s (8.14.4/8.14.4) with ESMTP id q",
            "h.example",
            "r.example.com",
            "192.0.2.9",
            "s",
            "ESMTP",
        );
        is(
            "from r.example.com ([192.0.2.2]:4711 helo=h.example) by exim.example with esmtps (TLS1.3) (Exim 4.94) id 1x",
            "h.example",
            "r.example.com",
            "192.0.2.2",
            "exim.example",
            "esmtps",
        );
        is(
            "from [192.0.2.3] (helo=h.example) by exim.example with smtp (Exim 4.1) id 2",
            "h.example",
            "",
            "192.0.2.3",
            "exim.example",
            "smtp",
        );
        is(
            "from unknown (HELO h.example) (user@192.0.2.4) by q.example with SMTP; 1 Jan 2020 00:00:00 -0000",
            "h.example",
            "",
            "192.0.2.4",
            "q.example",
            "SMTP",
        );
        is(
            "from r.example (HELO h.example) ([192.0.2.4]) by q.example (qpsmtpd/0.40) with ESMTP",
            "h.example",
            "r.example",
            "192.0.2.4",
            "q.example",
            "ESMTP",
        );
        is(
            "from AM0.prod.example.com (2603:10a6::5) by VI1.prod.example.com (2603:10a6::6) with Microsoft SMTP Server (version=TLS1_2, cipher=X) id 15.20",
            "AM0.prod.example.com",
            "",
            "2603:10a6::5",
            "VI1.prod.example.com",
            "Microsoft",
        );
        is(
            "from mail.example.com (mail.example.com. [192.0.2.7]) by mx.google.example with ESMTPS id z1 for <a@b> (version=TLS1_3)",
            "mail.example.com",
            "mail.example.com",
            "192.0.2.7",
            "mx.google.example",
            "ESMTPS",
        );
        is(
            "by 2002:a05:6000:1 with SMTP id z1csp; Fri, 20 Nov 2026 20:00:00 -0800 (PST)",
            "",
            "",
            "",
            "2002:a05:6000:1",
            "SMTP",
        );
        is("(qmail 123 invoked by uid 0); 21 Nov 2026 09:00:00 -0000", "", "", "", "", "");
        is(
            "from [192.0.2.8] (account joe HELO pc) by c.example (CommuniGate Pro SMTP 5) with ESMTPA id 9",
            "pc",
            "",
            "192.0.2.8",
            "c.example",
            "ESMTPA",
        );
    }

    #[test]
    fn marks_recipient_and_date() {
        let relay = parse(b"from x (y.z [192.0.2.1] (using TLSv1.2 with cipher A)) (Authenticated sender: joe) by b \
            with ESMTP id I for <bob@example.org>; Sat, 21 Nov 2026 10:00:00 +0000");
        assert!(relay.encrypted && relay.authenticated);
        assert_eq!((&*relay.id, &*relay.recipient), ("I", "bob@example.org"));
        assert_eq!(relay.date, Some(1_795_255_200));
        assert!(parse(b"from a by b with ESMTPSA id 1").authenticated);
        assert!(!parse(b"from a by b with ESMTP id 1").encrypted);
        for odd in ["", ";", "from", "from (", "from by with id for", "by ((((", "from \u{ff}"] {
            let _ = parse(odd.as_bytes());
        }
    }

    #[test]
    fn how_far_to_believe() {
        let hop = |ip: &str, authenticated| Relay {
            ip: ip.parse().ok(),
            authenticated,
            ..Relay::default()
        };
        let relays = [
            hop("10.0.0.1", false),
            hop("-", false),
            hop("192.0.2.1", false),
            hop("10.0.0.9", false),
        ];
        assert_eq!(trust_path(&relays, &[]), TrustPath { trusted: 3, entry: Some(2) });
        let networks = ["192.0.2.0/24".parse().unwrap()];
        assert_eq!(trust_path(&relays, &networks), TrustPath { trusted: 1, entry: Some(0) });
        let login = [hop("198.51.100.7", true), hop("192.0.2.1", false)];
        assert_eq!(trust_path(&login, &[]), TrustPath { trusted: 1, entry: None });
        assert_eq!(trust_path(&[], &[]), TrustPath::default());
    }

    #[test]
    fn networks() {
        let net: Network = "2001:db8::/32".parse().unwrap();
        assert!(net.contains("2001:db8:1::1".parse().unwrap()));
        assert!(!net.contains("192.0.2.1".parse().unwrap()));
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("::ffff:203.0.113.1".parse().unwrap()));
        assert!("192.0.2.0/33".parse::<Network>().is_err() && "x".parse::<Network>().is_err());
    }
}
