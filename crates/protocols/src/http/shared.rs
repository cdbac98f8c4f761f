//! What a connection and its bodies share.

use super::event::Event;

/// The most oddities of one connection that become events.
pub(super) const MESSAGES_MAX: usize = 512;

/// What bodies of one flow share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bodies that were bombs.
    pub bombs: u8,
    pub next_track_id: u32,
    /// Events that wait to be given to a transaction.
    pub log: Vec<u8>,
    /// The raw stream is to be inspected: to the server, to the client.
    pub inspect_raw: [bool; 2],
    /// How many bytes raw inspection shall see again, if that changes.
    pub raw_depth: [Option<u32>; 2],
    /// Bytes since the last request, or response, by direction.
    pub since_last: [u64; 2],
}

impl Shared {
    pub(super) fn log(&mut self, event: Event) {
        if self.log.len() < MESSAGES_MAX {
            self.log.push(event.0);
        }
    }
}
