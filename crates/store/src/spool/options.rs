//! Configuration of a spool.

use std::time::Duration;

/// Limits of a spool.
#[derive(Debug, Clone, Copy)]
pub struct SpoolOptions {
    /// Size in bytes over which a segment is closed.
    pub segment_bytes_max: u64,
    /// Bytes from which a message is large: a second thread writes it to segments of their own, so
    /// that small ones do not wait until it is on the disk.
    pub large_bytes_min: usize,
    /// Most messages made durable by one sync.
    pub batch_messages_max: usize,
    /// Most bytes made durable by one sync.
    pub batch_bytes_max: u64,
    /// How long a sync waits for more messages to share it, unless the batch is full. A single
    /// message that follows a batch of one is not delayed.
    pub batch_wait: Duration,
    /// Idle time after which segments are compacted and a failed medium is probed.
    pub compact_after: Duration,
    /// Free bytes of the medium below which messages are refused.
    pub free_bytes_min: u64,
    /// Bytes of all segments above which messages are refused.
    pub bytes_max: u64,
}

impl Default for SpoolOptions {
    fn default() -> Self {
        SpoolOptions {
            segment_bytes_max: 64 << 20,
            large_bytes_min: 512 << 10,
            batch_messages_max: 256,
            batch_bytes_max: 32 << 20,
            batch_wait: Duration::from_millis(1),
            compact_after: Duration::from_millis(500),
            free_bytes_min: 256 << 20,
            bytes_max: 64 << 30,
        }
    }
}
