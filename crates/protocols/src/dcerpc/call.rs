//! Calls: a request and its response, by their number.

use gauntlet_packet::Direction;

use super::wire::{self, DatagramHeader, HEADER_BYTES, Header, Interface, Order, kind};
use crate::parser::{Outcome, Wishes};
use crate::reader::Reader;
use crate::transaction::Transactions;

/// Bytes of one direction's data that are kept of a call (`max-stub-size`).
pub(crate) const STUB_BYTES_MAX: usize = 1 << 20;
/// Interfaces of a connection.
const INTERFACES_MAX: usize = 64;
/// Calls that wait (`max-tx`); the oldest open one is closed where there are more.
const CALLS_MAX: usize = 1024;

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) context: u16,
    pub(super) operation: u16,
    pub(super) has_request: bool,
    pub(super) minor: u8,
    pub(super) order: Order,
    pub(super) stubs: [Vec<u8>; 2],
    pub(super) fragments: [u16; 2],
    pub(super) done: [bool; 2],
    pub(super) request_kind: u8,
    pub(super) response_kind: u8,
    activity: [u8; 16],
    sequence: u32,
}

impl Call {
    fn new(number: u32, minor: u8, order: Order) -> Self {
        Self {
            number,
            context: 0,
            operation: 0,
            has_request: false,
            minor,
            order,
            stubs: [Vec::new(), Vec::new()],
            fragments: [0; 2],
            done: [false; 2],
            request_kind: kind::REQUEST,
            response_kind: kind::RESPONSE,
            activity: [0; 16],
            sequence: 0,
        }
    }
}

/// Adds data to what is kept of a call.
pub(crate) fn append_stub(stub: &mut Vec<u8>, bytes: &[u8]) {
    let room = STUB_BYTES_MAX.saturating_sub(stub.len());
    stub.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
}

/// Interfaces of a connection, by their contexts.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    list: Vec<Interface>,
}

impl Interfaces {
    /// Those of a bind; one of the same context replaces the old one.
    pub(crate) fn bind(&mut self, interfaces: &[Interface]) {
        for interface in interfaces {
            let old = self.list.iter().position(|old| old.context == interface.context);
            if let Some(old) = old {
                if let Some(old) = self.list.get_mut(old) {
                    *old = *interface;
                }
            } else if self.list.len() < INTERFACES_MAX {
                self.list.push(*interface);
            }
        }
    }

