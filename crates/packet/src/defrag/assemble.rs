//! Fragments to a packet.

use std::sync::Arc;

use super::policy::Span;
use crate::checksum::fix;
use crate::packet::IpVersion;

/// Longer packets are given up, with what was before IP in the first fragment (Suricata's
/// `MAX_PAYLOAD_SIZE`), in bytes.
const PACKET_BYTES_MAX: usize = 40 + 65_536 + 28;

/// What precedes the data in a fragment at offset 0.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// The IP header; of IPv6 all before the fragment header.
    pub(super) header: std::ops::Range<usize>,
    /// Where the byte is that names what the fragments hold, in the header.
    pub(super) next_header_at: usize,
    /// What they hold.
    pub(super) next_header: u8,
    /// How many bytes are before IP.
    pub(super) before: usize,
}

/// A fragment that waits for others.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) bytes: Arc<[u8]>,
    /// Where its data begins in the bytes.
    pub(super) data_at: usize,
    pub(super) more: bool,
    pub(super) head: Head,
}

impl Piece {
    fn data(&self, from: u32, len: u32) -> Option<&[u8]> {
        let start = self.data_at + from as usize;
        self.bytes.get(start..start + (len as usize).checked_sub(from as usize)?)
    }
}

/// Whether fragments make up a whole packet, judged by their offsets and lengths alone.
pub(super) fn is_whole(spans: &[Span]) -> bool {
    let mut end = 0;
    for span in spans {
        if span.offset > end {
            return false;
        }
        end = end.max(span.offset + span.len);
    }
    end > 0
}

/// The packet that fragments make up, without what was before IP; `None` if it is impossible.
///
/// Each fragment overwrites what is there. One at offset 0 begins anew with its header, which may
/// be longer or shorter than that of another at offset 0: then what was written stays where it is.
pub(super) fn assemble(
    version: IpVersion,
    spans: &[Span],
    pieces: &[Box<Piece>],
) -> Option<Vec<u8>> {
    let mut first: Option<&Piece> = None;
    let mut packet: Vec<u8> = Vec::new();
    let mut len = 0;
    let (mut more, mut previous) = (true, 0);
    for (span, piece) in spans.iter().zip(pieces) {
        // Behind the last fragment, only one at the same place may have what counts.
        if !more && span.offset > previous {
            break;
        }
        if span.trim >= span.len {
            continue;
        }
        // At offset 0 all is taken, trimmed or not.
        let trim = if span.offset == 0 { 0 } else { span.trim };
        if span.offset == 0 {
            first = Some(piece);
            len = span.len;
            write(&mut packet, 0, piece.bytes.get(piece.head.header.clone())?);
        } else {
            len = len.max(span.offset + span.len);
        }
        let head = &first?.head;
        let (base, end) = (head.header.len(), (span.offset + span.len) as usize);
        if head.before + base + end > PACKET_BYTES_MAX {
            return None;
        }
        write(&mut packet, base + (span.offset + trim) as usize, piece.data(trim, span.len)?);
        (more, previous) = (piece.more, span.offset);
    }
    let head = &first?.head;
    packet.resize(head.header.len() + len as usize, 0);
    let header = packet.get_mut(..head.header.len())?;
    match version {
        IpVersion::V4 => finish_ipv4(header, len)?,
        IpVersion::V6 => finish_ipv6(header, len, head)?,
    }
    Some(packet)
}

fn write(packet: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if packet.len() < end {
        packet.resize(end, 0);
    }
    if let Some(place) = packet.get_mut(at..end) {
        place.copy_from_slice(bytes);
    }
}

/// Length, fragment fields and checksum of the header.
fn finish_ipv4(header: &mut [u8], len: u32) -> Option<()> {
    // As Suricata's, the length of an impossible packet wraps.
    let total = (header.len() as u32 + len) as u16;
    let (old_len, old_offset) = (word(header, 2)?, word(header, 6)?);
    put(header, 2, total.to_be_bytes())?;
    put(header, 6, [0, 0])?;
    let checksum = fix(word(header, 10)?, old_len.wrapping_add(old_offset), word(header, 2)?);
    put(header, 10, checksum.to_le_bytes())
}

/// Length, and what follows now that there is no fragment header.
fn finish_ipv6(header: &mut [u8], len: u32, head: &Head) -> Option<()> {
    let extensions = u32::try_from(header.len().checked_sub(40)?).ok()?;
    put(header, 4, u16::try_from(len + extensions).ok()?.to_be_bytes())?;
    put(header, head.next_header_at, [head.next_header])
}

/// A word as a little-endian machine has it.
fn word(header: &[u8], at: usize) -> Option<u16> {
    header.get(at..)?.first_chunk::<2>().map(|word| u16::from_le_bytes(*word))
}

fn put<const N: usize>(header: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    header.get_mut(at..at + N)?.copy_from_slice(&bytes);
    Some(())
}
