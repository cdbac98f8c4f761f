//! Link types of captures (LINKTYPE_ of tcpdump.org), as far as they are decoded.

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
