//! Calls, replies, and the files that they carry in pieces.

use gauntlet_packet::Direction;

use super::wire::{self, Call, Defect, Header, Reply, procedure};
use crate::files::HashSettings;
use crate::parser::{Outcome, Wishes};
use crate::recent::Recent;
use crate::tracker::Tracker;
use crate::transaction::{State, Transaction, Transactions};

/// Transactions that wait; with more the oldest open one counts as complete.
const TRANSACTIONS_MAX: usize = 1024;
/// Calls without replies, and names of handles, that are remembered.
const CALLS_MAX: usize = 512;
const NAMES_MAX: usize = 512;
/// Names in one listing that are read.
const ENTRIES_MAX: usize = 4096;
/// Of reads and writes in records from this size on the end is not waited for.
const PARTIAL_BYTES_MIN: usize = 512;
/// So much of a call or a reply must be there before that.
const CALL_BYTES_MIN: usize = 44;
const REPLY_BYTES_MIN: usize = 128;

const MALFORMED_DATA: u8 = 0;
const TOO_MANY_TRANSACTIONS: u8 = 3;

/// A call that waits for its reply.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    pub(super) version: u32,
    pub(super) procedure: u32,
    pub(super) offset: u64,
    pub(super) name: Vec<u8>,
    pub(super) handle: Vec<u8>,
}

/// The transfer of a file.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) direction: Direction,
    pub(super) handle: Vec<u8>,
    pub(super) tracker: Tracker,
    pub(super) is_committed: bool,
    pub(super) is_over: bool,
}

/// A call with its reply, or all reads or writes of a file.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) id: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
    pub(super) name: Vec<u8>,
    /// The new name, of RENAME.
    pub(super) new_name: Vec<u8>,
    pub(super) transfer: Option<Transfer>,
}

impl Exchange {
    /// The `i`th of its procedures.
    pub(super) fn procedure(&self, i: usize) -> Option<u32> {
        let is_committed = self.transfer.as_ref().is_some_and(|file| file.is_committed);
        match i {
            0 => Some(self.procedure),
            1 if is_committed => Some(procedure::COMMIT),
            _ => None,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.transfer.is_some()
    }
}

/// A piece of a file of which bytes are still to come.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) left: u64,
    /// Bytes that fill the last word.
    pub(super) padding: usize,
    pub(super) handle: Vec<u8>,
    pub(super) is_last: bool,
}

/// All of a flow.
pub(super) struct Session {
    pub(super) exchanges: Transactions<Exchange>,
    pub(super) hashes: HashSettings,
    pub(super) calls: Recent<u32, Pending>,
    pub(super) names: Recent<Vec<u8>, Vec<u8>>,
    pub(super) rests: [Rest; 2],
    /// Bytes are missing: a record is looked for.
    pub(super) gaps: [bool; 2],
    pub(super) had_gap: [bool; 2],
    pub(super) is_stream: bool,
}

impl Session {
    pub(super) fn new(hashes: HashSettings, is_stream: bool) -> Self {
        Self {
            exchanges: Transactions::default(),
            hashes,
            calls: Recent::new(CALLS_MAX),
            names: Recent::new(NAMES_MAX),
            rests: [Rest::default(), Rest::default()],
            gaps: [false; 2],
            had_gap: [false; 2],
            is_stream,
        }
    }

    fn event(&mut self, event: u8) {
        if let Some(last) = self.exchanges.last_mut() {
            last.state.event(event);
        }
    }

    /// Takes bytes of a stream.
    pub(super) fn stream(
        &mut self,
        direction: Direction,
        input: &[u8],
        wishes: &mut Wishes,
    ) -> Outcome {
        let mut place = self.continue_piece(direction, input, false);
        if self.gaps.get(direction.index()) == Some(&true) {
            loop {
                let rest = input.get(place..).unwrap_or_default();
                match wire::probe(rest, direction, true) {
                    _ if rest.is_empty() => return Outcome::Done,
                    Ok(()) => break,
                    Err(Defect::Incomplete) => {
                        return Outcome::Incomplete { consumed: place, needed: rest.len() + 1 };
                    }
                    Err(Defect::Invalid) => place += 1,
                }
            }
            if let Some(gap) = self.gaps.get_mut(direction.index()) {
                *gap = false;
            }
        }
        let outcome = self.records(direction, input, place, wishes);
        if outcome == Outcome::Done {
            self.settle(direction);
        }
        outcome
    }

