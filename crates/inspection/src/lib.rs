//! What packets carry, given to what judges mail, files and web requests: a message, a file or a
//! request on the wire gets the verdict that the mail and web paths would give it.
//!
//! ```text
//! pipeline ─▶ Inspector ─▶ mail:  whole messages ─▶ JudgeMail
//!  (ids)       (Finder)    web:   requests, TLS and DNS names ─▶ proxy's Judge
//!                                 responses ─▶ its Inspect (words, types, scanner)
//!                          files: of other protocols ─▶ ScanDownload
//!                  └─▶ records of type `gauntlet`; whether the flow is dropped
//! ```
//!
//! Nothing is judged here. The pipeline's thread waits for each verdict: inline, a packet goes on
//! only when what it completes was judged.

mod action;
mod files;
mod headers;
mod inspector;
mod mail;
mod settings;
mod web;

/// Limits of whole messages.
pub use gauntlet_protocols::mail::Settings as MailLimits;
pub use inspector::{Inspector, Parts};
pub use mail::JudgeMail;
pub use settings::{Kinds, Settings};
