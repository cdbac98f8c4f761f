//! Requests and responses of SMB 2 and 3 (MS-SMB2 section 2.2).

use gauntlet_packet::Direction;

use super::ntlm;
use super::rpc::Carrier;
use super::session::{
    About, Key, KeyKind, MALFORMED_DATA, NEGOTIATE_MAX_READ_SIZE_TOO_LARGE,
    NEGOTIATE_MAX_WRITE_SIZE_TOO_LARGE, READ_REQUEST_TOO_LARGE, READ_RESPONSE_TOO_LARGE, Session,
    TRANSFER_BYTES_MAX, Tree, UNUSUAL_NTLMSSP_ORDER, WRITE_REQUEST_TOO_LARGE, close,
};
use super::transfer::{Piece, Place, is_too_large, missing};
use super::wire::{Record2, command, status};
use crate::reader::Reader;

/// Bytes of a handle.
const HANDLE_BYTES: usize = 16;

/// A key of a record.
fn key(record: &Record2<'_>, kind: KeyKind) -> Key {
    Key {
        kind,
        session: record.session,
        tree: if kind == KeyKind::Tree { 0 } else { record.tree },
        message: if kind == KeyKind::Share { 0 } else { record.message },
    }
}

/// The same without the share, which asynchronous responses do not name.
fn key_without_tree(record: &Record2<'_>, kind: KeyKind) -> Key {
    Key { tree: 0, ..key(record, kind) }
}

/// Reads and the like have no transaction of their own.
fn has_own_transaction(number: u16) -> bool {
    !matches!(number, command::READ | command::WRITE | command::GET_INFO | command::SET_INFO)
}

fn without_zeros(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| *byte != 0).collect()
}

fn read_write(data: &[u8]) -> Option<Piece<'_>> {
    let mut reader = Reader::new(data);
    reader.skip(4)?;
    let length = reader.le32()?;
    let offset = reader.le64()?;
    let file = reader.take(HANDLE_BYTES)?;
    reader.skip(16)?;
    Some(Piece { file, offset, length, data: limited(reader.rest(), length) })
}

fn limited(rest: &[u8], length: u32) -> &[u8] {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    rest.get(..length).unwrap_or(rest)
}

/// Offset and length of a read request, and its handle.
fn read_read(data: &[u8]) -> Option<(u32, u64, &[u8])> {
    let mut reader = Reader::new(data);
    reader.skip(4)?;
    let length = reader.le32()?;
    let offset = reader.le64()?;
    let file = reader.take(HANDLE_BYTES)?;
    reader.skip(16)?;
    Some((length, offset, file))
}

fn read_read_response(data: &[u8]) -> Option<(u32, &[u8])> {
    let mut reader = Reader::new(data);
    reader.skip(4)?;
    let length = reader.le32()?;
    reader.skip(8)?;
    Some((length, limited(reader.rest(), length)))
}

fn read_create(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(data);
    reader.skip(36 + 4 + 4 + 2)?;
    let length = reader.le16()?;
    reader.skip(8)?;
    reader.take(usize::from(length))
}

fn read_create_response(data: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(data);
    reader.skip(8 + 4 * 8 + 8 + 8 + 4 + 4)?;
    let file = reader.take(HANDLE_BYTES)?;
    reader.skip(8)?;
    Some(file)
}

/// Function, handle and data of an IOCTL.
fn read_ioctl(data: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut reader = Reader::new(data);
    reader.skip(4)?;
    let function = reader.le32()?;
    let file = reader.take(HANDLE_BYTES)?;
    reader.skip(4)?;
    let length = reader.le32()?;
    reader.skip(4 + 8 + 12)?;
    Some((function, file, reader.take(usize::try_from(length).ok()?)?))
}

fn read_ioctl_response(data: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let mut reader = Reader::new(data);
    reader.skip(4)?;
    let function = reader.le32()?;
    let file = reader.take(HANDLE_BYTES)?;
    reader.skip(4)?;
    let input = reader.le32()?;
    reader.skip(4)?;
    let output = reader.le32()?;
    reader.skip(8)?;
    reader.skip(usize::try_from(input).ok()?)?;
    Some((function, file, reader.take(usize::try_from(output).ok()?)?))
}

