//! Names of buffers and numbers that rules look at, and when each may be looked at.

use std::borrow::Cow;

use gauntlet_packet::Direction;

use crate::protocol::Protocol;

/// One buffer of a transaction (`http.uri`), for contents and patterns. A handle: cheap to copy and
/// compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buffer {
    /// Which table.
    pub(crate) room: u8,
    /// Its place in the table.
    pub(crate) place: u8,
}

/// One number of a transaction (`dns.opcode`, `tls.version`), for comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number {
    /// Which table.
    pub(crate) room: u8,
    /// Its place in the table.
    pub(crate) place: u8,
}

impl Buffer {
    /// For the tables of the protocols.
    pub(crate) const fn new(room: u8, place: u8) -> Self {
        Self { room, place }
    }
}

impl Number {
    /// For the tables of the protocols.
    pub(crate) const fn new(room: u8, place: u8) -> Self {
        Self { room, place }
    }
}

/// How many of a buffer a transaction can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One.
    Single,
    /// Several: each is matched by itself (`dns.query`, `tls.subjectaltname`, `file.name`).
    Multi,
    /// One that grows: it is looked at in windows as data arrives (`http.request_body`).
    Body,
    /// Several that grow (`file.data`).
    Bodies,
}

/// A buffer as the tables have it.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Its handle.
    pub buffer: Buffer,
    /// Its name in rules.
    pub name: &'static str,
    /// Old names, and content modifiers that select it.
    pub aliases: &'static [&'static str],
    /// How many there can be.
    pub kind: Kind,
    /// Where it is looked at.
    pub engines: &'static [Engine],
}

impl Spec {
    pub(crate) fn has_name(&self, keyword: &str) -> bool {
        self.name == keyword || self.aliases.contains(&keyword)
    }
}

/// A number as the tables have it.
#[derive(Debug, Clone, Copy)]
pub struct NumberSpec {
    /// Its handle.
    pub number: Number,
    /// Its name in rules.
    pub name: &'static str,
    /// Old names.
    pub aliases: &'static [&'static str],
    /// Where it is looked at.
    pub engines: &'static [Engine],
}

impl NumberSpec {
    pub(crate) fn has_name(&self, keyword: &str) -> bool {
        self.name == keyword || self.aliases.contains(&keyword)
    }
}

/// Where a buffer is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engine {
    /// In transactions of this protocol.
    pub protocol: Protocol,
    /// When data of this direction is inspected.
    pub direction: Direction,
    /// Once the transaction's progress in that direction is at least this.
    pub progress: u8,
}

/// Looked at in requests.
pub(crate) const fn to_server(protocol: Protocol, progress: u8) -> Engine {
    Engine { protocol, direction: Direction::ToServer, progress }
}

/// Looked at in responses.
pub(crate) const fn to_client(protocol: Protocol, progress: u8) -> Engine {
    Engine { protocol, direction: Direction::ToClient, progress }
}

/// What a buffer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes<'a> {
    /// The bytes to look at.
    pub data: Cow<'a, [u8]>,
    /// Where they begin in the whole (bodies and files in windows; otherwise 0).
    pub offset: u64,
    /// They are the whole's beginning (rules with `depth` and `startswith` count from there).
    pub begin: bool,
    /// They are the whole's end.
    pub end: bool,
}

impl<'a> Bytes<'a> {
    /// A whole buffer.
    pub fn whole(data: &'a [u8]) -> Self {
        Self { data: Cow::Borrowed(data), offset: 0, begin: true, end: true }
    }

    /// A whole buffer that was made for the question.
    pub fn made(data: Vec<u8>) -> Self {
        Self { data: Cow::Owned(data), offset: 0, begin: true, end: true }
    }
}
