//! Frames between a node, its supervisor and its workers.
//!
//! A frame is a kind (one byte), a length (eight bytes, little-endian) and so many bytes. Values
//! are in MessagePack. Both ends are one program, yet neither believes the other: a worker that
//! runs an intruder's code may send anything.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::unpack::Password;

/// Bytes of a value in MessagePack, such as a tree.
pub const VALUE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a command on the control socket.
pub(super) const COMMAND_BYTES: usize = 16;
/// First byte of a command: start a worker with the nice value of bytes 4 to 7; an answer with its
/// socket follows.
pub(super) const START_WORKER: u8 = b'W';
/// Start a tool for the kind of archive named by the second byte; as above.
pub(super) const START_TOOL: u8 = b'T';
/// Kill the process whose number stands in bytes 1 to 4.
pub(super) const KILL: u8 = b'K';

/// What the workers of a supervisor may use.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes of memory of a worker, above what the program itself needs.
    pub memory_bytes_max: u64,
    /// Whether a worker may run where the kernel cannot cage it.
    pub allow_uncaged: bool,
    /// Longest time that a tool may take.
    pub tool_time_max: Duration,
    /// Bytes that a tool may give.
    pub tool_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memory_bytes_max: 512 << 20,
            allow_uncaged: true,
            tool_time_max: Duration::from_secs(10),
            tool_bytes_max: 256 << 20,
        }
    }
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A [`Request`]; as many [`Kind::Bytes`] follow as it has roots.
    Request = 1,
    /// The bytes of a root, an object or a converted archive.
    Bytes = 2,
    /// An object, whose bytes follow if the request wants them.
    Object = 3,
    /// The kind of an archive to be converted; its bytes follow.
    Convert = 4,
    /// Why it was not converted ([`crate::ConvertError`] as text).
    NotConverted = 5,
    /// The tree: the request is done.
    Tree = 6,
    /// A [`DisarmRequest`]; the bytes of the file follow.
    Disarm = 7,
    /// A [`crate::disarm::Disarmed`]: that request is done. The bytes of a changed file follow.
    Disarmed = 8,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Request,
        Kind::Bytes,
        Kind::Object,
        Kind::Convert,
        Kind::NotConverted,
        Kind::Tree,
        Kind::Disarm,
        Kind::Disarmed,
    ];
}

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What it may cost.
    pub limits: Limits,
    /// Tried on what is encrypted.
    pub passwords: Vec<Password>,
    /// Name and declared type of each root; their bytes follow in this order.
    pub roots: Vec<(String, String)>,
    /// Whether each object's bytes are to be sent before the tree.
    pub wants_objects: bool,
}

/// A file that a worker is to disarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisarmRequest {
    /// What it may cost.
    pub limits: Limits,
    /// A reader shows it as HTML, whatever its bytes are.
    pub is_page: bool,
    /// As [`crate::Root::name`].
    pub name: String,
    /// As [`crate::Root::declared_type`].
    pub declared_type: String,
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Writes a frame.
///
/// # Errors
/// The socket's.
pub fn write(to: &mut impl Write, kind: Kind, body: &[u8]) -> io::Result<()> {
    let mut head = [0; 9];
    head[0] = kind as u8;
    head[1..].copy_from_slice(&(body.len() as u64).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(body)
}

/// Writes a value as a frame.
///
/// # Errors
/// The socket's, or that the value has no form in MessagePack.
pub fn write_value(to: &mut impl Write, kind: Kind, value: &impl Serialize) -> io::Result<()> {
    let body = rmp_serde::to_vec_named(value).map_err(io::Error::other)?;
    write(to, kind, &body)
}

/// Reads a frame of at most `bytes_max` bytes.
///
/// # Errors
/// The socket's, [`io::ErrorKind::UnexpectedEof`] at its end, or that it is no frame.
pub fn read(from: &mut impl Read, bytes_max: u64) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let kind = Kind::ALL.into_iter().find(|k| *k as u8 == head[0]);
    let kind = kind.ok_or_else(|| bad("a frame of unknown kind"))?;
    let mut length = [0; 8];
    length.copy_from_slice(&head[1..]);
    let length = u64::from_le_bytes(length);
    if length > bytes_max {
        return Err(bad("a frame over its limit"));
    }
    // Taken as it comes: a length that was only claimed costs no memory.
    let mut body = Vec::new();
    from.take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, body))
}

/// A value out of a frame.
///
/// # Errors
/// If it is none.
pub fn value<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(body).map_err(|error| bad(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_what_is_none() {
        let mut wire = Vec::new();
        write(&mut wire, Kind::Bytes, b"abc").unwrap();
        assert_eq!(read(&mut wire.as_slice(), 3).unwrap(), (Kind::Bytes, b"abc".to_vec()));
        assert!(read(&mut wire.as_slice(), 2).is_err(), "over the limit");
        for end in 0..wire.len() {
            assert!(read(&mut &wire[..end], 9).is_err(), "cut at {end}");
        }
        wire[0] = 77;
        assert!(read(&mut wire.as_slice(), 9).is_err());
        let huge = [2, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(read(&mut huge.as_slice(), u64::MAX).is_err(), "claims more than it has");
    }
}