/// What a SET_INFO changes.
enum Change<'a> {
    Rename(&'a [u8]),
    Disposition,
    Other,
}

fn read_set_info(data: &[u8]) -> Option<(&[u8], Change<'_>)> {
    let mut reader = Reader::new(data);
    reader.skip(2)?;
    let (class, level) = (reader.u8()?, reader.u8()?);
    let size = usize::try_from(reader.le32()?).ok()?;
    reader.skip(8)?;
    let file = reader.take(HANDLE_BYTES)?;
    let mut body = Reader::new(reader.take(size)?);
    let change = match (class, level) {
        (1, 10) => {
            body.skip(16)?;
            let length = usize::try_from(body.le32()?).ok()?;
            Change::Rename(body.take(length)?)
        }
        (1, 13) => {
            body.u8()?;
            Change::Disposition
        }
        _ => Change::Other,
    };
    Some((file, change))
}

fn read_dialects(data: &[u8]) -> Option<Vec<u16>> {
    let mut reader = Reader::new(data);
    reader.skip(2)?;
    let count = reader.le16()?;
    reader.skip(2 + 2 + 4 + 16 + 4 + 2 + 2)?;
    (0..count).map(|_| reader.le16()).collect()
}

impl Session {
    /// A request.
    pub(super) fn request2(&mut self, record: &Record2<'_>) {
        let mut is_malformed = false;
        let is_done = match record.command {
            command::SET_INFO => self.set_info(record, &mut is_malformed),
            command::IOCTL => {
                self.ioctl(record);
                true
            }
            command::TREE_DISCONNECT => {
                self.trees.pop(&key(record, KeyKind::Share));
                false
            }
            command::NEGOTIATE => self.negotiate(record, &mut is_malformed),
            command::SESSION_SETUP => {
                self.session_setup(record);
                true
            }
            command::TREE_CONNECT => self.tree_connect(record, &mut is_malformed),
            command::READ => {
                self.read_request(record, &mut is_malformed);
                false
            }
            command::CREATE => self.create(record, &mut is_malformed),
            command::WRITE => {
                self.write2(record, 0);
                true
            }
            command::CLOSE => {
                match record.data.get(8..8 + HANDLE_BYTES) {
                    Some(file) => {
                        self.names.pop(&file.to_vec());
                        self.close_file(file);
                    }
                    None => is_malformed = true,
                }
                false
            }
            _ => false,
        };
        if !is_done && has_own_transaction(record.command) {
            let key = key(record, KeyKind::Generic);
            let added = self.begin(2, record.command, Some(key), About::Generic);
            if let Some(exchange) = added.filter(|_| is_malformed) {
                exchange.state.event(MALFORMED_DATA);
            }
        }
    }

    fn set_info(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        let Some((file, change)) = read_set_info(record.data) else {
            *is_malformed = true;
            return false;
        };
        let name = self.names.get(&file.to_vec()).cloned();
        let about = match change {
            Change::Rename(to) => {
                let from = name.unwrap_or_else(|| b"<unknown>".to_vec());
                About::Rename { from, to: without_zeros(to) }
            }
            Change::Disposition => {
                // The name of the create that this request is chained to.
                let create = key_without_tree(record, KeyKind::FileName);
                let create = Key { message: create.message.wrapping_sub(1), ..create };
                let name = name.or_else(|| self.by_request.get(&create).cloned());
                About::SetInfo { name: name.unwrap_or_else(|| b"<unknown>".to_vec()) }
            }
            Change::Other => return false,
        };
        self.begin(2, record.command, Some(key(record, KeyKind::Generic)), about);
        true
    }

    fn ioctl(&mut self, record: &Record2<'_>) {
        const PIPE_TRANSCEIVE: u32 = 0x0011_c017;
        let key = key(record, KeyKind::Header);
        let Some((function, file, data)) = read_ioctl(record.data) else {
            if let Some(exchange) = self.begin(2, record.command, Some(key), About::Generic) {
                exchange.state.event(MALFORMED_DATA);
            }
            return;
        };
        if function == PIPE_TRANSCEIVE && self.is_rpc_pipe(file) {
            let carrier = Carrier { version: 2, command: command::IOCTL, status: 0, key };
            self.rpc_request(&carrier, data);
        } else {
            self.begin(2, command::IOCTL, Some(key), About::Generic);
        }
    }

