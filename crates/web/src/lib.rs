//! Web requests as items: the plain types that proxy, policy, log and settings share.
//!
//! ```text
//! proxy ─▶ WebItem (facts) ─▶ policy ─▶ WebDisposition ─▶ proxy ─▶ WebRecord ─▶ store
//! ```
//!
//! No I/O, no clock, no HTTP: who makes a [`WebItem`] has read the request.

mod disposition;
mod item;
pub mod pac;
mod record;
pub mod release;
pub mod settings;

pub use self::disposition::{WebAction, WebChange, WebDisposition};
pub use self::item::{Listed, RequestKind, WebItem, WebResponse};
pub use self::record::{WebListed, WebOutcome, WebRecord};
pub use self::release::{RELEASED_ACTION, RELEASED_RULE};

/// What the URL of a DNS query begins with in logs (RFC 4501): `dns:example.com?type=A`.
pub const DNS_SCHEME: &str = "dns:";

/// Paths, on any site, that are pages of the proxy's own: forms are sent there.
pub const OWN_PATHS: &str = "/.well-known/gauntlet/";
