//! Received fields (RFC 5321 section 4.4) as the common servers write them, and how far they can be
//! believed.
//!
//! What the field says is kept apart by who vouches for it: `helo` is the client's own word, `rdns`
//! and `ip` are what the server saw. Forms read: Postfix, Sendmail, Exim, qmail, Exchange, Gmail,
//! Communigate and what follows their patterns; of anything else, as much as can be recognised.

mod received;

use std::net::IpAddr;

pub use self::received::parse;
use crate::network::Network;

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
        for malformed in
            ["", ";", "from", "from (", "from by with id for", "by ((((", "from \u{ff}"]
        {
            let _ = parse(malformed.as_bytes());
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
