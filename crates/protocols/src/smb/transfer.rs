//! Pieces of files and of pipes that requests and responses carry.

use gauntlet_packet::Direction;

use super::rpc::{self, Carrier};
use super::session::{
    About, FILE_OVERLAP, Key, QUEUE_BYTES_MAX, READ_QUEUE_SIZE_EXCEEDED, Session,
    TRANSFER_BYTES_MAX, Transfer, Tree, WRITE_QUEUE_SIZE_EXCEEDED,
};
use crate::tracker::Tracker;

/// A read or write: which file, where, how much, and what is there of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) file: &'a [u8],
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) data: &'a [u8],
}

/// Where a piece of a file comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) direction: Direction,
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) status: u32,
    pub(super) header: Key,
    pub(super) share: Key,
    /// Bytes of the record that are not there yet.
    pub(super) remaining: usize,
}

pub(super) fn missing(piece: &Piece<'_>) -> u64 {
    u64::from(piece.length).saturating_sub(piece.data.len() as u64)
}

pub(super) fn is_too_large(length: u32, max: u32) -> bool {
    (max != 0 && length > max) || length > TRANSFER_BYTES_MAX
}

impl Session {
    /// A piece of a file, or of a pipe.
    pub(super) fn transfer_piece(&mut self, place: &Place, piece: &Piece<'_>, name: &[u8]) {
        let direction = place.direction;
        let is_known = self.transfer(piece.file, direction, true).is_some();
        if is_known || !self.pipe_piece(place, piece) {
            self.file_piece(place, piece, name, is_known);
        } else if self.is_full {
            return;
        }
        self.expect_file(direction, missing(piece), piece.file);
    }

    /// Whether the piece is one of a pipe.
    fn pipe_piece(&mut self, place: &Place, piece: &Piece<'_>) -> bool {
        let tree = self.trees.get(&place.share).cloned().unwrap_or_default();
        if place.version == 1 {
            if tree.is_pipe {
                self.pipe_unit(place, piece);
            }
            return tree.is_pipe;
        }
        let is_named = !tree.name.is_empty();
        let mut is_pipe = tree.is_pipe;
        let mut is_rpc = (is_pipe || !is_named) && self.is_rpc_pipe(piece.file);
        if !is_named && !is_pipe && rpc::is_likely(piece.data) {
            // The beginning was not seen, but this is DCE/RPC.
            let name = b"suricata::dcerpc".to_vec();
            self.trees.put(place.share, Tree { name: name.clone(), is_pipe: true });
            if !is_rpc {
                self.names.put(piece.file.to_vec(), name);
            }
            (is_pipe, is_rpc) = (true, true);
        }
        if !is_pipe {
            return false;
        }
        if is_rpc {
            self.pipe_unit(place, piece);
        } else {
            self.skip(place.direction, place.remaining);
        }
        true
    }

    fn pipe_unit(&mut self, place: &Place, piece: &Piece<'_>) {
        let carrier = Carrier {
            version: place.version,
            command: place.command,
            status: place.status,
            key: place.header,
        };
        // The session is part of the key already.
        let file = match place.version {
            1 => piece.file.get(..2).unwrap_or_default(),
            _ => piece.file,
        };
        match place.direction {
            Direction::ToServer => self.rpc_request(&carrier, piece.data),
            Direction::ToClient => self.rpc_response(&carrier, file, piece.data),
        }
    }

    fn file_piece(&mut self, place: &Place, piece: &Piece<'_>, name: &[u8], is_known: bool) {
        let direction = place.direction;
        if !is_known {
            let share = self.trees.get(&place.share).map(|tree| tree.name.clone());
            let transfer = Transfer {
                direction,
                file: piece.file.to_vec(),
                name: name.to_vec(),
                share: share.unwrap_or_default(),
                tracker: Tracker::default(),
            };
            let header = Key { message: 0, ..place.header };
            let about = About::Transfer(Box::new(transfer));
            let added = self.begin(place.version, place.command, Some(header), about);
            let Some(exchange) = added else { return };
            exchange.state.progress = [0, 0];
        }
        let hashes = self.hashes;
        // A transfer that was just added has no open file yet, but it is the newest one.
        let found = if is_known {
            self.transfer(piece.file, direction, true)
        } else {
            self.exchanges.last_mut()
        };
        let Some(exchange) = found else { return };
        let About::Transfer(transfer) = &mut exchange.data.about else { return };
        let Some(files) = exchange.state.files.get_mut(direction.index()) else { return };
        let overlaps = piece.offset < transfer.tracker.tracked;
        let waiting = transfer.tracker.waiting_bytes() as u64 + u64::from(piece.length);
        let is_too_much = waiting > QUEUE_BYTES_MAX as u64;
        if !is_too_much {
            let length = u64::from(piece.length);
            let tracker = &mut transfer.tracker;
            tracker.piece(files, &transfer.name, hashes, piece.offset, length, piece.data);
        }
        if overlaps {
            self.event(FILE_OVERLAP);
        }
        if is_too_much {
            self.event(match direction {
                Direction::ToServer => WRITE_QUEUE_SIZE_EXCEEDED,
                Direction::ToClient => READ_QUEUE_SIZE_EXCEEDED,
            });
            self.skip(direction, place.remaining);
        }
    }
}