    fn records(
        &mut self,
        direction: Direction,
        input: &[u8],
        begin: usize,
        wishes: &mut Wishes,
    ) -> Outcome {
        let mut place = begin;
        let least = if direction == Direction::ToServer { 28 } else { 12 };
        while let Some(rest) = input.get(place..).filter(|rest| !rest.is_empty()) {
            wishes.open_frame("rpc.pdu", place, Some(rest.len() as u64), None);
            let (header, number) = match Header::peek(rest, direction) {
                Ok(peeked) => peeked,
                Err(Defect::Incomplete) => {
                    return Outcome::Incomplete { consumed: place, needed: least };
                }
                Err(Defect::Invalid) => {
                    self.event(MALFORMED_DATA);
                    return Outcome::Failed;
                }
            };
            let Some(record) = rest.get(..header.length) else {
                return match self.partial(direction, rest, (header, number), wishes) {
                    Some(true) => Outcome::Done,
                    Some(false) => {
                        let needed = rest.len().max(1024).min(header.length);
                        Outcome::Incomplete { consumed: place, needed }
                    }
                    None => {
                        self.event(MALFORMED_DATA);
                        Outcome::Failed
                    }
                };
            };
            if self.record(direction, record, (place, rest.len()), wishes).is_err() {
                self.event(MALFORMED_DATA);
            }
            place += header.length;
        }
        Outcome::Done
    }

    /// A whole record, or a datagram; how many bytes there are from its place on.
    fn record(
        &mut self,
        direction: Direction,
        record: &[u8],
        (place, available): (usize, usize),
        wishes: &mut Wishes,
    ) -> Result<(), Defect> {
        match direction {
            Direction::ToServer => {
                let call = Call::read(record, self.is_stream, true)?;
                let at = place + if self.is_stream { 28 } else { 24 };
                wishes.open_frame("rpc.creds", at, Some(call.credentials as u64 + 8), None);
                self.call(&call, place, wishes);
            }
            Direction::ToClient => {
                let reply = Reply::read(record, self.is_stream, true)?;
                let head = if self.is_stream { 12 } else { 8 };
                if available > head {
                    let data = (available - head) as u64;
                    wishes.open_frame("rpc.hdr", place, Some(head as u64), None);
                    wishes.open_frame("rpc.data", place + head, Some(data), None);
                }
                self.reply(&reply, place, wishes);
            }
        }
        Ok(())
    }

    /// Takes a datagram.
    pub(super) fn datagram(&mut self, direction: Direction, input: &[u8], wishes: &mut Wishes) {
        wishes.open_frame("rpc.pdu", 0, Some(input.len() as u64), None);
        // One that is none does not spoil those after it.
        let _ = self.record(direction, input, (0, input.len()), wishes);
    }

