//! Link types of captures (LINKTYPE_ of tcpdump.org), as far as they are decoded.

use std::fmt;

/// What a captured frame begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// BSD loopback, family in the byte order of the capturing machine: 0.
    Null,
    /// OpenBSD loopback, family in network order: 108.
    Loop,
    /// Ethernet: 1.
    Ethernet,
    /// PPP, with or without HDLC-like framing: 9 and 50.
    Ppp,
    /// An IP packet: 12, 14 and 101.
    Raw,
    /// An IPv4 packet: 228.
    Ipv4,
    /// An IPv6 packet: 229.
    Ipv6,
    /// Cisco HDLC: 104.
    Hdlc,
    /// Linux "cooked" capture: 113.
    LinuxCooked,
    /// Linux "cooked" capture, version 2: 276.
    LinuxCooked2,
    /// Another one, which is not decoded.
    Other(u32),
}

impl From<u32> for Link {
    fn from(number: u32) -> Self {
        match number {
            0 => Link::Null,
            1 => Link::Ethernet,
            9 | 50 => Link::Ppp,
            12 | 14 | 101 => Link::Raw,
            228 => Link::Ipv4,
            229 => Link::Ipv6,
            104 => Link::Hdlc,
            108 => Link::Loop,
            113 => Link::LinuxCooked,
            276 => Link::LinuxCooked2,
            other => Link::Other(other),
        }
    }
}

impl Link {
    /// Link types that are decoded, for messages.
    pub const DECODED: &'static str = "Ethernet (1), IP (12, 14, 101, 228, 229), BSD loopback (0, \
        108), Linux cooked (113, 276), PPP (9, 50), Cisco HDLC (104)";
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::Null | Link::Loop => "BSD loopback",
            Link::Ethernet => "Ethernet",
            Link::Ppp => "PPP",
            Link::Raw => "IP",
            Link::Ipv4 => "IPv4",
            Link::Ipv6 => "IPv6",
            Link::Hdlc => "Cisco HDLC",
            Link::LinuxCooked | Link::LinuxCooked2 => "Linux cooked",
            Link::Other(number) => return other(*number, f),
        })
    }
}

/// Those that people do capture have their names.
fn other(number: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = match number {
        6 => "Token Ring",
        10 => "FDDI",
        105 => "802.11",
        119 => "802.11 with a Prism header",
        127 => "802.11 with a radiotap header",
        187 | 201 => "Bluetooth",
        189 | 220 | 249 => "USB",
        192 => "PPI",
        195 | 215 | 230 => "802.15.4",
        239 => "NFLOG",
        _ => return write!(f, "link type {number}"),
    };
    write!(f, "link type {number} ({name})")
}