    fn ioctl_response(&mut self, record: &Record2<'_>) {
        const PIPE_TRANSCEIVE: u32 = 0x0011_c017;
        let key = key(record, KeyKind::Header);
        let read = read_ioctl_response(record.data);
        if let Some((function, file, data)) = read
            && function == PIPE_TRANSCEIVE
            && self.is_rpc_pipe(file)
        {
            let status = record.status;
            let carrier = Carrier { version: 2, command: command::IOCTL, status, key };
            self.rpc_response(&carrier, &[], data);
            return;
        }
        if let Some(exchange) = self.of_key(2, command::IOCTL, &key) {
            exchange.data.status = Some(record.status);
            if record.status != status::PENDING {
                exchange.state.progress[1] = 1;
            }
            if read.is_none() && record.status == status::SUCCESS {
                exchange.state.event(MALFORMED_DATA);
            }
        }
    }

    fn negotiate(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        let Some(dialects) = read_dialects(record.data) else {
            *is_malformed = true;
            return false;
        };
        let is_known = |about: &About| matches!(about, About::Negotiate { version: 2, .. });
        if self.find(|exchange| is_known(&exchange.about)).is_none() {
            let dialects = dialects.iter().map(|number| dialect_name(*number)).collect();
            let about = About::Negotiate { version: 2, dialects };
            self.begin(2, command::NEGOTIATE, None, about);
        }
        true
    }

    fn session_setup(&mut self, record: &Record2<'_>) {
        let Some(blob) = record.data.get(24..) else { return };
        let found = ntlm::find(blob);
        let is_unusual = found.as_ref().is_some_and(|found| found.is_unusual);
        let key = key(record, KeyKind::Header);
        let about = About::SessionSetup(found);
        if let Some(exchange) = self.begin(2, record.command, Some(key), about)
            && is_unusual
        {
            exchange.state.event(UNUSUAL_NTLMSSP_ORDER);
        }
    }

    fn tree_connect(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        let Some(name) = record.data.get(6..) else {
            *is_malformed = true;
            return false;
        };
        let mut share = without_zeros(name);
        if share.len() > 1 {
            share.remove(0);
        }
        let about = About::TreeConnect { share, is_pipe: false };
        self.begin(2, record.command, Some(key(record, KeyKind::Tree)), about);
        true
    }

    fn read_request(&mut self, record: &Record2<'_>, is_malformed: &mut bool) {
        match read_read(record.data) {
            Some((length, _, _)) if is_too_large(length, self.read_max) => {
                self.event(READ_REQUEST_TOO_LARGE);
            }
            Some((_, offset, file)) => {
                let key = key_without_tree(record, KeyKind::Offset);
                self.reads.put(key, (file.to_vec(), offset));
            }
            None => *is_malformed = true,
        }
    }

    fn create(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        let Some(name) = read_create(record.data) else {
            *is_malformed = true;
            return false;
        };
        let request = key_without_tree(record, KeyKind::FileName);
        self.by_request.put(request, name.to_vec());
        let about = About::Create { name: name.to_vec() };
        self.begin(2, record.command, Some(key(record, KeyKind::Generic)), about);
        true
    }

    /// A write of which `remaining` bytes are not there yet.
    pub(super) fn write2(&mut self, record: &Record2<'_>, remaining: usize) {
        let Some(piece) = read_write(record.data) else {
            self.event(MALFORMED_DATA);
            return;
        };
        let missing = missing(&piece);
        if missing > remaining as u64 || is_too_large(piece.length, self.write_max) {
            self.event(WRITE_REQUEST_TOO_LARGE);
            self.skip(Direction::ToServer, remaining);
            return;
        }
        self.by_request.put(key(record, KeyKind::File), piece.file.to_vec());
        let name = self.names.get(&piece.file.to_vec()).cloned().unwrap_or_default();
        let place = Place {
            direction: Direction::ToServer,
            version: 2,
            command: command::WRITE,
            status: 0,
            header: key(record, KeyKind::Header),
            share: key(record, KeyKind::Share),
            remaining,
        };
        self.transfer_piece(&place, &piece, &name);
    }