    /// What the server says to them.
    pub(crate) fn acknowledge(&mut self, results: &[u16], call: u32) {
        for (place, result) in (0_u16..).zip(results) {
            for interface in &mut self.list {
                if interface.place == place && interface.call == call {
                    interface.result = Some(*result);
                }
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.list.iter()
    }
}

/// A connection, or the datagrams of a flow.
#[derive(Default)]
pub(super) struct Connection {
    pub(super) calls: Transactions<Call>,
    pub(super) interfaces: Interfaces,
    header: Option<Header>,
    /// Data of a record's middle may come first, by direction.
    searching: [bool; 2],
}

/// The protocol is broken.
struct Broken;

/// Marks a unit of which `available` bytes are at hand from this place on. As in Suricata, a header
/// that was read before is not counted.
fn mark(at: usize, header: usize, length: usize, available: usize, wishes: &mut Wishes) {
    wishes.open_frame("hdr", at, Some(header as u64), None);
    wishes.open_frame("pdu", at, Some(length as u64), None);
    if available > HEADER_BYTES {
        let data = (length - HEADER_BYTES) as u64;
        wishes.open_frame("data", at + HEADER_BYTES, Some(data), None);
    }
}

impl Connection {
    pub(super) fn new(midstream: bool) -> Self {
        Self { searching: [midstream; 2], ..Self::default() }
    }

    /// Takes bytes of a stream.
    pub(super) fn stream(
        &mut self,
        direction: Direction,
        input: &[u8],
        wishes: &mut Wishes,
    ) -> Outcome {
        let mut consumed = 0;
        if let Some(searching) = self.searching.get_mut(direction.index())
            && std::mem::take(searching)
        {
            match memchr::memmem::find(input, &[5, 0]) {
                Some(begin) => consumed = begin,
                None => {
                    *searching = true;
                    let consumed = if input.len() < 2 { 0 } else { input.len() - 1 };
                    return Outcome::Incomplete { consumed, needed: 2 };
                }
            }
        }
        while let Some(rest) = input.get(consumed..).filter(|rest| !rest.is_empty()) {
            let (header, header_taken) = match self.header.take() {
                Some(header) => (header, 0),
                None => match Header::read(&mut Reader::new(rest)) {
                    None => return Outcome::Incomplete { consumed, needed: HEADER_BYTES },
                    Some(header) if header.version == 5 && header.minor <= 1 => {
                        (header, HEADER_BYTES)
                    }
                    Some(_) => return Outcome::Failed,
                },
            };
            let length = usize::from(header.length);
            if length < HEADER_BYTES {
                return Outcome::Failed;
            }
            let wanted = length - HEADER_BYTES + header_taken;
            if rest.len() < wanted {
                self.header = Some(header);
                return Outcome::Incomplete {
                    consumed: consumed + header_taken,
                    needed: length - header_taken,
                };
            }
            mark(consumed, header_taken, length, rest.len(), wishes);
            let body = rest.get(header_taken..).unwrap_or_default();
            if self.unit(&header, direction, body, wishes).is_err() {
                return Outcome::Failed;
            }
            consumed += wanted;
        }
        Outcome::Done
    }

    /// A unit; `body` goes on behind it with what else there is.
    fn unit(
        &mut self,
        header: &Header,
        direction: Direction,
        body: &[u8],
        wishes: &mut Wishes,
    ) -> Result<(), Broken> {
        match header.kind {
            kind::BIND | kind::ALTER_CONTEXT => {
                let interfaces = wire::read_bind(body, header).ok_or(Broken)?;
                self.interfaces.bind(&interfaces);
                let id = self.begin(header)?;
                self.update(id, |call| call.request_kind = header.kind);
                self.finish(id, Direction::ToServer, wishes);
            }
            kind::BIND_ACK | kind::ALTER_CONTEXT_RESPONSE => {
                let results = wire::read_bind_ack(body).ok_or(Broken)?;
                self.interfaces.acknowledge(&results, header.call);
                let id = match self.find(header, Direction::ToClient) {
                    Some(id) => id,
                    None => self.begin(header)?,
                };
                self.update(id, |call| call.response_kind = header.kind);
                self.finish(id, Direction::ToClient, wishes);
            }
            kind::REQUEST => {
                let (context, operation) =
                    wire::read_request(body, header.order()).ok_or(Broken)?;
                let id = match self.find(header, Direction::ToServer) {
                    Some(id) => id,
                    None => self.begin(header)?,
                };
                self.update(id, |call| {
                    call.request_kind = kind::REQUEST;
                    call.context = context;
                    call.operation = operation;
                    call.has_request = true;
                });
                self.stub(header, Direction::ToServer, body, 8, wishes)?;
            }
            kind::RESPONSE => {
                let id = match self.find(header, Direction::ToClient) {
                    Some(id) => id,
                    None => self.begin(header)?,
                };
                self.update(id, |call| call.response_kind = kind::RESPONSE);
                self.stub(header, Direction::ToClient, body, 0, wishes)?;
            }
            _ => {}
        }
        // Whoever looks at one side of a call looks at both.
        let _ = direction;
        Ok(())
    }

    /// The data of a request or response, `skipped` bytes behind the header.
    ///
    /// Suricata counts what follows the unit in the same input as a defect of it if there is more
    /// of it than of the unit's data, and so does this.
    fn stub(
        &mut self,
        header: &Header,
        direction: Direction,
        body: &[u8],
        skipped: usize,
        wishes: &mut Wishes,
    ) -> Result<(), Broken> {
        let length = usize::from(header.length);
        let wanted = length.checked_sub(HEADER_BYTES + skipped).ok_or(Broken)?;
        let rest = body.get(skipped..).unwrap_or_default();
        let data = rest.get(..wanted).unwrap_or(rest);
        let taken = match self.find(header, direction) {
            Some(id) if !data.is_empty() => {
                self.update(id, |call| {
                    if let Some(stub) = call.stubs.get_mut(direction.index()) {
                        append_stub(stub, data);
                    }
                });
                self.finish(id, direction, wishes);
                data.len()
            }
            Some(id) if !rest.is_empty() => {
                self.finish(id, direction, wishes);
                0
            }
            _ => 0,
        };
        let parsed = skipped + taken;
        let left = rest.len() - taken;
        if parsed < length && left > parsed { Err(Broken) } else { Ok(()) }
    }

    fn begin(&mut self, header: &Header) -> Result<u64, Broken> {
        self.make_room();
        let call = Call::new(header.call, header.minor, header.order());
        self.calls.push(call).map(|call| call.state.id).ok_or(Broken)
    }

    fn make_room(&mut self) {
        if self.calls.len() <= CALLS_MAX {
            return;
        }
        if let Some(open) = self.calls.iter_mut().find(|call| call.data.done != [true; 2]) {
            open.data.done = [true; 2];
            open.state.advance(Direction::ToServer, 1);
            open.state.advance(Direction::ToClient, 1);
        }
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.calls.of_id_mut(id) {
            change(&mut call.data);
            call.state.updated = [true, true];
        }
    }

    fn finish(&mut self, id: u64, direction: Direction, wishes: &mut Wishes) {
        wishes.inspect(direction);
        if let Some(call) = self.calls.of_id_mut(id) {
            if let Some(done) = call.data.done.get_mut(direction.index()) {
                *done = true;
            }
            if let Some(count) = call.data.fragments.get_mut(direction.index()) {
                *count = 1;
            }
            call.state.advance(direction, 1);
        }
    }

    /// The call that a unit belongs to, if it waits for one like it.
    fn find(&self, header: &Header, direction: Direction) -> Option<u64> {
        let fits = |call: &Call| {
            let done = call.done.get(direction.index()).copied().unwrap_or(true);
            let pair = match direction {
                Direction::ToServer => answer_to(header.kind) == call.response_kind,
                Direction::ToClient => question_of(header.kind) == call.request_kind,
            };
            call.number == header.call && !done && pair
        };
        self.calls.iter().find(|call| fits(&call.data)).map(|call| call.state.id)
    }

    /// Takes a datagram; what is none is left alone.
    pub(super) fn datagram(&mut self, input: &[u8]) -> Option<()> {
        let mut reader = Reader::new(input);
        let header = DatagramHeader::read(&mut reader)?;
        let data = reader.take(usize::from(header.length))?;
        let direction = match header.kind {
            kind::REQUEST => Direction::ToServer,
            kind::RESPONSE => Direction::ToClient,
            _ => return None,
        };
        if header.version != 4 {
            return None;
        }
        let open = self.calls.iter().find(|call| {
            call.data.sequence == header.sequence
                && call.data.activity == header.activity
                && call.data.done.get(direction.index()) == Some(&false)
        });
        let id = match open.map(|call| call.state.id) {
            Some(id) => id,
            None => {
                self.make_room();
                let [first, ..] = header.representation;
                let order = if first & 0x10 == 0 { Order::Big } else { Order::Little };
                let mut call = Call::new(0, 0, order);
                call.activity = header.activity;
                call.sequence = header.sequence;
                self.calls.push(call)?.state.id
            }
        };
        let call = self.calls.of_id_mut(id)?;
        call.state.updated = [true, true];
        if let Some(count) = call.data.fragments.get_mut(direction.index()) {
            *count = count.saturating_add(1);
        }
        if let Some(stub) = call.data.stubs.get_mut(direction.index()) {
            append_stub(stub, data);
        }
        if header.is_last() {
            if let Some(done) = call.data.done.get_mut(direction.index()) {
                *done = true;
            }
            call.state.advance(direction, 1);
        }
        Some(())
    }
}

fn answer_to(request: u8) -> u8 {
    match request {
        kind::REQUEST => kind::RESPONSE,
        kind::BIND => kind::BIND_ACK,
        kind::ALTER_CONTEXT => kind::ALTER_CONTEXT_RESPONSE,
        _ => kind::UNKNOWN,
    }
}

fn question_of(response: u8) -> u8 {
    match response {
        kind::RESPONSE => kind::REQUEST,
        kind::BIND_ACK => kind::BIND,
        kind::ALTER_CONTEXT_RESPONSE => kind::ALTER_CONTEXT,
        _ => kind::UNKNOWN,
    }
}
