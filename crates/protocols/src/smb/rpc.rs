//! DCE/RPC in pipes.

use super::session::{About, Key, MALFORMED_DATA, Rpc, Session};
use super::wire::status;
use crate::dcerpc::append_stub;
use crate::dcerpc::wire::{FIRST_FRAGMENT, Order};
use crate::dcerpc::wire::{Header, Interface, LAST_FRAGMENT, kind, read_bind, read_bind_ack};
use crate::reader::Reader;
use crate::transaction::Transaction;

/// The record that carries a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier {
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) status: u32,
    pub(super) key: Key,
}

impl Carrier {
    /// Reads and writes of a call have numbers of their own; transactions have one.
    fn matches(&self, other: &Key) -> bool {
        let by_message = self.version == 2 && self.command == super::wire::command::IOCTL;
        self.key.session == other.session && (!by_message || self.key.message == other.message)
    }
}

/// Interfaces that are kept of one bind.
const INTERFACES_MAX: usize = 256;

fn read_header(data: &[u8]) -> Option<(Header, &[u8])> {
    let mut reader = Reader::new(data);
    let header = Header::read(&mut reader)?;
    Some((header, reader.rest()))
}

/// Whether data looks like a unit.
pub(super) fn is_likely(data: &[u8]) -> bool {
    read_header(data).is_some_and(|(header, _)| {
        header.version == 5 && header.minor < 3 && header.length > 0 && header.kind <= 20
    })
}

/// What a request says: operation and data; `None` if it is cut.
fn read_request<'a>(header: &Header, body: &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::from(header.length).checked_sub(24)?;
    let mut reader = Reader::new(body);
    reader.skip(6)?;
    let operation = header.order().u16(&mut reader)?;
    Some((operation, reader.take(length)?))
}

fn read_response<'a>(header: &Header, body: &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(header.length).checked_sub(24)?;
    let mut reader = Reader::new(body);
    reader.skip(8)?;
    reader.take(length)
}

fn add(exchange: &mut Transaction<super::session::Exchange>, side: usize, data: &[u8]) {
    if let About::Rpc(rpc) = &mut exchange.data.about {
        if let Some(count) = rpc.fragments.get_mut(side) {
            *count = count.saturating_add(1);
        }
        if let Some(stub) = rpc.stubs.get_mut(side) {
            append_stub(stub, data);
        }
    }
}

impl Session {
    fn rpc(
        &mut self,
        carrier: &Carrier,
        call: u32,
    ) -> Option<&mut Transaction<super::session::Exchange>> {
        self.find(|exchange| {
            let fits = exchange.key.is_some_and(|key| carrier.matches(&key));
            matches!(&exchange.about, About::Rpc(rpc) if fits && rpc.call == call)
        })
    }

    /// A unit from the client.
    pub(super) fn rpc_request(&mut self, carrier: &Carrier, data: &[u8]) {
        let Some((header, body)) = read_header(data) else {
            self.event(MALFORMED_DATA);
            return;
        };
        let is_last = header.flags & LAST_FRAGMENT != 0;
        if header.kind == kind::REQUEST && header.flags & FIRST_FRAGMENT == 0 {
            let Some((_, stub)) = read_request(&header, body) else {
                self.event(MALFORMED_DATA);
                return;
            };
            if let Some(exchange) = self.rpc(carrier, header.call) {
                add(exchange, 0, stub);
                if is_last {
                    exchange.state.progress[0] = 1;
                }
            }
            return;
        }
        let rpc = Rpc { call: header.call, request: Some(header.kind), ..Rpc::default() };
        let about = About::Rpc(Box::new(rpc));
        let (version, command) = (carrier.version, carrier.command);
        let Some(exchange) = self.begin(version, command, Some(carrier.key), about) else {
            return;
        };
        exchange.state.progress = [0, 0];
        let mut interfaces = None;
        match header.kind {
            kind::REQUEST => match read_request(&header, body) {
                Some((operation, stub)) => {
                    if let About::Rpc(rpc) = &mut exchange.data.about {
                        rpc.operation = operation;
                    }
                    add(exchange, 0, stub);
                    exchange.state.progress[0] = u8::from(is_last);
                }
                None => {
                    exchange.state.event(MALFORMED_DATA);
                    exchange.state.progress[0] = 1;
                }
            },
            kind::BIND => {
                interfaces = read_interfaces(&header, body);
                if interfaces.is_none() {
                    exchange.state.event(MALFORMED_DATA);
                }
                exchange.state.progress[0] = 1;
            }
            other => {
                if other > 20 {
                    exchange.state.event(MALFORMED_DATA);
                }
                exchange.state.progress[0] = 1;
            }
        }
        if let Some(interfaces) = interfaces {
            self.interfaces = interfaces;
        }
    }