    /// The beginning of a large record; whether it was taken, `None` if it cannot be read.
    fn partial(
        &mut self,
        direction: Direction,
        rest: &[u8],
        (header, number): (Header, u32),
        wishes: &mut Wishes,
    ) -> Option<bool> {
        if header.length < PARTIAL_BYTES_MIN {
            return Some(false);
        }
        let is_short = |defect: Defect| (defect == Defect::Incomplete).then_some(false);
        match direction {
            Direction::ToServer if rest.len() >= CALL_BYTES_MIN && number == procedure::WRITE => {
                let call = match Call::read(rest, true, false) {
                    Ok(call) => call,
                    Err(defect) => return is_short(defect),
                };
                let Some(piece) = wire::write(call.data, false) else { return Some(false) };
                self.write(&call, &piece, wishes);
            }
            Direction::ToClient if rest.len() >= REPLY_BYTES_MIN => {
                let Some(pending) = self.calls.get(&header.id).cloned() else {
                    return Some(false);
                };
                if pending.procedure != procedure::READ || pending.version != 3 {
                    return Some(false);
                }
                let reply = match Reply::read(rest, true, false) {
                    Ok(reply) => reply,
                    Err(defect) => return is_short(defect),
                };
                let piece = wire::read_results(reply.data, 3, pending.offset, false);
                let Some(piece) = piece else { return Some(false) };
                self.calls.pop(&header.id);
                self.read_piece(header.id, &pending, &piece, wishes);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn call(&mut self, call: &Call<'_>, place: usize, wishes: &mut Wishes) {
        let (at, length) = (place + call.at, call.data.len() as u64);
        match call.version {
            2 | 3 => wishes.open_frame("nfs.pdu", at, Some(length), None),
            4 if self.is_stream => {
                wishes.open_frame("nfs4.pdu", at, Some(length), None);
                mark_operations(at, length, wishes);
            }
            _ => return,
        }
        let mut pending =
            Pending { version: call.version, procedure: call.procedure, ..Pending::default() };
        if call.version < 4 {
            self.take_call(call, &mut pending, wishes);
        }
        self.calls.put(call.header.id, pending);
    }

    /// A call of NFS 2 or NFS 3.
    fn take_call(&mut self, call: &Call<'_>, pending: &mut Pending, wishes: &mut Wishes) {
        let data = call.data;
        let is_old = call.version == 2;
        let mut new_name = Vec::new();
        let handle_of = |data| wire::handle(&mut crate::reader::Reader::new(data));
        let read = match call.procedure {
            procedure::READ => wire::read_request(data, call.version).map(|(handle, offset)| {
                pending.offset = offset;
                pending.handle = handle.to_vec();
            }),
            _ if is_old => Some(()),
            procedure::LOOKUP => wire::named(data).map(|(_, name)| pending.name = name.to_vec()),
            procedure::ACCESS | procedure::GETATTR | procedure::READDIRPLUS => {
                handle_of(data).map(|handle| pending.handle = handle.to_vec())
            }
            procedure::WRITE => wire::write(data, true).map(|piece| {
                self.write(call, &piece, wishes);
            }),
            procedure::CREATE | procedure::REMOVE | procedure::MKDIR | procedure::RMDIR => {
                wire::named(data).map(|(handle, name)| {
                    pending.handle = handle.to_vec();
                    pending.name = name.to_vec();
                })
            }
            procedure::RENAME => wire::named(data).map(|(handle, name)| {
                pending.handle = handle.to_vec();
                pending.name = name.to_vec();
                let taken = 8 + handle.len() + name.len().next_multiple_of(4);
                let rest = data.get(taken..).unwrap_or_default();
                new_name = wire::named(rest).map(|(_, name)| name.to_vec()).unwrap_or_default();
            }),
            procedure::COMMIT => handle_of(data).map(|handle| self.commit(handle)),
            _ => Some(()),
        };
        if read.is_none() {
            self.event(MALFORMED_DATA);
        }
        if pending.name.is_empty()
            && let Some(name) = self.names.get(&pending.handle)
        {
            pending.name = name.clone();
        }
        match call.procedure {
            procedure::COMMIT | procedure::WRITE => {}
            procedure::READ if is_old => {}
            procedure::READ => {
                if self.transfer(&pending.handle, Direction::ToClient).is_none() {
                    self.begin_transfer(call.header.id, pending, Direction::ToClient);
                }
            }
            _ => {
                let exchange = Exchange { new_name, ..exchange(call.header.id, pending) };
                if let Some(new) = self.begin(exchange) {
                    new.state.progress = [1, 0];
                }
            }
        }
    }

    fn reply(&mut self, reply: &Reply<'_>, place: usize, wishes: &mut Wishes) {
        let id = reply.header.id;
        let Some(pending) = self.calls.pop(&id) else { return };
        let (at, length) = (place + reply.at, reply.data.len() as u64);
        let (pdu, status) = match pending.version {
            4 => ("nfs4.pdu", "nfs4.status"),
            _ => ("nfs.pdu", "nfs.status"),
        };
        if length > 0 {
            wishes.open_frame(pdu, at, Some(length), None);
            wishes.open_frame(status, at, Some(4), None);
        }
        if pending.version == 4 {
            mark_operations(at, length, wishes);
            return;
        }
        let is_fine = self.take_reply(reply, &pending, wishes);
        if !is_fine {
            self.event(MALFORMED_DATA);
        }
        if pending.version == 3 && pending.procedure == procedure::READ {
            return;
        }
        let plain = self.exchanges.iter_mut();
        let mut plain = plain.filter(|known| known.data.transfer.is_none() && known.data.id == id);
        if let Some(known) = plain.next() {
            known.state.updated = [true; 2];
            known.state.advance(Direction::ToClient, 1);
            wishes.inspect(Direction::ToClient);
        }
    }

    /// What a reply says; whether it can be read.
    fn take_reply(&mut self, reply: &Reply<'_>, pending: &Pending, wishes: &mut Wishes) -> bool {
        let data = reply.data;
        match (pending.version, pending.procedure) {
            (version, procedure::READ) => {
                let Some(piece) = wire::read_results(data, version, pending.offset, true) else {
                    return false;
                };
                self.read_piece(reply.header.id, pending, &piece, wishes);
            }
            (3, procedure::LOOKUP | procedure::CREATE) => {
                let is_optional = pending.procedure == procedure::CREATE;
                let Some(handle) = wire::new_handle(data, is_optional) else { return false };
                if let Some(handle) = handle {
                    self.names.put(handle.to_vec(), pending.name.clone());
                }
            }
            (3, procedure::READDIRPLUS) => {
                let Some(entries) = wire::entries(data, ENTRIES_MAX) else { return false };
                for (handle, name) in entries {
                    self.names.put(handle.to_vec(), name.to_vec());
                }
            }
            _ => {}
        }
        true
    }

    pub(super) fn begin(&mut self, exchange: Exchange) -> Option<&mut Transaction<Exchange>> {
        if self.exchanges.len() > TRANSACTIONS_MAX
            && let Some(old) = self.exchanges.iter_mut().find(|old| old.state.progress != [1, 1])
        {
            complete(&mut old.state);
            if let Some(file) = &mut old.data.transfer {
                file.is_over = true;
            }
            old.state.event(TOO_MANY_TRANSACTIONS);
        }
        let new = self.exchanges.push(exchange)?;
        new.state.updated = [true; 2];
        Some(new)
    }

    /// After a gap no answer is waited for, but for files.
    fn settle(&mut self, direction: Direction) {
        if self.had_gap.get(direction.index()) != Some(&true) {
            return;
        }
        let newest = self.exchanges.total().saturating_sub(1);
        for known in self.exchanges.iter_mut().take_while(|known| known.state.id < newest) {
            if known.data.transfer.is_none() {
                known.state.advance(Direction::ToServer, 1);
                if direction == Direction::ToClient {
                    known.state.advance(Direction::ToClient, 1);
                }
            }
        }
    }
}

pub(super) fn exchange(id: u32, pending: &Pending) -> Exchange {
    Exchange {
        id,
        version: pending.version,
        procedure: pending.procedure,
        name: pending.name.clone(),
        ..Exchange::default()
    }
}

fn complete(state: &mut State) {
    state.progress = [1; 2];
    state.updated = [true; 2];
}

fn mark_operations(at: usize, length: u64, wishes: &mut Wishes) {
    if length > 8 {
        wishes.open_frame("nfs4.hdr", at, Some(8), None);
        wishes.open_frame("nfs4.ops", at + 8, Some(length - 8), None);
    }
}
