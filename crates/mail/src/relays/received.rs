//! Parsing one Received field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use memchr::memrchr;

use super::Relay;
use crate::date;

/// Bytes of one Received field that are read.
const FIELD_BYTES_MAX: usize = 4_096;

/// Words and comments of one field that are read.
const TOKENS_MAX: usize = 200;

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
    let mut from = FromClause::default();
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
                note_security(comment, &mut relay);
                if clause == Clause::From {
                    from.comment(comment);
                }
            }
        }
    }
    from.finish(&mut relay);
    note_protocol_security(&mut relay);
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

    fn take(&mut self, word: &[u8], relay: &mut Relay, from: &mut FromClause) {
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
struct FromClause {
    word: String,
    helo: Option<String>,
    rdns: Option<String>,
    ip: Option<IpAddr>,
}

impl FromClause {
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

    fn finish(self, relay: &mut Relay) {
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
fn note_security(comment: &[u8], relay: &mut Relay) {
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
fn note_protocol_security(relay: &mut Relay) {
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
