//! XCLIENT: a trusted relay reports its client's address (Postfix, *XCLIENT howto*).
//!
//! ADDR and HELO are applied. NAME, PORT, PROTO, DESTADDR and DESTPORT are parsed and ignored: the
//! gateway resolves names itself. LOGIN is not offered: clients authenticate here or not at all.

use std::net::IpAddr;

use super::{Event, Session};
use crate::reply::Reply;

/// Attributes that are offered.
pub(super) const OFFER: &str = "XCLIENT NAME ADDR PORT PROTO HELO DESTADDR DESTPORT";

/// Parses the attributes: the client's address and HELO name, if they are given.
fn read(arguments: &str) -> Option<(Option<IpAddr>, Option<String>)> {
    let (mut address, mut helo) = (None, None);
    for attribute in arguments.split(' ').filter(|a| !a.is_empty()) {
        let (name, value) = attribute.split_once('=')?;
        let value = decode(value)?;
        let known = !value.eq_ignore_ascii_case("[UNAVAILABLE]")
            && !value.eq_ignore_ascii_case("[TEMPUNAVAIL]");
        match name.to_ascii_uppercase().as_str() {
            "ADDR" if known => {
                let text = value.get(..5).filter(|tag| tag.eq_ignore_ascii_case("IPV6:"));
                let text = text.map_or(value.as_str(), |tag| &value[tag.len()..]);
                address = Some(text.parse().ok()?);
            }
            "HELO" if known => helo = Some(value),
            "ADDR" | "HELO" | "NAME" | "PORT" | "PROTO" | "DESTADDR" | "DESTPORT" => {}
            _ => return None,
        }
    }
    Some((address, helo))
}

/// Decodes xtext (RFC 1891 section 5). None unless the result is one printable word.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'+' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    let text = String::from_utf8(bytes).ok()?;
    text.bytes().all(|b| (33..=126).contains(&b)).then_some(text)
}

impl Session {
    pub(super) fn xclient(&mut self, arguments: &str, out: &mut Vec<u8>) -> Option<Event> {
        if !self.trusts_xclient {
            return self.send_error(&Reply::new(550, (5, 7, 0), "not for you"), out);
        }
        if self.transaction.is_some() {
            return self.send_error(&Reply::new(503, (5, 5, 1), "not within a message"), out);
        }
        let Some((address, helo)) = read(arguments) else {
            return self.send_error(&Reply::new(501, (5, 5, 4), "bad attribute"), out);
        };
        // The session starts again, as if the client had just connected.
        (self.helo, self.extended, self.user) = (helo, false, None);
        self.greet(out);
        Some(Event::Client(address))
    }

    /// Accepts XCLIENT from this peer.
    pub fn trust_xclient(&mut self) {
        self.trusts_xclient = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        let address = |text: &str| read(text).map(|(address, _)| address);
        assert_eq!(address("ADDR=192.0.2.1 NAME=x PORT=25"), Some("192.0.2.1".parse().ok()));
        assert_eq!(address("addr=IPV6:2001:db8::1"), Some("2001:db8::1".parse().ok()));
        assert_eq!(address("ADDR=[UNAVAILABLE] PROTO=ESMTP"), Some(None));
        assert_eq!(read("HELO=a+2Db"), Some((None, Some("a-b".into()))));
        for bad in
            ["ADDR", "ADDR=x", "LOGIN=ann", "HELO=a+0Ab", "HELO=a+Z", "HELO=a+2", "ADDR=\u{e4}"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
