//! SMTP (RFC 5321) with pipelining, BDAT and STARTTLS; messages by [`message`].
//!
//! A transaction is one message: it begins with the first command after the last one's end and is
//! done at the dot, at RSET's answer or when TLS begins.

mod decode;
mod event;
mod header;
mod lines;
pub mod message;
mod reply;
mod session;
mod table;
mod urls;

pub use header::Field;
pub(crate) use table::MODULE;

use crate::files::HashSettings;
pub use crate::settings::smtp::{Decoding, Settings};

/// What a session needs of all settings.
#[derive(Debug, Clone, Default)]
struct Configuration {
    smtp: Settings,
    hashes: HashSettings,
}
