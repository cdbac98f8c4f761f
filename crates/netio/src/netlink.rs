//! Messages of nfnetlink_queue (`linux/netfilter/nfnetlink_queue.h`), written and read as bytes.
//!
//! A library (nfq 0.2) was looked at: it sends a system call for each verdict, and does not say
//! whether checksums are filled in.

use gauntlet_packet::Time;

use crate::frame;
use crate::messages::{word16, word32};

/// `NFNL_SUBSYS_QUEUE`.
const SUBSYSTEM: u16 = 3 << 8;
const MSG_PACKET: u16 = SUBSYSTEM;
const MSG_VERDICT: u16 = SUBSYSTEM | 1;
const MSG_CONFIG: u16 = SUBSYSTEM | 2;
const MSG_VERDICT_BATCH: u16 = SUBSYSTEM | 3;
/// `NLMSG_ERROR`.
const MSG_ERROR: u16 = 2;
const REQUEST: u16 = 1;
pub(crate) const ACKNOWLEDGE: u16 = 4;

/// Length of `struct nlmsghdr` and of `struct nfgenmsg` behind it.
const HEADER_LEN: usize = 16;
const GENERAL_LEN: usize = 4;
/// Low bits of an attribute's type that name it (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

/// `NFQA_CFG_F_`: what is configured by flags.
pub(crate) const FAIL_OPEN: u32 = 1;
pub(crate) const GSO: u32 = 4;

/// What is done with packets of a queue (`NF_`).
pub(crate) const DROP: u32 = 0;
pub(crate) const ACCEPT: u32 = 1;
pub(crate) const QUEUE: u32 = 3;
pub(crate) const REPEAT: u32 = 4;

/// Messages to the kernel, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    /// Where the last one begins.
    start: usize,
}

impl Messages {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Begins a message about a queue.
    fn begin(&mut self, kind: u16, flags: u16, queue: u16) {
        // AF_UNSPEC.
        self.begin_of(kind, flags, 0, queue);
    }

    /// Begins a message of nfnetlink: to a family, with a number that means what the kind says.
    pub(crate) fn begin_of(&mut self, kind: u16, flags: u16, family: u8, number: u16) {
        self.start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((REQUEST | flags).to_ne_bytes());
        // Number of the message and of the sender: the kernel fills in the latter.
        self.bytes.extend([0; 8]);
        // Version 0.
        self.bytes.extend([family, 0]);
        self.bytes.extend(number.to_be_bytes());
        self.finish();
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.finish();
    }

    /// Writes the length of the message.
    fn finish(&mut self) {
        let len = u32::try_from(self.bytes.len() - self.start).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(self.start..self.start + 4) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
    }

    /// Binds a queue, asks for whole packets, and sets its length and flags.
    pub(crate) fn bind(&mut self, queue: u16) {
        self.begin(MSG_CONFIG, ACKNOWLEDGE, queue);
        // NFQNL_CFG_CMD_BIND.
        self.attribute(1, &[1, 0, 0, 0]);
    }

    /// Asks for whole packets, and sets length and flags.
    pub(crate) fn configure(&mut self, queue: u16, length: u32, flags: u32, mask: u32) {
        self.begin(MSG_CONFIG, ACKNOWLEDGE, queue);
        let [a, b, c, d] = 0xffff_u32.to_be_bytes();
        // NFQNL_COPY_PACKET.
        self.attribute(2, &[a, b, c, d, 2]);
        self.attribute(3, &length.to_be_bytes());
        self.attribute(4, &mask.to_be_bytes());
        self.attribute(5, &flags.to_be_bytes());
    }

    /// The verdict on one packet; with a mark and with other bytes, if they are to change.
    pub(crate) fn verdict(
        &mut self,
        queue: u16,
        id: u32,
        verdict: u32,
        mark: Option<u32>,
        payload: Option<&[u8]>,
    ) {
        self.begin(MSG_VERDICT, 0, queue);
        self.verdict_header(id, verdict, mark);
        if let Some(payload) = payload {
            self.attribute(10, payload);
        }
    }

    /// The verdict on all packets up to this one.
    pub(crate) fn verdict_up_to(&mut self, queue: u16, id: u32, verdict: u32, mark: Option<u32>) {
        self.begin(MSG_VERDICT_BATCH, 0, queue);
        self.verdict_header(id, verdict, mark);
    }

    fn verdict_header(&mut self, id: u32, verdict: u32, mark: Option<u32>) {
        let mut header = [0; 8];
        header[..4].copy_from_slice(&verdict.to_be_bytes());
        header[4..].copy_from_slice(&id.to_be_bytes());
        self.attribute(2, &header);
        if let Some(mark) = mark {
            self.attribute(3, &mark.to_be_bytes());
        }
    }
}

