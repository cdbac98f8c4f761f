//! Requests and responses of SMB 1 (MS-CIFS section 2.2.4).

use gauntlet_packet::Direction;

use super::ntlm;
use super::rpc::Carrier;
use super::session::{
    About, Key, KeyKind, MALFORMED_DATA, NEGOTIATE_MALFORMED_DIALECTS, READ_RESPONSE_TOO_LARGE,
    Session, Tree, UNUSUAL_NTLMSSP_ORDER, WRITE_REQUEST_TOO_LARGE, close,
};
use super::transfer::{Piece, Place};
use super::v1_wire::{self as wire, HEADER_BYTES, Record1, command};
use super::wire::status;

/// An event of a second negotiation.
const DUPLICATE_NEGOTIATE: u8 = 5;

/// Commands in one record.
const CHAIN_MAX: usize = 64;

fn key(record: &Record1<'_>, kind: KeyKind) -> Key {
    Key {
        kind,
        session: u64::from(record.user),
        tree: if kind == KeyKind::Tree { 0 } else { u32::from(record.tree) },
        message: if kind == KeyKind::Share { 0 } else { u64::from(record.multiplex) },
    }
}

/// Handles are told apart by their sessions.
fn handle(record: &Record1<'_>, file: [u8; 2]) -> Vec<u8> {
    let session = u32::from(record.user).to_be_bytes();
    file.iter().chain(&session).copied().collect()
}

fn has_own_transaction(number: u8) -> bool {
    use command::{READ_ANDX, TRANS, TRANS2, WRITE_ANDX};
    !matches!(number, READ_ANDX | WRITE_ANDX | TRANS | TRANS2)
}

fn expects_answer(number: u8) -> bool {
    use command::{LOCKING_ANDX, NT_CANCEL, TRANS2_SECONDARY};
    !matches!(number, NT_CANCEL | TRANS2_SECONDARY | LOCKING_ANDX)
}

/// What became of a command.
enum Did {
    /// It has its transaction, or needs none.
    Enough,
    /// A plain transaction is to be made, or found.
    Plain,
    /// The same, and its data cannot be read.
    Malformed,
}

impl Session {
    /// A request: its command and those chained to it.
    pub(super) fn request1(&mut self, record: &Record1<'_>) {
        each_command(record, |number, offset| self.request1_command(record, number, offset));
    }

    /// A response.
    pub(super) fn response1(&mut self, record: &Record1<'_>) {
        each_command(record, |number, offset| self.response1_command(record, number, offset));
    }

    fn request1_command(&mut self, record: &Record1<'_>, number: u8, offset: usize) {
        let body = record.at(offset);
        let did = match number {
            command::RENAME => self.rename1(record),
            command::TRANS2 => self.trans2(record),
            command::READ_ANDX => self.read1_request(record, body),
            command::WRITE_ANDX | command::WRITE | command::WRITE_AND_CLOSE => {
                self.write1(record, offset, number, 0);
                Did::Enough
            }
            command::TRANS => {
                self.trans1(record);
                Did::Enough
            }
            command::NEGOTIATE => self.negotiate1(record),
            command::NT_CREATE_ANDX => self.create1_request(record, body),
            command::SESSION_SETUP_ANDX => {
                self.session_setup1(record, body);
                Did::Enough
            }
            command::TREE_CONNECT_ANDX => self.tree_connect1_request(record, body),
            command::TREE_DISCONNECT => {
                self.trees.pop(&key(record, KeyKind::Share));
                Did::Plain
            }
            command::CLOSE => self.close1_request(record),
            _ => Did::Plain,
        };
        if matches!(did, Did::Enough) || !has_own_transaction(number) {
            return;
        }
        let key = key(record, KeyKind::Generic);
        let added = self.begin(1, u16::from(number), Some(key), About::Generic);
        let Some(exchange) = added else { return };
        if matches!(did, Did::Malformed) {
            exchange.state.event(MALFORMED_DATA);
        }
        if !expects_answer(number) {
            exchange.state.progress[1] = 1;
        }
    }

