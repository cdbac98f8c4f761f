//! The SpamAssassin rule language: read, check, compile, match, explain.
//!
//! ```text
//! .pre and .cf files -> language -> Ruleset -> scan(Document) -> Outcome
//!                                      |             |
//!                                   pattern       views, functions: those of a dialect
//!                                   meta          (crate `spamassassin`)
//! ```
//!
//! The crate has no side effects except in [`Ruleset::load`], which reads files; a scan reads no
//! clock. What rules see of an item is behind the trait [`Document`]; the functions that they call
//! are behind [`Functions`].

mod bounds;
pub mod document;
mod expression;
pub mod hash;
pub mod hit_rates;
pub mod language;
mod lazy_evaluator;
mod matcher;
mod meta;
pub mod native;
pub mod options;
pub mod pattern;
mod problem;
mod program;
mod record_type;
pub mod rule;
mod rules_matching;
pub mod ruleset;
mod scan;
pub mod settings;
mod stages;

pub use document::{CallError, Document, Function, Functions, Texts, UriDetail};
pub use hit_rates::{HitRates, HitRatesError};
pub use native::{NativeDocument, NoFunctions};
pub use options::{LoadOptions, Profile};
pub use pattern::Pattern;
pub use problem::{Problem, Severity};
pub use record_type::RecordType;
pub use rule::{HeaderSelector, Rule, Source};
pub use ruleset::{LoadError, LoadReport, Outcome, RulesScratch, Ruleset};
pub use settings::Settings;
