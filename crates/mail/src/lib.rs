//! One message, read once: headers, MIME tree, decoded text, URLs, relays, attachments, and the
//! oddities found on the way.
//!
//! The crate is pure (no I/O, no clock), bounded (every depth, count and size has a named limit in
//! [`Limits`]) and never fails: whatever the bytes are, [`Message::parse`] returns a value, and what
//! was wrong with them is in [`Message::defects`].
//!
//! It also owns the words every other crate shares: [`Envelope`], [`Facts`], [`Hit`] and
//! [`Evidence`], because the rules that read them and the engine that reports them both stand on
//! this crate.

pub mod address;
mod ambiguity;
pub mod attachment;
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
pub mod header;
pub mod html;
pub mod limits;
pub mod message;
pub mod mime;
pub mod names;
mod oddities;
mod params;
mod part;
pub mod relays;
pub mod trace;
mod tree;
pub mod url;

pub use attachment::{Attachment, FileKind};
pub use defect::{Defect, DefectKind};
pub use encoded_files::EncodedFile;
pub use envelope::{Direction, Envelope, TlsSession};
pub use evidence::{Evidence, Hit, View};
pub use facts::Facts;
pub use header::Header;
pub use html::Rendered;
pub use limits::Limits;
pub use message::{Message, Part, PartText};
pub use mime::{ContentType, Disposition, TransferEncoding};
pub use names::NameKind;
pub use relays::{Network, Relay, TrustPath};
pub use url::bare::Named;
pub use url::{CanonicalUrl, Url, UrlSource, UrlTraits};
