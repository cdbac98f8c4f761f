//! Records in streams. Large reads and writes are not waited for: their data goes to the file as
//! it comes.

use gauntlet_packet::Direction;

use super::session::{Key, KeyKind, MALFORMED_DATA, Session, TOO_MANY_TRANSACTIONS};
use super::v1_wire::{HEADER_BYTES, Record1, command as command1};
use super::wire::{
    self, NETBIOS_BYTES, Record2, SESSION_MESSAGE, command as command2, is_netbios_type,
};
use crate::parser::{Outcome, Wishes};

/// So much of a large record is waited for before it is looked at.
const PARTIAL_BYTES_MIN: usize = 512;

/// Names of frames: all of a record, its header, what is behind it.
type Names = [&'static str; 3];
const NETBIOS_FRAMES: Names = ["nbss.pdu", "nbss.hdr", "nbss.data"];
const SMB1_FRAMES: Names = ["smb1.pdu", "smb1.hdr", "smb1.data"];
const SMB2_FRAMES: Names = ["smb2.pdu", "smb2.hdr", "smb2.data"];
const SMB3_FRAMES: Names = ["smb3.pdu", "smb3.hdr", "smb3.data"];
/// Bytes of the header of an encrypted record.
const TRANSFORM_BYTES: usize = 52;

/// Marks a record of so many bytes, whose header has so many.
fn mark(names: Names, at: usize, (len, header): (usize, usize), wishes: &mut Wishes) {
    let [pdu, hdr, data] = names;
    wishes.open_frame(pdu, at, Some(len as u64), None);
    wishes.open_frame(hdr, at, Some(header as u64), None);
    if len > header {
        wishes.open_frame(data, at + header, Some((len - header) as u64), None);
    }
}

/// The protocol is broken.
struct Broken;

impl Session {
    /// Takes bytes of a stream.
    pub(super) fn stream(
        &mut self,
        direction: Direction,
        input: &[u8],
        wishes: &mut Wishes,
    ) -> Outcome {
        if self.is_at_limit() {
            self.event(TOO_MANY_TRANSACTIONS);
            return Outcome::Failed;
        }
        let mut place = self.step_over(direction, input.len());
        let rest = input.get(place..).unwrap_or_default();
        place += self.continue_transfer(direction, rest, false);
        let side = direction.index();
        if self.after_gap.get(side) == Some(&true) {
            let rest = input.get(place..).unwrap_or_default();
            match wire::search(rest).filter(|_| !rest.is_empty()) {
                Some(begin) if begin >= NETBIOS_BYTES => place += begin - NETBIOS_BYTES,
                Some(begin) => place += begin,
                None if rest.is_empty() => return Outcome::Done,
                None => {
                    let kept = if input.len() < 4 { input.len() } else { 3 };
                    return Outcome::Incomplete { consumed: input.len() - kept, needed: 8 };
                }
            }
            if let Some(after_gap) = self.after_gap.get_mut(side) {
                *after_gap = false;
            }
        }
        let outcome = self.records(direction, input, place, wishes);
        if outcome == Outcome::Done {
            self.settle_after_gap(direction);
        }
        if self.is_full { Outcome::Failed } else { outcome }
    }

    fn records(
        &mut self,
        direction: Direction,
        input: &[u8],
        begin: usize,
        wishes: &mut Wishes,
    ) -> Outcome {
        let mut place = begin;
        while let Some(rest) = input.get(place..).filter(|rest| !rest.is_empty()) {
            let Some((kind, length)) = wire::netbios(rest) else {
                return Outcome::Incomplete { consumed: place, needed: NETBIOS_BYTES };
            };
            let whole = NETBIOS_BYTES + length;
            if let Some(record) = rest.get(NETBIOS_BYTES..whole) {
                mark(NETBIOS_FRAMES, place, (whole, NETBIOS_BYTES), wishes);
                let at = place + NETBIOS_BYTES;
                if kind == SESSION_MESSAGE && self.record(direction, record, at, wishes).is_err() {
                    self.event(MALFORMED_DATA);
                    return Outcome::Failed;
                }
                place += whole;
                continue;
            }
            if whole >= PARTIAL_BYTES_MIN && rest.len() < PARTIAL_BYTES_MIN {
                return Outcome::Incomplete { consumed: place, needed: PARTIAL_BYTES_MIN };
            }
            if let Some((names, header)) = self.partial(direction, rest, kind, length) {
                mark(NETBIOS_FRAMES, place, (whole, NETBIOS_BYTES), wishes);
                mark(names, place + NETBIOS_BYTES, (length, header), wishes);
                return Outcome::Done;
            }
            return Outcome::Incomplete { consumed: place, needed: whole };
        }
        Outcome::Done
    }

    /// A whole record, at this place of the bytes at hand.
    fn record(
        &mut self,
        direction: Direction,
        record: &[u8],
        at: usize,
        wishes: &mut Wishes,
    ) -> Result<(), Broken> {
        let is_response = direction == Direction::ToClient;
        match wire::version(record).ok_or(Broken)? {
            0xff => {
                let len = record.len();
                let record = Record1::read(record).ok_or(Broken)?;
                mark(SMB1_FRAMES, at, (len, HEADER_BYTES), wishes);
                match (is_response, record.is_response) {
                    (false, false) => self.request1(&record),
                    (true, true) => self.response1(&record),
                    // One that goes the wrong way is left alone.
                    _ => {}
                }
            }
            0xfe => {
                let (mut rest, mut at) = (record, at);
                while !rest.is_empty() {
                    let (record, taken) = Record2::read(rest, is_response).ok_or(Broken)?;
                    mark(SMB2_FRAMES, at, (taken, record.header_bytes), wishes);
                    at += taken;
                    match (is_response, record.is_response) {
                        (false, false) => self.request2(&record),
                        (true, true) => self.response2(&record),
                        _ => {}
                    }
                    rest = rest.get(taken..).unwrap_or_default();
                }
            }
            0xfd => {
                let (mut rest, mut at) = (record, at);
                while !rest.is_empty() {
                    let taken = wire::transform(rest).ok_or(Broken)?;
                    mark(SMB3_FRAMES, at, (taken, TRANSFORM_BYTES), wishes);
                    at += taken;
                    rest = rest.get(taken..).unwrap_or_default();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The beginning of a large record; if it was taken, names of its frames and how long its
    /// header is.
    fn partial(
        &mut self,
        direction: Direction,
        input: &[u8],
        kind: u8,
        length: usize,
    ) -> Option<(Names, usize)> {
        let record = input.get(NETBIOS_BYTES..).unwrap_or_default();
        if input.len() < PARTIAL_BYTES_MIN {
            let is_smb = is_netbios_type(kind) && wire::version(record).is_some();
            if input.len() > 8 && !is_smb {
                self.lose(direction);
            }
            return None;
        }
        if kind != SESSION_MESSAGE {
            return None;
        }
        let remaining = length - record.len();
        let is_response = direction == Direction::ToClient;
        match wire::version(record) {
            Some(0xff) => {
                let record = Record1::read(record)?;
                let wanted = if is_response { command1::READ_ANDX } else { command1::WRITE_ANDX };
                let share = Key {
                    kind: KeyKind::Share,
                    session: u64::from(record.user),
                    tree: u32::from(record.tree),
                    message: 0,
                };
                let is_pipe = self.trees.get(&share).is_some_and(|tree| tree.is_pipe);
                if record.command != wanted || is_pipe {
                    return None;
                }
                if is_response {
                    self.read1(&record, HEADER_BYTES, remaining);
                } else {
                    self.write1(&record, HEADER_BYTES, wanted, remaining);
                }
                Some((SMB1_FRAMES, HEADER_BYTES))
            }
            Some(0xfe) => {
                let (record, _) = Record2::read(record, is_response)?;
                match (is_response, record.command) {
                    (true, command2::READ) => self.read2(&record, remaining),
                    (false, command2::WRITE) => self.write2(&record, remaining),
                    _ => return None,
                }
                Some((SMB2_FRAMES, record.header_bytes))
            }
            _ => None,
        }
    }

    /// Steps over bytes that no one looks at; says how many.
    fn step_over(&mut self, direction: Direction, available: usize) -> usize {
        let Some(skip) = self.skip.get_mut(direction.index()) else { return 0 };
        let taken = (*skip).min(available);
        *skip -= taken;
        taken
    }

    /// So many bytes are missing.
    pub(super) fn missing(&mut self, direction: Direction, length: u64) {
        /// Missing bytes are handed on in pieces of this size.
        const PIECE: usize = 4096;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut left = length - self.step_over(direction, length);
        while left > 0 {
            let zeros = [0; PIECE];
            let piece = zeros.get(..left.min(PIECE)).unwrap_or(&zeros);
            let taken = self.continue_transfer(direction, piece, true);
            left -= taken;
            if taken < piece.len() {
                break;
            }
        }
        if left > 0 {
            let side = direction.index();
            for flags in [&mut self.after_gap, &mut self.had_gap] {
                if let Some(flag) = flags.get_mut(side) {
                    *flag = true;
                }
            }
        }
    }

    /// After a gap no answer is waited for, but for transfers.
    fn settle_after_gap(&mut self, direction: Direction) {
        if self.had_gap.get(direction.index()) != Some(&true) {
            return;
        }
        let newest = self.exchanges.total().saturating_sub(1);
        for exchange in self.exchanges.iter_mut() {
            if exchange.state.id >= newest {
                break;
            }
            if matches!(exchange.data.about, super::session::About::Transfer(_)) {
                continue;
            }
            exchange.state.progress = match direction {
                Direction::ToServer => [1, exchange.state.progress[1]],
                Direction::ToClient => [1, 1],
            };
        }
    }

    /// This direction cannot be followed any more.
    fn lose(&mut self, direction: Direction) {
        let side = direction.index();
        if let Some(lost) = self.lost.get_mut(side) {
            *lost = true;
        }
        for exchange in self.exchanges.iter_mut() {
            if let Some(progress) = exchange.state.progress.get_mut(side) {
                *progress = 1;
            }
        }
    }
}