    fn read1_request(&mut self, record: &Record1<'_>, body: &[u8]) -> Did {
        let Some((file, offset)) = wire::read_andx_request(body) else { return Did::Malformed };
        let file = handle(record, file);
        self.reads.put(key(record, KeyKind::Offset), (file, offset));
        Did::Plain
    }

    fn create1_request(&mut self, record: &Record1<'_>, body: &[u8]) -> Did {
        let Some(name) = wire::create_request(body, record) else { return Did::Malformed };
        self.by_request.put(key(record, KeyKind::FileName), name.clone());
        let about = About::Create { name };
        let key = key(record, KeyKind::Generic);
        self.begin(1, u16::from(command::NT_CREATE_ANDX), Some(key), about);
        Did::Enough
    }

    fn tree_connect1_request(&mut self, record: &Record1<'_>, body: &[u8]) -> Did {
        let Some(mut share) = wire::tree_connect_request(body, record) else {
            return Did::Malformed;
        };
        if share.len() > 1 {
            share.remove(0);
        }
        let about = About::TreeConnect { share, is_pipe: false };
        let key = key(record, KeyKind::Tree);
        self.begin(1, u16::from(command::TREE_CONNECT_ANDX), Some(key), about);
        Did::Enough
    }

    fn close1_request(&mut self, record: &Record1<'_>) -> Did {
        let Some(&[low, high]) = record.data.get(1..3) else { return Did::Malformed };
        let file = handle(record, [low, high]);
        self.names.pop(&file);
        self.by_request.put(key(record, KeyKind::File), file.clone());
        self.close1(&file, Direction::ToServer);
        Did::Plain
    }

    fn close1(&mut self, file: &[u8], direction: Direction) {
        if let Some(exchange) = self.transfer(file, direction, false)
            && exchange.state.progress[0] == 0
        {
            close(exchange, direction);
            exchange.state.progress = [1, 1];
        }
    }

    fn begin_generic(&mut self, record: &Record1<'_>, about: About) {
        let number = u16::from(record.command);
        self.begin(1, number, Some(key(record, KeyKind::Generic)), about);
    }

    fn rename1(&mut self, record: &Record1<'_>) -> Did {
        match wire::rename_request(record.data) {
            Some((from, to)) => {
                self.begin_generic(record, About::Rename { from, to });
                Did::Enough
            }
            None => Did::Malformed,
        }
    }

    fn trans2(&mut self, record: &Record1<'_>) -> Did {
        let Some(request) = wire::trans2_request(record.data) else { return Did::Malformed };
        let about = match request {
            wire::Trans2::PathDisposition { name } => About::SetInfo { name },
            wire::Trans2::PathRename { from, to } => About::Rename { from, to },
            wire::Trans2::FileDisposition { file } => {
                About::SetInfo { name: self.name_of(record, file) }
            }
            wire::Trans2::FileRename { file, to } => {
                About::Rename { from: self.name_of(record, file), to }
            }
            wire::Trans2::Other => return Did::Plain,
        };
        self.begin_generic(record, about);
        Did::Enough
    }

    fn name_of(&self, record: &Record1<'_>, file: [u8; 2]) -> Vec<u8> {
        let name = self.names.get(&handle(record, file)).cloned();
        name.unwrap_or_else(|| b"<unknown>".to_vec())
    }

    fn negotiate1(&mut self, record: &Record1<'_>) -> Did {
        let Some(names) = wire::negotiate_request(record.data) else { return Did::Malformed };
        let known =
            self.find(|exchange| matches!(exchange.about, About::Negotiate { version: 1, .. }));
        if let Some(exchange) = known {
            exchange.state.event(DUPLICATE_NEGOTIATE);
            return Did::Enough;
        }
        let is_odd = names.iter().any(|name| name.len() < 2);
        let names = names.iter().filter(|name| !name.is_empty());
        let dialects = names.map(|name| name.get(1..).unwrap_or_default().to_vec()).collect();
        let about = About::Negotiate { version: 1, dialects };
        if let Some(exchange) = self.begin(1, u16::from(record.command), None, about)
            && is_odd
        {
            exchange.state.event(NEGOTIATE_MALFORMED_DIALECTS);
        }
        Did::Enough
    }

