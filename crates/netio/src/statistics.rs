//! Counters of ports.

use std::fs::File;
use std::io::{self, Read, Seek};

/// Counters of one port, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that came.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that the kernel had no room for in the buffer of the socket.
    pub kernel_drops: u64,
    /// Frames that were sent on.
    pub sent: u64,
    /// Frames that could not be sent on.
    pub send_failures: u64,
    /// Replies of `reject` that were sent.
    pub replies: u64,
    /// Handshakes of a tunnel.
    pub handshakes: u64,
    /// Datagrams of a tunnel that are not authentic, and packets from addresses that are not their
    /// peer's.
    pub refused: u64,
}

impl Statistics {
    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            kernel_drops: self.kernel_drops + other.kernel_drops,
            sent: self.sent + other.sent,
            send_failures: self.send_failures + other.send_failures,
            replies: self.replies + other.replies,
            handshakes: self.handshakes + other.handshakes,
            refused: self.refused + other.refused,
        }
    }
}

/// Longest text of the kernel's list of queues that is read, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// What the kernel says of its queues. Opened before privileges are given up: the file is root's.
#[derive(Debug)]
pub struct QueueDrops(File);

impl QueueDrops {
    /// Opens the list.
    ///
    /// # Errors
    ///
    /// If the kernel has no queues, or the file may not be read.
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::open("/proc/net/netfilter/nfnetlink_queue")?))
    }

    /// Packets of these queues for which there was no room in the queue or in the buffer of its
    /// socket, since they were bound.
    pub fn of(&mut self, queues: &[u16]) -> u64 {
        let mut text = String::new();
        if self.0.rewind().is_err()
            || (&self.0).take(LIST_BYTES_MAX).read_to_string(&mut text).is_err()
        {
            return 0;
        }
        lines(&text).filter(|line| queues.contains(&line.0)).map(|line| line.1).sum()
    }

    /// Whether somebody has bound this queue.
    pub fn is_bound(&mut self, queue: u16) -> bool {
        let mut text = String::new();
        let read =
            self.0.rewind().and_then(|()| (&self.0).take(LIST_BYTES_MAX).read_to_string(&mut text));
        read.is_ok() && lines(&text).any(|line| line.0 == queue)
    }
}

/// Queue and drops of each line: number, owner, waiting, mode, range, drops of the queue, drops of
/// the socket, last id, 1.
fn lines(text: &str) -> impl Iterator<Item = (u16, u64)> {
    text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        Some((u16::try_from(number(0)?).ok()?, number(5)? + number(6)?))
    })
}
