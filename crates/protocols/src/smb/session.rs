//! What a connection remembers, and its transactions.

use gauntlet_packet::Direction;

use super::ntlm::Authentication;
use crate::dcerpc::wire::Interface;
use crate::files::HashSettings;
use crate::recent::Recent;
use crate::tracker::Tracker;
use crate::transaction::{Transaction, Transactions};

/// Transactions that wait (`max-tx`); with more parsing ends.
const TRANSACTIONS_MAX: usize = 1024;

pub(super) const EVENTS: &[&str] = &[
    "internal_error",
    "malformed_data",
    "record_overflow",
    "malformed_ntlmssp_request",
    "malformed_ntlmssp_response",
    "duplicate_negotiate",
    "negotiate_malformed_dialects",
    "file_overlap",
    "request_to_client",
    "response_to_server",
    "negotiate_max_read_size_too_large",
    "negotiate_max_write_size_too_large",
    "read_request_too_large",
    "read_response_too_large",
    "read_queue_size_exceeded",
    "read_queue_cnt_exceeded",
    "write_request_too_large",
    "write_queue_size_exceeded",
    "write_queue_cnt_exceeded",
    "unusual_ntlmssp_order",
    "too_many_transactions",
];
pub(super) const MALFORMED_DATA: u8 = 1;
pub(super) const NEGOTIATE_MALFORMED_DIALECTS: u8 = 6;
pub(super) const FILE_OVERLAP: u8 = 7;
pub(super) const NEGOTIATE_MAX_READ_SIZE_TOO_LARGE: u8 = 10;
pub(super) const NEGOTIATE_MAX_WRITE_SIZE_TOO_LARGE: u8 = 11;
pub(super) const READ_REQUEST_TOO_LARGE: u8 = 12;
pub(super) const READ_RESPONSE_TOO_LARGE: u8 = 13;
pub(super) const READ_QUEUE_SIZE_EXCEEDED: u8 = 14;
pub(super) const WRITE_REQUEST_TOO_LARGE: u8 = 16;
pub(super) const WRITE_QUEUE_SIZE_EXCEEDED: u8 = 17;
pub(super) const UNUSUAL_NTLMSSP_ORDER: u8 = 19;
pub(super) const TOO_MANY_TRANSACTIONS: u8 = 20;

/// The largest read or write that is believed.
pub(super) const TRANSFER_BYTES_MAX: u32 = 16 << 20;
/// Bytes of a file that wait for what is before them.
pub(super) const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Kinds of keys, so that no entry is taken for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyKind {
    File,
    Share,
    FileName,
    Offset,
    Generic,
    Header,
    Tree,
}

/// What requests and responses are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: KeyKind,
    pub(super) session: u64,
    pub(super) tree: u32,
    pub(super) message: u64,
}

impl Key {
    /// The same request; its share may have been unknown.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.kind == other.kind && self.session == other.session && self.message == other.message
    }
}

/// A share.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) name: Vec<u8>,
    pub(super) is_pipe: bool,
}

/// A transfer of a file.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) direction: Direction,
    pub(super) file: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) share: Vec<u8>,
    pub(super) tracker: Tracker,
}

/// A call of DCE/RPC.
#[derive(Debug, Default)]
pub(super) struct Rpc {
    pub(super) call: u32,
    pub(super) operation: u16,
    pub(super) request: Option<u8>,
    pub(super) response: Option<u8>,
    pub(super) fragments: [u16; 2],
    pub(super) stubs: [Vec<u8>; 2],
}

/// What a transaction is about.
#[derive(Debug)]
pub(super) enum About {
    Generic,
    Transfer(Box<Transfer>),
    TreeConnect { share: Vec<u8>, is_pipe: bool },
    Negotiate { version: u8, dialects: Vec<Vec<u8>> },
    Rpc(Box<Rpc>),
    Create { name: Vec<u8> },
    SessionSetup(Option<Authentication>),
    Rename { from: Vec<u8>, to: Vec<u8> },
    SetInfo { name: Vec<u8> },
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) version: u8,
    pub(super) command: u16,
    pub(super) status: Option<u32>,
    pub(super) key: Option<Key>,
    pub(super) about: About,
}

/// A connection.
pub(super) struct Session {
    pub(super) exchanges: Transactions<Exchange>,
    pub(super) hashes: HashSettings,
    /// Handles and names by request.
    pub(super) by_request: Recent<Key, Vec<u8>>,
    /// Names of files by their handles.
    pub(super) names: Recent<Vec<u8>, Vec<u8>>,
    /// File and place of reads.
    pub(super) reads: Recent<Key, (Vec<u8>, u64)>,
    pub(super) trees: Recent<Key, Tree>,
    /// Responses of DCE/RPC that go on, by session, share and file.
    pub(super) fragments: Recent<(u64, u32, Vec<u8>), Vec<u8>>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) read_max: u32,
    pub(super) write_max: u32,
    pub(super) dialect: u16,
    pub(super) dialect_name: Vec<u8>,
    /// By direction: bytes to step over, bytes of a transfer to come and its file.
    pub(super) skip: [usize; 2],
    pub(super) left: [u64; 2],
    pub(super) file: [Vec<u8>; 2],
    pub(super) after_gap: [bool; 2],
    pub(super) had_gap: [bool; 2],
    /// No more data in this direction makes sense.
    pub(super) lost: [bool; 2],
    pub(super) is_full: bool,
}

