//! Sets of nftables, to which addresses are added for a while (`linux/netfilter/nf_tables.h`).
//!
//! Nothing is ever taken out: what others put there stays, and what is put there here goes by its
//! time.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::error::Error;
use crate::netlink::{self, ACKNOWLEDGE, Messages, Said};
use crate::queue;
use crate::sys::{self, Batch, Ready};

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
const MSG_NEW_SET: u16 = SUBSYSTEM << 8 | 9;
const MSG_GET_SET: u16 = SUBSYSTEM << 8 | 10;
const MSG_NEW_ELEMENT: u16 = SUBSYSTEM << 8 | 12;
/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`.
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NLM_F_CREATE`.
const CREATE: u16 = 0x400;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// `NFT_SET_TIMEOUT`.
const FLAG_TIMEOUT: u32 = 0x10;
/// `TYPE_IPADDR`, `TYPE_IP6ADDR` of nft; of two addresses one behind the other (`TYPE_BITS`).
const TYPE_V4: u32 = 7;
const TYPE_V6: u32 = 8;
const TYPE_BITS: u32 = 6;
/// Elements of one message at most.
const ELEMENTS_MAX: usize = 128;
/// Longest answer of the kernel.
const ANSWER_LEN_MAX: usize = 65_536;
/// How long it may take.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Datagrams that an answer may have.
const ANSWERS_MAX: usize = 16;
/// Longest name (`NFT_NAME_MAXLEN`).
const NAME_BYTES_MAX: usize = 255;

/// Addresses of which version a set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetVersion {
    /// `ipv4_addr`, or `ipv4_addr . ipv4_addr`.
    V4,
    /// `ipv6_addr`, or `ipv6_addr . ipv6_addr`.
    V6,
}

impl SetVersion {
    fn name(self) -> &'static str {
        match self {
            SetVersion::V4 => "ipv4_addr",
            SetVersion::V6 => "ipv6_addr",
        }
    }

    fn kind(self) -> u32 {
        match self {
            SetVersion::V4 => TYPE_V4,
            SetVersion::V6 => TYPE_V6,
        }
    }
}

/// What the kernel says of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Described {
    flags: u32,
    key_type: u32,
}

/// A set that takes addresses for a while.
#[derive(Debug)]
pub struct BlockSet {
    socket: OwnedFd,
    family: u8,
    table: String,
    name: String,
    version: SetVersion,
    /// An element is sender and receiver.
    has_both: bool,
}

