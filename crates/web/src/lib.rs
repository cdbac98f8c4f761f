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
pub mod settings;

pub use self::disposition::{WebAction, WebChange, WebDisposition};
pub use self::item::{Listed, RequestKind, WebItem, WebResponse};
pub use self::record::{WebOutcome, WebRecord};