    fn session_setup1(&mut self, record: &Record1<'_>, body: &[u8]) {
        let Some(blob) = wire::session_setup_request(body) else { return };
        let found = ntlm::find(blob);
        let is_unusual = found.as_ref().is_some_and(|found| found.is_unusual);
        let key = Key { tree: 0, ..key(record, KeyKind::Header) };
        let about = About::SessionSetup(found);
        if let Some(exchange) = self.begin(1, u16::from(record.command), Some(key), about)
            && is_unusual
        {
            exchange.state.event(UNUSUAL_NTLMSSP_ORDER);
        }
    }

    /// A write of which `remaining` bytes are not there yet.
    pub(super) fn write1(
        &mut self,
        record: &Record1<'_>,
        offset: usize,
        number: u8,
        remaining: usize,
    ) {
        let read = match number {
            command::WRITE_ANDX => wire::write_andx_request(record.at(offset), offset),
            command::WRITE => wire::write_request(record.data),
            _ => wire::write_and_close_request(record.data),
        };
        let Some(write) = read else {
            self.plain_request(record, true);
            return;
        };
        if u64::from(write.length) > write.data.len() as u64 + remaining as u64 {
            self.event(WRITE_REQUEST_TOO_LARGE);
            self.skip(Direction::ToServer, remaining);
            return;
        }
        let file = handle(record, write.file);
        let name = self.name_of(record, write.file);
        let place = Place {
            direction: Direction::ToServer,
            version: 1,
            command: u16::from(command::WRITE_ANDX),
            status: 0,
            header: key(record, KeyKind::Header),
            share: key(record, KeyKind::Share),
            remaining,
        };
        let (offset, length, data) = (write.offset, write.length, write.data);
        self.transfer_piece(&place, &Piece { file: &file, offset, length, data }, &name);
        if number == command::WRITE_AND_CLOSE {
            self.names.pop(&file);
            self.close1(&file, Direction::ToServer);
        }
        self.plain_request(record, false);
    }

    /// The transaction of a request that has no other.
    fn plain_request(&mut self, record: &Record1<'_>, is_malformed: bool) {
        if !has_own_transaction(record.command) && !is_malformed {
            return;
        }
        let key = key(record, KeyKind::Generic);
        let number = u16::from(record.command);
        if let Some(exchange) = self.begin(1, number, Some(key), About::Generic)
            && is_malformed
        {
            exchange.state.event(MALFORMED_DATA);
        }
    }

    fn plain_response(&mut self, record: &Record1<'_>, is_malformed: bool) {
        let key = key(record, KeyKind::Generic);
        let number = u16::from(record.command);
        if self.of_key(1, number, &key).is_none() {
            if !is_malformed {
                return;
            }
            self.begin(1, number, Some(key), About::Generic);
        }
        if let Some(exchange) = self.of_key(1, number, &key) {
            exchange.state.progress = [1, 1];
            exchange.data.status = Some(record.status);
            if is_malformed {
                exchange.state.event(MALFORMED_DATA);
            }
        }
    }

    /// A transaction on a pipe.
    fn trans1(&mut self, record: &Record1<'_>) {
        let read = wire::trans_request(record.data, record);
        let is_malformed = read.is_none();
        if let Some((Some(pipe), data)) = read {
            self.by_request.put(key(record, KeyKind::File), pipe.to_vec());
            if self.is_rpc_pipe(&handle(record, pipe)) {
                let carrier = self.carrier(record, 0);
                self.rpc_request(&carrier, data);
            }
        }
        self.plain_request(record, is_malformed);
    }

    fn carrier(&self, record: &Record1<'_>, status: u32) -> Carrier {
        Carrier {
            version: 1,
            command: u16::from(record.command),
            status,
            key: key(record, KeyKind::Header),
        }
    }

