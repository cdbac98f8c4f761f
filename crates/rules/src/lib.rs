//! The SpamAssassin rule language: read, check, compile, match, explain.
//!
//! ```text
//! .pre and .cf files -> language -> Ruleset -> scan(Document) -> Outcome
//!                                      |             |
//!                                   pattern       views, functions: those of a dialect
//!                                   meta          (crate `spamassassin`)
//! ```
//!
//! The crate is pure but for [`Ruleset::load`], which reads files; a scan reads no clock. What rules
//! see of an item is behind the trait [`Document`]; the functions that they call are behind
//! [`Functions`].

mod bounds;
mod demand;
pub mod document;
mod expression;
pub mod hash;
pub mod language;
mod matcher;
mod meta;
pub mod pattern;
mod program;
mod record_type;
pub mod rule;
pub mod ruleset;
pub mod settings;
mod stages;

pub use document::{Document, Function, Functions, Refused, Texts, Uri, UriDetail};
pub use language::{Problem, Severity};
pub use pattern::Pattern;
pub use record_type::RecordType;
pub use rule::{HeaderSelector, Rule};
pub use ruleset::{LoadError, LoadOptions, LoadReport, Outcome, Profile, RulesScratch, Ruleset};
pub use settings::Settings;
