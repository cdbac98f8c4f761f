//! TLS: to servers, and, with a certificate authority of the site's own, to clients.
//!
//! ```text
//! forward ─▶ origin       verified at full strength; faults have names
//! interception ─▶ interceptor ─▶ certificates ─▶ authority    issued for what was verified
//!                             └▶ learned                      where decrypting does not work
//! inside                  requests of a decrypted tunnel, and where they go
//! ```

pub mod authority;
mod certificates;
mod error;
mod fault;
mod inside;
mod interceptor;
mod learned;
mod lru;
mod origin;
mod replay;

pub use error::TlsError;
pub(crate) use inside::{Inside, Route, Tunneled};
pub(crate) use interceptor::{ClientFailure, Interceptor};
pub(crate) use learned::Lesson;
pub(crate) use origin::{HTTP1, HTTP2, OriginTls, Protocols, Secured, Unsecured, Verified};
pub(crate) use replay::Replay;