    fn trans1_response(&mut self, record: &Record1<'_>) {
        let Some(data) = wire::trans_response(record.data) else {
            self.plain_response(record, true);
            return;
        };
        let file = self.by_request.pop(&key(record, KeyKind::File)).unwrap_or_default();
        let whole = match file.as_slice() {
            [low, high] => handle(record, [*low, *high]),
            _ => handle(record, [0, 0]).split_off(2),
        };
        if record.status == status::BUFFER_OVERFLOW {
            let place = (u64::from(record.user), u32::from(record.tree), file);
            self.fragments.put(place, data.to_vec());
        } else if self.is_rpc_pipe(&whole) {
            let carrier = self.carrier(record, record.status);
            self.rpc_response(&carrier, &file, data);
        }
        self.plain_response(record, false);
    }

    /// A read's data, of which `remaining` bytes are not there yet.
    pub(super) fn read1(&mut self, record: &Record1<'_>, offset: usize, remaining: usize) {
        let direction = Direction::ToClient;
        if record.status != status::SUCCESS {
            self.plain_response(record, false);
            return;
        }
        let Some((length, data)) = wire::read_andx_response(record.at(offset)) else {
            self.plain_response(record, true);
            return;
        };
        if u64::from(length) > data.len() as u64 + remaining as u64 {
            self.event(READ_RESPONSE_TOO_LARGE);
            self.skip(direction, remaining);
            return;
        }
        let Some((file, offset)) = self.reads.pop(&key(record, KeyKind::Offset)) else {
            self.skip(direction, remaining);
            return;
        };
        let name = self.names.get(&file).cloned().unwrap_or_default();
        let place = Place {
            direction,
            version: 1,
            command: u16::from(command::READ_ANDX),
            status: 0,
            header: key(record, KeyKind::Header),
            share: key(record, KeyKind::Share),
            remaining,
        };
        self.transfer_piece(&place, &Piece { file: &file, offset, length, data }, &name);
        self.plain_response(record, false);
    }

    fn response1_command(&mut self, record: &Record1<'_>, number: u8, offset: usize) {
        let did = match number {
            command::READ_ANDX => {
                self.read1(record, offset, 0);
                Did::Enough
            }
            command::NEGOTIATE => self.negotiate1_response(record),
            command::TREE_CONNECT_ANDX => self.tree_connect1_response(record, offset),
            command::TREE_DISCONNECT => {
                self.trees.pop(&key(record, KeyKind::Share));
                Did::Plain
            }
            command::NT_CREATE_ANDX if record.status == status::SUCCESS => {
                self.create1_response(record, offset)
            }
            command::CLOSE => {
                if let Some(file) = self.by_request.pop(&key(record, KeyKind::File)) {
                    self.close1(&file, Direction::ToClient);
                }
                Did::Plain
            }
            command::TRANS => {
                self.trans1_response(record);
                Did::Enough
            }
            command::SESSION_SETUP_ANDX => {
                self.session_setup1_response(record, offset);
                Did::Enough
            }
            command::LOGOFF_ANDX => {
                let last = self.exchanges.last_mut();
                let last = last.filter(|last| {
                    last.data.version == 1 && last.data.command == u16::from(number)
                });
                if let Some(exchange) = last {
                    exchange.state.progress[1] = 1;
                    exchange.state.updated = [true, true];
                    exchange.data.status = Some(record.status);
                }
                Did::Enough
            }
            _ => Did::Plain,
        };
        use command::{READ_ANDX, TRANS, WRITE_ANDX};
        let is_checked = !matches!(number, READ_ANDX | WRITE_ANDX | TRANS);
        if matches!(did, Did::Enough) || !is_checked {
            return;
        }
        let key = key(record, KeyKind::Generic);
        if let Some(exchange) = self.of_key(1, u16::from(number), &key) {
            exchange.state.progress = [1, 1];
            exchange.data.status = Some(record.status);
            if matches!(did, Did::Malformed) {
                exchange.state.event(MALFORMED_DATA);
            }
        }
    }

