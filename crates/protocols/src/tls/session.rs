//! A TLS session: how far it is and what is known of it.

use super::event::Event;
use super::side::Side;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// What is computed and what becomes of encrypted sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// JA3 and JA3S are computed.
    pub ja3: bool,
}

/// How far the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum ClientProgress {
    #[default]
    InProgress,
    HelloDone,
    CertificateDone,
    HandshakeDone,
    Finished,
}

/// How far the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum ServerProgress {
    #[default]
    InProgress,
    Hello,
    CertificateDone,
    HelloDone,
    HandshakeDone,
    Finished,
}

/// What is to be known of a session by flags; those of `ssl_state` among them.
pub mod flag {
    #![allow(missing_docs)]
    pub const SERVER_CIPHER_CHANGED: u32 = 1;
    pub const CLIENT_CIPHER_CHANGED: u32 = 1 << 1;
    pub const CIPHER_CHANGED: u32 = 1 << 2;
    pub const SSL2_CLIENT_HELLO: u32 = 1 << 3;
    pub const SSL2_SERVER_HELLO: u32 = 1 << 4;
    pub const SSL2_MASTER_KEY: u32 = 1 << 5;
    pub const SSL2_CLIENT_ENCRYPTS: u32 = 1 << 6;
    pub const SSL2_SERVER_ENCRYPTS: u32 = 1 << 7;
    pub const SSL2_NO_SESSION_ID: u32 = 1 << 8;
    pub const CLIENT_HELLO: u32 = 1 << 9;
    pub const SERVER_HELLO: u32 = 1 << 10;
    pub const CLIENT_KEY_EXCHANGE: u32 = 1 << 11;
    pub const SERVER_KEY_EXCHANGE: u32 = 1 << 12;
    pub const HEARTBEAT_PENDING: u32 = 1 << 15;
    pub const HEARTBEAT_OF_CLIENT: u32 = 1 << 16;
    pub const HEARTBEAT_OF_SERVER: u32 = 1 << 17;
    pub const RESUMED: u32 = 1 << 20;
    pub const VERSIONS_OFFERED: u32 = 1 << 21;
    pub const CERTIFICATES_HIDDEN: u32 = 1 << 22;
    pub const EARLY_DATA: u32 = 1 << 23;
    pub const CLIENT_CERTIFICATE_NEEDED: u32 = 1 << 26;
}

/// Where reading of one direction stands.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Bytes of the current record, header included, that are behind us.
    pub processed: usize,
    pub content_type: u8,
    pub record_length: usize,
    /// Bytes of the header before the type, of SSL 2.0.
    pub ssl2_length_bytes: usize,
    pub header: Vec<u8>,
    pub message: Option<Pending>,
}

impl Place {
    pub(super) fn reset(&mut self) {
        self.processed = 0;
        self.header.clear();
    }
}

/// A handshake message of which records are to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub kind: u8,
    pub length: usize,
    pub seen: usize,
    pub bytes: Vec<u8>,
}

/// What came of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// All bytes were taken.
    Done,
    /// So many were taken; at least `needed` must be there from then on.
    Incomplete {
        /// Taken.
        consumed: usize,
        /// Needed.
        needed: usize,
    },
    /// It is no TLS any more.
    Failed,
}

/// What one step over a record says.
pub(super) enum Step {
    Took(usize),
    Wait { consumed: usize, needed: usize },
    Failed,
}

/// A session.
#[derive(Debug, Default)]
pub struct Session {
    /// What is known of the client.
    pub client: Side,
    /// What is known of the server.
    pub server: Side,
    /// How far the client is.
    pub client_progress: ClientProgress,
    /// How far the server is.
    pub server_progress: ServerProgress,
    /// All that was seen, see [`flag`].
    pub flags: u32,
    /// What the current record shows, see [`flag`].
    pub current: u32,
    /// Events since they were taken.
    pub events: Vec<Event>,
    /// Encrypted data was seen: there is no use in looking at payload.
    pub is_encrypted: bool,
    /// Both sides encrypt by SSL 2.0.
    pub is_ssl2_encrypted: bool,
    /// Parts of the bytes of the last call: names of frames, places, lengths.
    pub marks: Vec<(&'static str, usize, usize)>,
    /// A record ended; the raw stream may be looked at.
    pub record_ended: bool,
    pub(super) places: [Place; 2],
    pub(super) heartbeat_length: usize,
    pub(super) options: Options,
}

impl Session {
    /// A new one.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    pub(super) fn place(&mut self, sender: Sender) -> &mut Place {
        let [client, server] = &mut self.places;
        if sender == Sender::Client { client } else { server }
    }

    pub(super) fn side(&mut self, sender: Sender) -> &mut Side {
        if sender == Sender::Client { &mut self.client } else { &mut self.server }
    }

    /// The session ends in this direction.
    pub fn finish(&mut self, sender: Sender) {
        match sender {
            Sender::Client => self.client_progress = ClientProgress::Finished,
            Sender::Server => self.server_progress = ServerProgress::Finished,
        }
    }
}
