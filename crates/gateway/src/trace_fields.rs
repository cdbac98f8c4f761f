//! Trace fields (RFC 5321 section 4.4): ours at the top, and how many a message has.

use std::net::IpAddr;

use gauntlet_mail::date;
use gauntlet_mail::fields::{fields, is_named};

/// The contents of a Received field.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// What the client called itself.
    pub helo: &'a str,
    /// IP address of the client.
    pub client: IpAddr,
    /// Host name of this node, as HELO and trace fields have it.
    pub host: &'a str,
    /// `ESMTP`, `ESMTPS`, `ESMTPSA`, `LMTP`, ... (RFC 3848, RFC 6531).
    pub protocol: &'a str,
    /// Id that the node gave the message.
    pub id: &'a str,
    /// The recipient, if there is one only.
    pub recipient: Option<&'a str>,
    /// Unix time in milliseconds.
    pub at_ms: i64,
}

impl Received<'_> {
    /// The field with its line ends.
    pub fn field(&self) -> String {
        let client = match self.client.to_canonical() {
            IpAddr::V4(ip) => format!("[{ip}]"),
            IpAddr::V6(ip) => format!("[IPv6:{ip}]"),
        };
        let recipient = match self.recipient {
            Some(to) => format!("\r\n\tfor <{to}>"),
            None => String::new(),
        };
        format!(
            "Received: from {} ({client})\r\n\tby {} with {} id {}{recipient};\r\n\t{}\r\n",
            self.helo,
            self.host,
            self.protocol,
            self.id,
            date::rfc5322(self.at_ms)
        )
    }
}

/// How many Received fields the header has.
pub fn count_received(message: &[u8]) -> usize {
    fields(message).filter(|field| is_named(field, b"received")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_and_its_count() {
        let received = Received {
            helo: "client.example",
            client: "192.0.2.1".parse().unwrap(),
            host: "gw.example",
            protocol: "ESMTP",
            id: "ID",
            recipient: Some("a@b"),
            at_ms: 0,
        };
        let field = received.field();
        assert_eq!(
            field,
            "Received: from client.example ([192.0.2.1])\r\n\tby gw.example with ESMTP id ID\r\n\
             \tfor <a@b>;\r\n\tThu, 1 Jan 1970 00:00:00 +0000\r\n"
        );
        let message = format!("{field}RECEIVED: x\r\nSubject: Received: no\r\n\r\nReceived: body");
        assert_eq!(count_received(message.as_bytes()), 2);
        assert_eq!(count_received(b""), 0);
    }
}