impl BlockSet {
    /// Opens a set by family, table and name, separated by blanks (`inet filter blocked`), and
    /// checks that it takes addresses of this version for a while.
    ///
    /// # Errors
    ///
    /// If it does not, with the command that makes such a set.
    pub fn open(text: &str, version: SetVersion) -> Result<Self, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || Error::Setting {
            key: "nft-set".to_owned(),
            value: text.to_owned(),
            wanted: "a set as nft names it: FAMILY TABLE NAME, e.g. inet filter gauntlet_blocked",
        };
        let [family_name, table, name] = words.as_slice() else { return Err(wrong()) };
        let family = family(family_name).ok_or_else(wrong)?;
        if [table, name].iter().any(|word| !is_name(word)) {
            return Err(wrong());
        }
        let denied = || Error::system("nftables", "CAP_NET_ADMIN");
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER);
        let socket = socket.map_err(denied())?;
        sys::bind_netlink(socket.as_fd()).map_err(denied())?;
        let (table, name) = ((*table).to_owned(), (*name).to_owned());
        let mut set = Self { socket, family, table, name, version, has_both: false };
        let refused = |what, command| Error::Set { set: text.to_owned(), what, command };
        let make = format!(
            "nft add table {family_name} {0}; nft add set {family_name} {0} {1} \
             '{{ type {2}; flags timeout; }}'",
            set.table,
            set.name,
            version.name()
        );
        let described = match set.describe() {
            Ok(described) => described,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                return Err(refused("is not there", make));
            }
            Err(error) => return Err(denied()(error)),
        };
        let again = || format!("nft delete set {text}; {make}");
        let single = version.kind();
        match described.key_type {
            kind if kind == single => {}
            kind if kind == single << TYPE_BITS | single => set.has_both = true,
            _ => return Err(refused("has elements of another type", again())),
        }
        if described.flags & FLAG_TIMEOUT == 0 {
            return Err(refused("keeps elements for ever (it has no `flags timeout`)", again()));
        }
        Ok(set)
    }

    /// Addresses of which version it takes.
    pub fn version(&self) -> SetVersion {
        self.version
    }

    /// Adds senders (or, if the set has both, senders and receivers) for so long. What is there
    /// already stays as it is.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, because the set is full or gone; none of them may be there then.
    pub fn add(&self, ends: &[(IpAddr, IpAddr)], time: Duration) -> io::Result<()> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).to_be_bytes();
        for ends in ends.chunks(ELEMENTS_MAX) {
            let mut elements = Vec::new();
            for (source, destination) in ends {
                let Some(key) = self.key(*source, *destination) else { continue };
                let mut element = Vec::new();
                // NFTA_SET_ELEM_KEY { NFTA_DATA_VALUE }, NFTA_SET_ELEM_TIMEOUT.
                put(&mut element, 1 | NESTED, &attribute(1, &key));
                put(&mut element, 4, &millis);
                // NFTA_LIST_ELEM.
                put(&mut elements, 1 | NESTED, &element);
            }
            if elements.is_empty() {
                continue;
            }
            let mut messages = Messages::default();
            messages.begin_of(BATCH_BEGIN, 0, 0, SUBSYSTEM);
            messages.begin_of(MSG_NEW_ELEMENT, CREATE | ACKNOWLEDGE, self.family, 0);
            // NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_ELEM_LIST_SET, NFTA_SET_ELEM_LIST_ELEMENTS.
            messages.attribute(1, &text(&self.table));
            messages.attribute(2, &text(&self.name));
            messages.attribute(3 | NESTED, &elements);
            messages.begin_of(BATCH_END, 0, 0, SUBSYSTEM);
            queue::ask(&self.socket, &messages)?;
        }
        Ok(())
    }

    fn key(&self, source: IpAddr, destination: IpAddr) -> Option<Vec<u8>> {
        let bytes = |address: IpAddr| match (self.version, address) {
            (SetVersion::V4, IpAddr::V4(address)) => Some(address.octets().to_vec()),
            (SetVersion::V6, IpAddr::V6(address)) => Some(address.octets().to_vec()),
            _ => None,
        };
        let mut key = bytes(source)?;
        if self.has_both {
            key.extend(bytes(destination)?);
        }
        Some(key)
    }

    /// Asks the kernel about the set.
    fn describe(&self) -> io::Result<Described> {
        let mut messages = Messages::default();
        messages.begin_of(MSG_GET_SET, ACKNOWLEDGE, self.family, 0);
        // NFTA_SET_TABLE, NFTA_SET_NAME.
        messages.attribute(1, &text(&self.table));
        messages.attribute(2, &text(&self.name));
        queue::send(&self.socket, &messages)?;
        let mut batch = Batch::new(4, ANSWER_LEN_MAX);
        let mut described = None;
        for _ in 0..ANSWERS_MAX {
            sys::poll(&[self.socket.as_fd()], Ready::Read, ANSWER_WAIT)?;
            batch.receive(self.socket.as_fd())?;
            let mut result = None;
            for (datagram, _) in batch.iter() {
                netlink::each(datagram, &mut |said| match said {
                    Said::Other(MSG_NEW_SET, attributes) => {
                        described = Some(described_by(attributes));
                    }
                    Said::Result(number) => result = Some(number),
                    Said::Packet(_) | Said::Other(..) => {}
                });
            }
            match (result, described) {
                (Some(0), Some(described)) => return Ok(described),
                (Some(0), None) => return Err(io::ErrorKind::InvalidData.into()),
                (Some(number), _) => return Err(io::Error::from_raw_os_error(number)),
                (None, _) => {}
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

fn described_by(attributes: &[u8]) -> Described {
    let mut described = Described::default();
    netlink::attributes(attributes, &mut |kind, value| match kind {
        // NFTA_SET_FLAGS, NFTA_SET_KEY_TYPE.
        3 => described.flags = netlink::number(value),
        4 => described.key_type = netlink::number(value),
        _ => {}
    });
    described
}

/// `NFPROTO_`.
fn family(name: &str) -> Option<u8> {
    Some(match name {
        "inet" => 1,
        "ip" => 2,
        "netdev" => 5,
        "bridge" => 7,
        "ip6" => 10,
        _ => return None,
    })
}

fn is_name(word: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    word.len() <= NAME_BYTES_MAX && word.chars().all(is_allowed)
}

/// A text with its end.
fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len());
    put(&mut bytes, kind, value);
    bytes
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_are_read() {
        for text in ["", "inet filter", "inet filter a b", "arp filter a", "inet fil;ter a"] {
            let error = BlockSet::open(text, SetVersion::V4).unwrap_err();
            assert!(matches!(error, Error::Setting { .. }), "{text}: {error}");
        }
        let described = [attribute(3, &0x10_u32.to_be_bytes()), attribute(4, &[0, 0, 0, 7])];
        let wanted = Described { flags: FLAG_TIMEOUT, key_type: TYPE_V4 };
        assert_eq!(described_by(&described.concat()), wanted);
        assert_eq!(described_by(&[9, 0, 3]), Described::default());
    }
}
