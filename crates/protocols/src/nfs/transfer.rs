//! Files that calls and replies carry in pieces.

use gauntlet_packet::Direction;

use super::session::{Exchange, Pending, Rest, Session, Transfer, exchange};
use super::wire::{Call, Piece, procedure};
use crate::parser::Wishes;
use crate::tracker::Tracker;
use crate::transaction::{State, Transaction};

/// The largest read or write that is believed.
const PIECE_BYTES_MAX: u32 = 16 << 20;

impl Session {
    pub(super) fn begin_transfer(&mut self, id: u32, pending: &Pending, direction: Direction) {
        let transfer = Transfer {
            direction,
            handle: pending.handle.clone(),
            tracker: Tracker::default(),
            is_committed: false,
            is_over: false,
        };
        self.begin(Exchange { transfer: Some(transfer), ..exchange(id, pending) });
    }

    /// The open transfer of a file.
    pub(super) fn transfer(
        &mut self,
        handle: &[u8],
        direction: Direction,
    ) -> Option<&mut Transaction<Exchange>> {
        let found = self.exchanges.iter_mut().find(|known| {
            known.data.transfer.as_ref().is_some_and(|file| {
                !file.is_over && file.direction == direction && file.handle == handle
            })
        })?;
        found.state.updated = [true; 2];
        Some(found)
    }

    pub(super) fn commit(&mut self, handle: &[u8]) {
        let Some(Transaction { state, data }) = self.transfer(handle, Direction::ToServer) else {
            return;
        };
        let Some(file) = &mut data.transfer else { return };
        file.is_committed = true;
        file.is_over = true;
        let [to_server, _] = &mut state.files;
        file.tracker.close(to_server);
        state.advance(Direction::ToServer, 1);
    }

    pub(super) fn write(&mut self, call: &Call<'_>, piece: &Piece<'_>, wishes: &mut Wishes) {
        let name = self.names.get(&piece.handle.to_vec()).cloned().unwrap_or_default();
        let pending = Pending {
            version: call.version,
            procedure: procedure::WRITE,
            handle: piece.handle.to_vec(),
            name,
            ..Pending::default()
        };
        self.piece(call.header.id, &pending, piece, Direction::ToServer, wishes);
        self.calls.put(call.header.id, pending);
    }

    pub(super) fn read_piece(
        &mut self,
        id: u32,
        pending: &Pending,
        piece: &Piece<'_>,
        wishes: &mut Wishes,
    ) {
        self.piece(id, pending, piece, Direction::ToClient, wishes);
    }

    /// A piece of a file in this direction.
    fn piece(
        &mut self,
        id: u32,
        pending: &Pending,
        piece: &Piece<'_>,
        direction: Direction,
        wishes: &mut Wishes,
    ) {
        if piece.count == 0 || piece.count > PIECE_BYTES_MAX {
            return;
        }
        if self.transfer(&pending.handle, direction).is_none() {
            self.begin_transfer(id, pending, direction);
        }
        let hashes = self.hashes;
        let left = u64::from(piece.count).saturating_sub(piece.data.len() as u64);
        if let Some(Transaction { state, data }) = self.transfer(&pending.handle, direction)
            && let Some(file) = &mut data.transfer
            && let Some(files) = state.files.get_mut(direction.index())
        {
            let tracker = &mut file.tracker;
            let (offset, count) = (piece.offset, u64::from(piece.count));
            if piece.is_last && offset != tracker.tracked {
                // What is before the last piece was missed.
                tracker.truncate(files);
            }
            tracker.piece(files, &data.name, hashes, offset, count, piece.data);
            if piece.is_last {
                state.advance(direction.reverse(), 1);
                wishes.inspect(direction.reverse());
                if left == 0 {
                    finish(file, state, direction, wishes);
                }
            }
        }
        if self.is_stream
            && let Some(rest) = self.rests.get_mut(direction.index())
        {
            let count = usize::try_from(piece.count).unwrap_or(usize::MAX);
            let padding = if left > 0 { count.next_multiple_of(4) - count } else { 0 };
            *rest = Rest { left, padding, handle: pending.handle.clone(), is_last: piece.is_last };
        }
    }

    /// More of the piece at hand; says how many bytes are part of it.
    pub(super) fn continue_piece(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        is_gap: bool,
    ) -> usize {
        let Some(rest) = self.rests.get_mut(direction.index()) else { return 0 };
        let room = usize::try_from(rest.left).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        rest.left -= taken.len() as u64;
        let mut count = taken.len();
        let is_done = rest.left == 0 && !taken.is_empty();
        if rest.left == 0 {
            let padding = rest.padding.min(bytes.len() - count);
            rest.padding -= padding;
            count += padding;
        }
        if taken.is_empty() {
            return count;
        }
        let (handle, is_last) = (rest.handle.clone(), rest.is_last);
        if let Some(Transaction { state, data }) = self.transfer(&handle, direction)
            && let Some(file) = &mut data.transfer
            && let Some(files) = state.files.get_mut(direction.index())
        {
            file.tracker.update(files, taken, is_gap);
            if is_done && is_last {
                finish(file, state, direction, &mut Wishes::default());
            }
        }
        count
    }

    /// So many bytes are missing.
    pub(super) fn missing(&mut self, direction: Direction, length: u64) {
        /// Missing bytes are handed on in pieces of this size.
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut left = usize::try_from(length).unwrap_or(usize::MAX);
        while left > 0 {
            let piece = ZEROS.get(..left.min(ZEROS.len())).unwrap_or(&ZEROS);
            let taken = self.continue_piece(direction, piece, true);
            left -= taken;
            if taken < piece.len() {
                break;
            }
        }
        for flags in [&mut self.gaps, &mut self.had_gap] {
            if let Some(flag) = flags.get_mut(direction.index()) {
                *flag = true;
            }
        }
    }
}

/// The last piece of a file is through.
fn finish(file: &mut Transfer, state: &mut State, direction: Direction, wishes: &mut Wishes) {
    if let Some(files) = state.files.get_mut(direction.index()) {
        file.tracker.close(files);
    }
    file.is_over = true;
    state.advance(direction, 1);
    wishes.inspect(direction);
}
