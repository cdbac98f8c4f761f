//! Names of application protocols.

/// An application protocol (`app_proto`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Protocol {
    /// HTTP/1 and older.
    Http1,
    Http2,
    Ftp,
    FtpData,
    Smtp,
    Tls,
    Ssh,
    Imap,
    Pop3,
    Jabber,
    Smb,
    Dcerpc,
    Irc,
    Dns,
    Mdns,
    Modbus,
    Enip,
    Dnp3,
    Nfs,
    Ntp,
    Tftp,
    Ike,
    Krb5,
    Quic,
    Dhcp,
    Sip,
    Rfb,
    Mqtt,
    Pgsql,
    Telnet,
    Websocket,
    Ldap,
    /// DNS over HTTP/2.
    Doh2,
    Rdp,
    BittorrentDht,
    Snmp,
}

/// Protocols, names in rules, names in EVE where they differ.
const NAMES: &[(Protocol, &str)] = &[
    (Protocol::Http1, "http1"),
    (Protocol::Http2, "http2"),
    (Protocol::Ftp, "ftp"),
    (Protocol::FtpData, "ftp-data"),
    (Protocol::Smtp, "smtp"),
    (Protocol::Tls, "tls"),
    (Protocol::Ssh, "ssh"),
    (Protocol::Imap, "imap"),
    (Protocol::Pop3, "pop3"),
    (Protocol::Jabber, "jabber"),
    (Protocol::Smb, "smb"),
    (Protocol::Dcerpc, "dcerpc"),
    (Protocol::Irc, "irc"),
    (Protocol::Dns, "dns"),
    (Protocol::Mdns, "mdns"),
    (Protocol::Modbus, "modbus"),
    (Protocol::Enip, "enip"),
    (Protocol::Dnp3, "dnp3"),
    (Protocol::Nfs, "nfs"),
    (Protocol::Ntp, "ntp"),
    (Protocol::Tftp, "tftp"),
    (Protocol::Ike, "ike"),
    (Protocol::Krb5, "krb5"),
    (Protocol::Quic, "quic"),
    (Protocol::Dhcp, "dhcp"),
    (Protocol::Sip, "sip"),
    (Protocol::Rfb, "rfb"),
    (Protocol::Mqtt, "mqtt"),
    (Protocol::Pgsql, "pgsql"),
    (Protocol::Telnet, "telnet"),
    (Protocol::Websocket, "websocket"),
    (Protocol::Ldap, "ldap"),
    (Protocol::Doh2, "doh2"),
    (Protocol::Rdp, "rdp"),
    (Protocol::BittorrentDht, "bittorrent-dht"),
    (Protocol::Snmp, "snmp"),
];

impl Protocol {
    /// Its name in rules (`http1`; the name `http` means HTTP of any version, see
    /// [`ProtocolSet::of_name`]).
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(protocol, _)| *protocol == self).map_or("", |(_, name)| name)
    }

    /// Its name in EVE records: `http` for HTTP/1, otherwise [`Self::name`].
    pub fn eve_name(self) -> &'static str {
        if self == Protocol::Http1 { "http" } else { self.name() }
    }

    /// The protocol of exactly this name.
    pub fn of_name(name: &str) -> Option<Self> {
        // The old name of IKE is still that of its events.
        let name = if name == "ikev2" { "ike" } else { name };
        NAMES.iter().find(|(_, other)| *other == name).map(|(protocol, _)| *protocol)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(protocol, _)| *protocol)
    }
}

/// The protocols that a name in a rule means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ProtocolSet(u64);

impl ProtocolSet {
    /// Of a rule's protocol: `http` is HTTP/1 and HTTP/2 (but not with DNS in it, which `http2` and
    /// `dns` are, too), `doh2` also what it is made of, `dcerpc` also SMB.
    pub fn of_name(name: &str) -> Option<Self> {
        use Protocol::{Dcerpc, Dns, Doh2, Http1, Http2, Smb, Tls};
        Some(match name {
            "http" => Self::of(&[Http1, Http2]),
            "http2" => Self::of(&[Http2, Doh2]),
            "dns" => Self::of(&[Dns, Doh2]),
            "doh2" => Self::of(&[Doh2, Http2, Dns]),
            "dcerpc" => Self::of(&[Dcerpc, Smb]),
            "ssl" => Self::of(&[Tls]),
            _ => Self::of(&[Protocol::of_name(name)?]),
        })
    }

    /// These.
    pub fn of(protocols: &[Protocol]) -> Self {
        Self(protocols.iter().fold(0, |bits, protocol| bits | 1 << *protocol as u64))
    }

    /// Whether it is one of them.
    pub fn has(self, protocol: Protocol) -> bool {
        self.0 & (1 << protocol as u64) != 0
    }

    /// Those in both.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those in either.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What carries the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carrier {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
}