impl Session {
    pub(super) fn new(hashes: HashSettings) -> Self {
        Self {
            exchanges: Transactions::default(),
            hashes,
            by_request: Recent::new(512),
            names: Recent::new(1024),
            reads: Recent::new(128),
            trees: Recent::new(512),
            fragments: Recent::new(128),
            interfaces: Vec::new(),
            read_max: 0,
            write_max: 0,
            dialect: 0,
            dialect_name: Vec::new(),
            skip: [0; 2],
            left: [0; 2],
            file: [Vec::new(), Vec::new()],
            after_gap: [false; 2],
            had_gap: [false; 2],
            lost: [false; 2],
            is_full: false,
        }
    }

    /// An event of the newest transaction.
    pub(super) fn event(&mut self, event: u8) {
        if let Some(last) = self.exchanges.last_mut() {
            last.state.event(event);
        }
    }

    /// Adds a transaction whose request is complete; `None` if too many wait.
    pub(super) fn begin(
        &mut self,
        version: u8,
        command: u16,
        key: Option<Key>,
        about: About,
    ) -> Option<&mut Transaction<Exchange>> {
        if self.exchanges.len() >= TRANSACTIONS_MAX {
            self.event(TOO_MANY_TRANSACTIONS);
            self.is_full = true;
            return None;
        }
        let lost = self.lost;
        let exchange = Exchange { version, command, status: None, key, about };
        let added = self.exchanges.push(exchange)?;
        added.state.updated = [true, true];
        added.state.progress = [1, u8::from(lost == [false, true] || lost == [true, true])];
        Some(added)
    }

    /// Whether the transactions are at their limit.
    pub(super) fn is_at_limit(&self) -> bool {
        self.exchanges.len() >= TRANSACTIONS_MAX
    }

    /// The first transaction that fits, touched.
    pub(super) fn find(
        &mut self,
        fits: impl Fn(&Exchange) -> bool,
    ) -> Option<&mut Transaction<Exchange>> {
        let found = self.exchanges.iter_mut().find(|exchange| fits(&exchange.data))?;
        found.state.updated = [true, true];
        Some(found)
    }

    /// The transaction of a command and key.
    pub(super) fn of_key(
        &mut self,
        version: u8,
        command: u16,
        key: &Key,
    ) -> Option<&mut Transaction<Exchange>> {
        self.find(|exchange| {
            exchange.version == version
                && exchange.command == command
                && exchange.key.is_some_and(|other| other.fits(key))
        })
    }

    /// The transfer of a file in this direction; only one whose file is open, if asked so.
    pub(super) fn transfer(
        &mut self,
        file: &[u8],
        direction: Direction,
        only_open: bool,
    ) -> Option<&mut Transaction<Exchange>> {
        self.find(|exchange| match &exchange.about {
            About::Transfer(transfer) => {
                transfer.direction == direction
                    && transfer.file == file
                    && (!only_open || transfer.tracker.is_open)
            }
            _ => false,
        })
    }

    /// Whether the pipe behind a handle is one of DCE/RPC.
    pub(super) fn is_rpc_pipe(&self, file: &[u8]) -> bool {
        let Some(name) = self.names.get(&file.to_vec()) else { return false };
        let name = match name.as_slice() {
            [b'\\', rest @ ..] if !rest.is_empty() => rest,
            name => name,
        };
        matches!(
            name,
            b"svcctl"
                | b"srvsvc"
                | b"atsvc"
                | b"lsarpc"
                | b"samr"
                | b"spoolss"
                | b"winreg"
                | b"suricata::dcerpc"
        )
    }

    /// More of the transfer at hand; says how many bytes are part of it.
    pub(super) fn continue_transfer(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        is_gap: bool,
    ) -> usize {
        let side = direction.index();
        let left = self.left.get(side).copied().unwrap_or_default();
        if left == 0 {
            return 0;
        }
        let room = usize::try_from(left).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        if let Some(place) = self.left.get_mut(side) {
            *place -= taken.len() as u64;
        }
        let file = self.file.get(side).cloned().unwrap_or_default();
        let Some(exchange) = self.transfer(&file, direction, false) else { return 0 };
        let About::Transfer(transfer) = &mut exchange.data.about else { return 0 };
        let Some(files) = exchange.state.files.get_mut(side) else { return 0 };
        transfer.tracker.update(files, taken, is_gap)
    }

    /// Bytes of this direction that no one looks at.
    pub(super) fn skip(&mut self, direction: Direction, count: usize) {
        if let Some(skip) = self.skip.get_mut(direction.index()) {
            *skip = count;
        }
    }

    pub(super) fn expect_file(&mut self, direction: Direction, left: u64, file: &[u8]) {
        if let Some(place) = self.left.get_mut(direction.index()) {
            *place = left;
        }
        if let Some(place) = self.file.get_mut(direction.index()) {
            *place = file.to_vec();
        }
    }

    /// Closes the transfers of a handle.
    pub(super) fn close_file(&mut self, file: &[u8]) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let Some(exchange) = self.transfer(file, direction, false) else { continue };
            close(exchange, direction);
            exchange.data.status = Some(0);
            exchange.state.progress = [1, 1];
        }
    }
}

/// Closes a transfer's file, if its request is not over.
pub(super) fn close(exchange: &mut Transaction<Exchange>, direction: Direction) {
    let [requested, _] = exchange.state.progress;
    if requested == 0
        && let About::Transfer(transfer) = &mut exchange.data.about
        && let Some(files) = exchange.state.files.get_mut(direction.index())
    {
        transfer.tracker.close(files);
    }
}
