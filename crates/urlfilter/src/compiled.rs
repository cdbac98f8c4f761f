//! The compiled form of a list: one file that is mapped into memory and asked by hash.
//!
//! ```text
//! header | records | strings | slots
//! ```
//!
//! A record is an entry: host, path, kind, options, category, file and line. A slot has 32 bits of
//! the hash of its record's key and the place of the record; slots stand in the order of their
//! hashes, each at its home or as soon behind it as there is room, so the table is written in one
//! go. A key is a host, or a host and a path. A host with prefixes has one more record, which says
//! what lengths they have: a look-up then hashes so many beginnings of the path, and no more.

mod hash;
mod layout;
mod map;
mod writer;

pub(crate) use self::hash::{host_hash, path_hash};
pub(crate) use self::layout::{Kind, Lengths, Record, is_boundary, label_bit};
pub use self::map::OpenError;
pub(crate) use self::map::{Map, MapInfo};
pub(crate) use self::writer::{Added, Writer};
pub use self::writer::{BuildError, Built};