    /// A read's data, of which `remaining` bytes are not there yet.
    pub(super) fn read2(&mut self, record: &Record2<'_>, remaining: usize) {
        let direction = Direction::ToClient;
        let Some((length, data)) = read_read_response(record.data) else {
            self.event(MALFORMED_DATA);
            return;
        };
        let piece = Piece { file: &[], offset: 0, length, data };
        if missing(&piece) > remaining as u64 {
            self.event(READ_RESPONSE_TOO_LARGE);
            self.skip(direction, remaining);
            return;
        }
        if !matches!(record.status, status::SUCCESS | status::BUFFER_OVERFLOW) {
            self.skip(direction, remaining);
            return;
        }
        if is_too_large(length, self.read_max) {
            self.event(READ_RESPONSE_TOO_LARGE);
            self.skip(direction, remaining);
            return;
        }
        let request = key_without_tree(record, KeyKind::Offset);
        let Some((file, offset)) = self.reads.pop(&request) else {
            self.skip(direction, remaining);
            return;
        };
        let name = self.names.get(&file).cloned();
        let name = name.unwrap_or_else(|| b"<unknown>".to_vec());
        let place = Place {
            direction,
            version: 2,
            command: command::READ,
            status: record.status,
            header: key(record, KeyKind::Header),
            share: key(record, KeyKind::Share),
            remaining,
        };
        self.transfer_piece(&place, &Piece { file: &file, offset, length, data }, &name);
    }

    /// A response.
    pub(super) fn response2(&mut self, record: &Record2<'_>) {
        let mut is_malformed = false;
        let succeeded = record.status == status::SUCCESS;
        let is_done = match record.command {
            command::IOCTL => {
                self.ioctl_response(record);
                true
            }
            command::SESSION_SETUP => {
                self.session_setup_response(record);
                true
            }
            command::WRITE => {
                if succeeded {
                    is_malformed = record.data.len() < 14;
                    self.by_request.pop(&key(record, KeyKind::File));
                }
                false
            }
            command::READ => {
                self.read_response(record);
                false
            }
            command::CREATE if succeeded => {
                is_malformed = self.create_response(record).is_none();
                true
            }
            command::TREE_DISCONNECT => {
                self.trees.pop(&key(record, KeyKind::Share));
                false
            }
            command::TREE_CONNECT => self.tree_connect_response(record, &mut is_malformed),
            command::NEGOTIATE => self.negotiate_response(record, &mut is_malformed),
            _ => false,
        };
        if is_done {
            return;
        }
        if let Some(exchange) = self.of_key(2, record.command, &key(record, KeyKind::Generic)) {
            if record.status != status::PENDING {
                exchange.state.progress[1] = 1;
            }
            exchange.data.status = Some(record.status);
            if is_malformed {
                exchange.state.event(MALFORMED_DATA);
            }
        }
    }

    fn session_setup_response(&mut self, record: &Record2<'_>) {
        let own = key(record, KeyKind::Header);
        // The first response names the session that the request could not.
        let before = Key { session: 0, tree: 0, ..own };
        let is_setup = |about: &About| matches!(about, About::SessionSetup(_));
        for wanted in [own, before] {
            if wanted == own && record.session == 0 {
                continue;
            }
            let found = self.find(|exchange| {
                is_setup(&exchange.about) && exchange.key.is_some_and(|key| key.fits(&wanted))
            });
            if let Some(exchange) = found {
                exchange.data.key = Some(own);
                exchange.data.status = Some(record.status);
                exchange.state.progress[1] = 1;
                return;
            }
        }
    }