    /// A unit from the server, or a part of one.
    pub(super) fn rpc_response(&mut self, carrier: &Carrier, file: &[u8], data: &[u8]) {
        if carrier.status != status::SUCCESS && carrier.status != status::BUFFER_OVERFLOW {
            let key = carrier.key;
            if let Some(exchange) = self.of_key(carrier.version, carrier.command, &key) {
                exchange.data.status = Some(carrier.status);
                exchange.state.progress[1] = 1;
            }
            return;
        }
        let place = (carrier.key.session, carrier.key.tree, file.to_vec());
        let mut whole = self.fragments.pop(&place).unwrap_or_default();
        whole.extend_from_slice(data);
        if whole.is_empty() {
            return;
        }
        let Some((header, body)) = read_header(&whole) else {
            self.event(MALFORMED_DATA);
            return;
        };
        let is_partial = whole.len() < usize::from(header.length);
        if carrier.status == status::BUFFER_OVERFLOW && is_partial {
            self.fragments.put(place, whole);
            return;
        }
        if header.kind == kind::BIND_ACK {
            self.bind_ack(carrier, &header, body);
            return;
        }
        if self.rpc(carrier, header.call).is_none() {
            let about = About::Rpc(Box::new(Rpc { call: header.call, ..Rpc::default() }));
            let (version, command) = (carrier.version, carrier.command);
            let Some(exchange) = self.begin(version, command, Some(carrier.key), about) else {
                return;
            };
            exchange.state.progress = [0, 0];
        }
        let Some(exchange) = self.rpc(carrier, header.call) else { return };
        if header.kind == kind::RESPONSE {
            let Some(stub) = read_response(&header, body) else {
                exchange.state.event(MALFORMED_DATA);
                return;
            };
            add(exchange, 1, stub);
            exchange.state.progress[1] = u8::from(header.flags & LAST_FRAGMENT != 0);
        } else {
            exchange.state.progress[1] = 1;
            if header.kind > 20 {
                exchange.state.event(MALFORMED_DATA);
            }
        }
        exchange.data.status = Some(carrier.status);
        if let About::Rpc(rpc) = &mut exchange.data.about {
            rpc.response = Some(header.kind);
        }
    }

    fn bind_ack(&mut self, carrier: &Carrier, header: &Header, body: &[u8]) {
        let Some(results) = read_bind_ack(body) else {
            self.event(MALFORMED_DATA);
            return;
        };
        let Some(exchange) = self.rpc(carrier, header.call) else { return };
        exchange.data.status = Some(carrier.status);
        exchange.state.progress[1] = 1;
        if let About::Rpc(rpc) = &mut exchange.data.about {
            rpc.response = Some(kind::BIND_ACK);
        }
        for (interface, result) in self.interfaces.iter_mut().zip(results) {
            interface.result = Some(result);
        }
    }
}

/// Interfaces of a bind. Of big-endian ones the minor version comes first here.
fn read_interfaces(header: &Header, body: &[u8]) -> Option<Vec<Interface>> {
    let mut interfaces = read_bind(body, header)?;
    if header.order() == Order::Big {
        for interface in &mut interfaces {
            std::mem::swap(&mut interface.version, &mut interface.minor);
        }
    }
    interfaces.truncate(INTERFACES_MAX);
    Some(interfaces)
}
