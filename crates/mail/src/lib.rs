//! One message, read once: headers, MIME tree, decoded text, URLs, relays, attachments, and the
//! anomalies found on the way.
//!
//! The crate is pure (no I/O, no clock), bounded (every depth, count and size has a named limit in
//! [`Limits`]) and never fails: whatever the bytes are, [`Message::parse`] returns a value, and
//! what was wrong with them is in [`Message::defects`].
//!
//! It also owns the words every other crate shares: [`Envelope`], [`Facts`], [`Hit`] and
//! [`Evidence`], because the rules that read them and the engine that reports them both stand on
//! this crate.

pub mod address;
mod ambiguity;
mod anomalies;
pub mod attachment;
pub mod auth_results;
pub mod authors;
pub mod charset;
pub mod date;
pub mod defect;
mod encoded_files;
pub mod encoding;
pub mod envelope;
pub mod evidence;
pub mod facts;
pub mod fields;
pub mod files;
pub mod header;
pub mod html;
pub mod limits;
pub mod message;
pub mod mime;
pub mod names;
pub mod network;
mod params;
mod part;
pub mod passwords;
pub mod readings;
pub mod relays;
pub mod trace;
mod tree;
pub mod url;
mod url_extraction;

pub use attachment::Attachment;
pub use defect::{Defect, DefectKind};
pub use encoded_files::EncodedFile;
pub use envelope::{Direction, Envelope, TlsSession};
pub use evidence::{Evidence, Hit, View};
pub use facts::Facts;
pub use gauntlet_sniff as file_kind;
pub use gauntlet_sniff::FileKind;
pub use gauntlet_suffix as public_suffix;
pub use header::Header;
pub use html::Rendered;
pub use limits::Limits;
pub use message::Message;
pub use mime::{ContentType, Disposition, TransferEncoding};
pub use names::NameKind;
pub use network::Network;
pub use part::{Part, PartText};
pub use relays::{Relay, TrustPath};
pub use url::{CanonicalUrl, Url, UrlSource, UrlTraits};
pub use url_extraction::named_hosts::NamedHost;
