//! TLS: to servers, and, with a certificate authority of the site's own, to clients.
//!
//! ```text
//! forward ─▶ origin       verified at full strength; faults have names
//!            └▶ revocation           lists of certificates that were taken back
//! interception ─▶ interceptor ─▶ certificates ─▶ authority    issued for what was verified
//!                             └▶ learned                      where decrypting does not work
//! listener                the certificate of an explicit proxy itself
//! inside                  requests of a decrypted tunnel, and where they go
//! ```

pub mod authority;
mod certificates;
mod error;
mod fault;
mod inside;
mod interceptor;
mod learned;
mod listener;
mod lru;
mod origin;
mod replay;
mod revocation;

pub use error::TlsError;
pub(crate) use inside::{Inside, Route, Tunneled};
pub(crate) use interceptor::{ClientFailure, Interceptor};
pub(crate) use learned::Lesson;
pub use listener::ListenerCertificate;
pub(crate) use listener::with_protocols;
pub use origin::OriginTrust;
pub(crate) use origin::{HTTP1, HTTP2, OriginTls, Protocols, Secured, Unsecured, Verified};
pub(crate) use replay::Replay;
/// TLS of listeners.
pub use tokio_rustls::rustls::ServerConfig;
