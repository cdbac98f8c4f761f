//! Frames that come, and what becomes of them.

use std::io;
use std::ops::Range;
use std::time::Duration;

use gauntlet_packet::Frame;

use crate::statistics::Statistics;

/// A frame that came.
#[derive(Debug)]
pub struct Received {
    /// The frame, with its VLAN tag; of NFQUEUE an IP packet. Its number is 0.
    pub frame: Frame,
    /// Checksums of transports are not filled in yet, or the kernel has found them right.
    pub checksums_trusted: bool,
    /// Number of the interface by which it came, if that is known.
    pub incoming: Option<u32>,
    /// Of the one by which it goes on.
    pub outgoing: Option<u32>,
}

/// Bytes that are sent on in place of those that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where they are in the frame; begins at an even place of the TCP segment.
    pub place: Range<usize>,
    /// As many bytes.
    pub bytes: Vec<u8>,
    /// Where the checksum of TCP is in the frame.
    pub checksum_at: usize,
}

/// Whom a reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyTo {
    /// The sender of the frame.
    Source,
    /// Its receiver.
    Destination,
}

/// A frame that is sent because of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Whom it is for.
    pub to: ReplyTo,
    /// A frame, or an IP packet if such came.
    pub bytes: Vec<u8>,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// It is not sent on.
    pub is_dropped: bool,
    /// Sent on with other bytes.
    pub change: Option<Change>,
    /// Its flow need not be shown any more (NFQUEUE sets the bypass mark).
    pub bypass: bool,
    /// Sent because of it.
    pub replies: Vec<Reply>,
}

impl Answer {
    /// Sent on as it is.
    pub fn pass() -> Self {
        Self::default()
    }

    /// Not sent on.
    pub fn drop() -> Self {
        Self { is_dropped: true, ..Self::default() }
    }
}

/// Where one thread's frames come from and go to.
pub trait Port: Send {
    /// Hands what is there to `handle`, a batch at most, and carries its answers out. Waits up to
    /// `wait` if nothing is there. Returns the number of frames.
    ///
    /// # Errors
    ///
    /// If the interface or queue is gone, or the system fails.
    fn turn(
        &mut self,
        wait: Duration,
        handle: &mut dyn FnMut(&Received) -> Answer,
    ) -> io::Result<usize>;

    /// What was counted since the port was made.
    fn statistics(&mut self) -> Statistics;
}