/// A packet of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queued<'a> {
    /// By which the verdict names it.
    pub id: u32,
    /// Its mark.
    pub mark: u32,
    /// When it came, if that is known.
    pub time: Option<Time>,
    /// The packet from its IP header on.
    pub payload: &'a [u8],
    /// How long it is, if that is cut.
    pub original_len: Option<u32>,
    /// The checksum is not filled in yet.
    pub is_partial: bool,
    /// Number of the interface by which it came; none of what the machine itself sends.
    pub incoming: Option<u32>,
    /// Of the one by which it goes on; none of what is for the machine itself.
    pub outgoing: Option<u32>,
}

/// What the kernel says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    Packet(Queued<'a>),
    /// Another message of nfnetlink: its type and its attributes.
    Other(u16, &'a [u8]),
    /// An error number of the system, or 0: done.
    Result(i32),
}

/// The packets of a datagram.
pub fn packets<'a>(datagram: &'a [u8], take: &mut dyn FnMut(Queued<'a>)) {
    each(datagram, &mut |said| {
        if let Said::Packet(packet) = said {
            take(packet);
        }
    });
}

/// Reads the messages of a datagram. What contradicts itself ends it.
pub(crate) fn each<'a>(mut datagram: &'a [u8], take: &mut dyn FnMut(Said<'a>)) {
    while datagram.len() >= HEADER_LEN {
        let len = word32(datagram, 0) as usize;
        let Some(body) = datagram.get(HEADER_LEN..len) else { return };
        match word16(datagram, 4) {
            MSG_ERROR => take(Said::Result((word32(body, 0) as i32).saturating_neg())),
            MSG_PACKET => {
                take(Said::Packet(queued(body.get(GENERAL_LEN..).unwrap_or_default())));
            }
            kind => take(Said::Other(kind, body.get(GENERAL_LEN..).unwrap_or_default())),
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// Attributes by their types, up to one that contradicts itself.
pub(crate) fn attributes<'a>(mut bytes: &'a [u8], take: &mut dyn FnMut(u16, &'a [u8])) {
    while bytes.len() >= 4 {
        let len = usize::from(word16(bytes, 0));
        let Some(value) = bytes.get(4..len) else { return };
        take(word16(bytes, 2) & TYPE_MASK, value);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// The number that an attribute's value begins with.
pub(crate) fn number(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

fn queued(bytes: &[u8]) -> Queued<'_> {
    let mut packet = Queued::default();
    attributes(bytes, &mut |kind, value| {
        let first = number(value);
        match kind {
            1 => packet.id = first,
            3 => packet.mark = first,
            4 => packet.time = time(value),
            // NFQA_IFINDEX_INDEV, NFQA_IFINDEX_OUTDEV.
            5 => packet.incoming = Some(first),
            6 => packet.outgoing = Some(first),
            10 => packet.payload = value,
            13 => packet.original_len = Some(first),
            // NFQA_SKB_INFO: NFQA_SKB_CSUMNOTREADY.
            14 => packet.is_partial = first & 1 != 0,
            _ => {}
        }
    });
    packet
}

fn time(value: &[u8]) -> Option<Time> {
    let (seconds, rest) = value.split_first_chunk()?;
    let micros = u64::from_be_bytes(*rest.first_chunk()?);
    Some(frame::time(u64::from_be_bytes(*seconds), micros.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let mut messages = Messages::default();
        messages.bind(3);
        let first = messages.bytes().len();
        assert_eq!(word32(messages.bytes(), 0) as usize, first);
        messages.verdict(3, 9, ACCEPT, Some(5), Some(&[1, 2, 3]));
        let second = &messages.bytes()[first..];
        assert_eq!(word32(second, 0) as usize, second.len());
        // Header, nfgenmsg, verdict, mark, payload with its padding.
        assert_eq!(second.len(), 16 + 4 + 12 + 8 + 8);
        assert_eq!(second[18..20], [0, 3]);
    }

    #[test]
    fn a_packet_is_read_from_its_attributes() {
        let mut bytes = vec![0; HEADER_LEN + GENERAL_LEN];
        let attributes: [(u16, &[u8]); 4] = [
            (1, &[0, 0, 0, 7, 8, 0, 1]),
            (3, &[0, 0, 1, 0]),
            (14 | 0x8000, &[0, 0, 0, 1]),
            (10, b"payload"),
        ];
        for (kind, value) in attributes {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&MSG_PACKET.to_ne_bytes());
        let mut found = Vec::new();
        packets(&bytes, &mut |packet| found.push(packet));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].id, found[0].mark, found[0].is_partial), (7, 256, true));
        assert_eq!(found[0].payload, b"payload");
        // Cut anywhere, it is no packet or one without its payload.
        for end in 0..bytes.len() {
            packets(&bytes[..end], &mut |packet| assert!(packet.payload.len() <= 7));
        }
    }
}
