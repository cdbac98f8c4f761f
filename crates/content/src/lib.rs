//! Content: from any bytes to the tree of objects in them.
//!
//! A file is unpacked, what it holds is unpacked, and so on: each [`Object`] says what it is by its
//! bytes, what it is called, its hashes, its text and URLs, what a rule or a person may want to
//! know of it ([`Property`]), and what could not be read ([`ObjectDefect`]). Nothing here knows of
//! mail: what a message attaches, what a proxy fetches and what passes on the wire are all files.
//!
//! ```text
//! bytes ─▶ sniff ─▶ formats::decode ─▶ text, urls, properties
//!            ▲            │
//!            └── child ◀──┘         within Limits
//! ```
//!
//! Decoders never fail and never panic on purpose; one that does is a defect of its object.

mod budget;
mod digest;
pub mod disarm;
pub mod engines;
mod formats;
mod host;
mod limits;
pub mod process;
mod salvage;
pub mod sealed;
mod test_file;
mod text;
mod unpack;

pub use gauntlet_sniff::FileKind;
use gauntlet_sniff::object;
pub use gauntlet_sniff::object::{
    DefectKind, EngineReport, FoundUrl, Object, ObjectDefect, OnFailure, Property, PropertyKind,
    Tree, UrlSource,
};
pub use host::{Child, ConvertError, Host, NoHost, Root};
pub use limits::Limits;
pub use unpack::Password;

/// Unpacks files, and everything inside them. Never fails: what cannot be read is a defect of the
/// object where it lies. `passwords` are tried in their order on what is encrypted.
pub fn unpack(
    roots: &[Root<'_>],
    limits: &Limits,
    passwords: &[Password],
    host: &mut dyn Host,
) -> Tree {
    unpack::Unpacker::new(formats::decode, limits, passwords, host).run(roots)
}
