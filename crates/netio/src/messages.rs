//! Control messages beside a frame (cmsg(3), packet(7)): its VLAN tag and its time.

use gauntlet_packet::Time;

use crate::frame::{self, Tag};

/// What is said beside a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// When it came.
    pub time: Option<Time>,
    /// The tag that was taken out.
    pub tag: Option<Tag>,
}

/// Length of a message's header: its length, level and type.
const HEADER_LEN: usize = 16;

/// Reads control messages as a 64-bit kernel writes them.
pub fn control(mut bytes: &[u8]) -> Beside {
    let mut beside = Beside::default();
    while let Some((header, _)) = bytes.split_at_checked(HEADER_LEN) {
        let len = usize::try_from(word64(header, 0)).unwrap_or(usize::MAX);
        let Some(data) = bytes.get(HEADER_LEN..len) else { break };
        match (word32(header, 8) as i32, word32(header, 12) as i32) {
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                beside.tag = frame::tag(word32(data, 0), word16(data, 16), word16(data, 18));
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                beside.time = Some(frame::time(word64(data, 0), word64(data, 8)));
            }
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    beside
}

/// A number of the kernel at a place; 0 if it is not there.
pub(crate) fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

/// The same of 32 bits.
pub(crate) fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// The same of 16 bits.
pub(crate) fn word16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_ne_bytes(*word))
}