    fn read_response(&mut self, record: &Record2<'_>) {
        match record.status {
            status::SUCCESS | status::BUFFER_OVERFLOW => self.read2(record, 0),
            status::END_OF_FILE => {
                let request = key_without_tree(record, KeyKind::Offset);
                let file = self.reads.pop(&request).map(|(file, _)| file).unwrap_or_default();
                let direction = Direction::ToClient;
                if let Some(exchange) = self.transfer(&file, direction, false) {
                    close(exchange, direction);
                    exchange.data.status = Some(record.status);
                    exchange.state.progress[0] = 1;
                }
            }
            _ => {}
        }
    }

    fn create_response(&mut self, record: &Record2<'_>) -> Option<()> {
        let file = read_create_response(record.data)?;
        let request = key_without_tree(record, KeyKind::FileName);
        if let Some(name) = self.by_request.pop(&request) {
            self.names.put(file.to_vec(), without_zeros(&name));
        }
        let own = key(record, KeyKind::Generic);
        if let Some(exchange) = self.of_key(2, record.command, &own) {
            exchange.data.status = Some(record.status);
            exchange.state.progress[1] = 1;
        }
        Some(())
    }

    fn tree_connect_response(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        const PIPE: u8 = 2;
        let request = key(record, KeyKind::Tree);
        let kind = record.data.get(2).copied().filter(|_| record.data.len() >= 15);
        let succeeded = record.status == status::SUCCESS;
        if succeeded && kind.is_none() {
            *is_malformed = true;
            return false;
        }
        let header = key(record, KeyKind::Header);
        let found = self.find(|exchange| {
            matches!(exchange.about, About::TreeConnect { .. })
                && exchange.key.is_some_and(|key| key.fits(&request))
        });
        let Some(exchange) = found else { return succeeded };
        exchange.data.status = Some(record.status);
        exchange.state.progress[1] = 1;
        if !succeeded {
            return true;
        }
        exchange.data.key = Some(header);
        if let About::TreeConnect { share, is_pipe } = &mut exchange.data.about {
            *is_pipe = kind == Some(PIPE);
            let tree = Tree { name: share.clone(), is_pipe: *is_pipe };
            self.trees.put(key(record, KeyKind::Share), tree);
        }
        true
    }

    fn negotiate_response(&mut self, record: &Record2<'_>, is_malformed: &mut bool) -> bool {
        let mut limits = (0, 0, 0);
        if record.status == status::SUCCESS {
            let mut reader = Reader::new(record.data);
            let read = (|| {
                reader.skip(4)?;
                let dialect = reader.le16()?;
                reader.skip(2 + 16 + 4 + 4)?;
                Some((dialect, reader.le32()?, reader.le32()?))
            })();
            let Some(read) = read else {
                *is_malformed = true;
                return false;
            };
            limits = read;
        } else if record.data.len() < 4 {
            *is_malformed = true;
            return false;
        }
        let (dialect, read_max, write_max) = limits;
        if read_max > TRANSFER_BYTES_MAX {
            self.event(NEGOTIATE_MAX_READ_SIZE_TOO_LARGE);
        }
        if write_max > TRANSFER_BYTES_MAX {
            self.event(NEGOTIATE_MAX_WRITE_SIZE_TOO_LARGE);
        }
        (self.dialect, self.read_max, self.write_max) = (dialect, read_max, write_max);
        for wanted in [2, 1] {
            let found = self.find(|exchange| {
                matches!(exchange.about, About::Negotiate { version, .. } if version == wanted)
            });
            if let Some(exchange) = found {
                exchange.data.status = Some(record.status);
                exchange.state.progress[1] = 1;
                return true;
            }
        }
        false
    }
}

fn dialect_name(number: u16) -> Vec<u8> {
    match number {
        0x0202 => b"2.02".to_vec(),
        0x0210 => b"2.10".to_vec(),
        0x0222 => b"2.22".to_vec(),
        0x0224 => b"2.24".to_vec(),
        0x02ff => b"2.??".to_vec(),
        0x0300 => b"3.00".to_vec(),
        0x0302 => b"3.02".to_vec(),
        0x0310 => b"3.10".to_vec(),
        0x0311 => b"3.11".to_vec(),
        _ => number.to_string().into_bytes(),
    }
}