    fn negotiate1_response(&mut self, record: &Record1<'_>) -> Did {
        let Some(place) = wire::negotiate_response(record.data) else { return Did::Malformed };
        let known =
            self.find(|exchange| matches!(exchange.about, About::Negotiate { version: 1, .. }));
        let Some(exchange) = known else { return Did::Plain };
        exchange.data.status = Some(record.status);
        exchange.state.progress[1] = 1;
        let name = match &exchange.data.about {
            About::Negotiate { dialects, .. } => dialects.get(usize::from(place)).cloned(),
            _ => None,
        };
        match name {
            Some(name) => self.dialect_name = name,
            None => exchange.state.event(NEGOTIATE_MALFORMED_DIALECTS),
        }
        Did::Enough
    }

    fn tree_connect1_response(&mut self, record: &Record1<'_>, offset: usize) -> Did {
        let request = key(record, KeyKind::Tree);
        let header = key(record, KeyKind::Header);
        let service = if record.status == status::SUCCESS {
            match wire::tree_connect_response(record.at(offset)) {
                Some(service) => Some(service),
                None => return Did::Malformed,
            }
        } else {
            None
        };
        let found = self.find(|exchange| {
            matches!(exchange.about, About::TreeConnect { .. })
                && exchange.key.is_some_and(|key| key.fits(&request))
        });
        let Some(exchange) = found else {
            return if service.is_some() { Did::Plain } else { Did::Enough };
        };
        exchange.data.status = Some(record.status);
        exchange.state.progress[1] = 1;
        let Some(service) = service else { return Did::Enough };
        exchange.data.key = Some(header);
        if let About::TreeConnect { share, is_pipe } = &mut exchange.data.about {
            *is_pipe = service == b"IPC";
            let tree = Tree { name: share.clone(), is_pipe: *is_pipe };
            self.trees.put(key(record, KeyKind::Share), tree);
        }
        Did::Enough
    }

    fn create1_response(&mut self, record: &Record1<'_>, offset: usize) -> Did {
        let Some(file) = wire::create_response(record.at(offset)) else {
            return Did::Malformed;
        };
        if let Some(name) = self.by_request.pop(&key(record, KeyKind::FileName)) {
            let name = name.into_iter().filter(|byte| *byte != 0).collect();
            self.names.put(handle(record, file), name);
        }
        let own = key(record, KeyKind::Generic);
        if let Some(exchange) = self.of_key(1, u16::from(command::NT_CREATE_ANDX), &own) {
            exchange.data.status = Some(record.status);
            exchange.state.progress[1] = 1;
        }
        Did::Enough
    }

    fn session_setup1_response(&mut self, record: &Record1<'_>, offset: usize) {
        let own = Key { tree: 0, ..key(record, KeyKind::Header) };
        let before = Key { session: 0, ..own };
        let header = key(record, KeyKind::Header);
        let is_readable = wire::is_session_setup_response(record.at(offset));
        for wanted in [own, before] {
            if wanted == own && record.user == 0 {
                continue;
            }
            let found = self.find(|exchange| {
                matches!(exchange.about, About::SessionSetup(_))
                    && exchange.key.is_some_and(|key| key.fits(&wanted))
            });
            if let Some(exchange) = found {
                if !is_readable {
                    exchange.state.event(MALFORMED_DATA);
                }
                exchange.data.key = Some(header);
                exchange.data.status = Some(record.status);
                exchange.state.progress[1] = 1;
                return;
            }
        }
    }
}

/// The commands of a record (`AndX`), with the places of their blocks.
fn each_command(record: &Record1<'_>, mut take: impl FnMut(u8, usize)) {
    let mut number = record.command;
    let mut offset = HEADER_BYTES;
    for _ in 0..CHAIN_MAX {
        take(number, offset);
        if !wire::is_chained(number) {
            return;
        }
        let Some((next, place)) = wire::next_command(record.at(offset)) else { return };
        let is_forward = place > offset && place - HEADER_BYTES < record.data.len();
        if next == command::NONE || !is_forward {
            return;
        }
        number = next;
        offset = place;
    }
}
