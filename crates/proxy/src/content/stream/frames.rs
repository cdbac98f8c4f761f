//! Frames of gRPC.

use gauntlet_sniff::sniff;

use super::Look;
use crate::content::group::group;

/// Flag and length before a message.
const HEAD_BYTES: usize = 5;
/// Bytes of a message that say whether it is a file.
const BEGIN_BYTES: usize = 16;

/// Follows the frames: a flag, the length of a message, and a message that is no program, archive
/// or document.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Of the frame: its head and the first bytes of its message.
    begin: Vec<u8>,
    /// Bytes of the message that follow those.
    left: u64,
    is_one: bool,
    is_other: bool,
}

impl Frames {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Look {
        while !self.is_other && !bytes.is_empty() {
            bytes = self.take(bytes);
        }
        match (self.is_other, self.is_one) {
            (true, _) => Look::Other,
            (false, true) => Look::Stream,
            (false, false) => Look::Undecided,
        }
    }

    /// Takes some bytes, at least one; what is left.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.left > 0 {
            let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            self.left -= count as u64;
            return bytes.get(count..).unwrap_or_default();
        }
        let Some((byte, rest)) = bytes.split_first() else { return bytes };
        self.begin.push(*byte);
        // A message, compressed or not; with gRPC-Web trailers, too.
        let is_flag = matches!(self.begin.first(), Some(0 | 1 | 0x80 | 0x81));
        let Some((head, message)) = self.begin.split_first_chunk::<HEAD_BYTES>() else {
            self.is_other = !is_flag;
            return rest;
        };
        let [_, length @ ..] = *head;
        let length = u64::from(u32::from_be_bytes(length));
        if message.len() as u64 == length.min(BEGIN_BYTES as u64) {
            // A message that the flag says is compressed begins as an archive does.
            let is_packed = head.first().is_some_and(|flag| flag & 1 == 1);
            self.is_other = group(sniff(message)).is_some_and(|group| match group {
                "image" | "media" => false,
                "archive" => !is_packed,
                _ => true,
            });
            self.is_one = true;
            self.left = length - message.len() as u64;
            self.begin.clear();
        }
        rest
    }
}

/// Frames in Base64.
#[derive(Debug, Default)]
pub(crate) struct Base64 {
    is_other: bool,
}

impl Base64 {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Look {
        let is_digit = |b: &u8| b.is_ascii_alphanumeric() || b"+/=\r\n".contains(b);
        self.is_other |= !bytes.iter().all(is_digit);
        if self.is_other { Look::Other } else { Look::Stream }
    }
}
