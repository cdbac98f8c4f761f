//! URL lists: read in the formats that others publish, compiled into one file that is mapped into
//! memory, and looked up by hash.
//!
//! ```text
//! files -> sources -> formats::Reader -> Entry -> compile -> file -> UrlList -> UrlLists::look_up
//! ```
//!
//! Everything is in the one canonical form of [`gauntlet_mail::url`], which mail and web share. A
//! match has its list, its category, its pattern, and the file and line that it comes from.
//!
//! - [`formats`] reads a file as it comes; what it cannot use is a [`problem`] with its place.
//! - [`compile()`] writes a compiled file in bounded memory, under a temporary name until it is
//!   whole.
//! - [`UrlList::open`] checks every byte of it once; [`UrlLists::look_up`] allocates nothing unless
//!   something matches.
//!
//! No network, no clock.

mod compile;
mod compiled;
pub mod entry;
pub mod formats;
mod forms;
pub mod limits;
mod lines;
mod list;
mod matches;
mod pattern;
pub mod problem;
mod regexes;
mod server_names;
pub mod sources;

pub use self::compile::{ReadReport, SourceReport, check, compile};
pub use self::compiled::{BuildError, Built, OpenError};
pub use self::list::{UrlList, UrlLists};
pub use self::matches::{Match, Matched, Matches, Origin, Role};
