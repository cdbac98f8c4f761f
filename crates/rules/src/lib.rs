//! The SpamAssassin rule language: read, check, compile, match, explain.
//!
//! ```text
//! .pre and .cf files -> language -> Ruleset -> scan(Message, Envelope, Facts) -> Outcome
//!                                      |             |
//!                                   pattern       views (what rules see)
//!                                   meta          evals (rules that are code)
//! ```
//!
//! The crate is pure but for [`Ruleset::load`], which reads files. A scan reads no clock: the time is
//! an argument. Answers equal SpamAssassin 4.0.1's with `-L` (profile `local`), which is the oracle
//! that the tests compare with.

pub mod boundaries;
mod bounds;
mod demand;
pub mod evals;
mod expression;
mod hash;
pub mod language;
mod matcher;
mod meta;
pub mod pattern;
mod program;
pub mod questions;
pub mod rule;
pub mod ruleset;
pub mod settings;
mod stages;
pub mod views;

pub use evals::{Eval, EvalContext, EvalTables};
pub use language::{Problem, Severity};
pub use pattern::Pattern;
pub use questions::{About, Question, RecordType, Restrictions};
pub use rule::{HeaderSelector, Rule};
pub use ruleset::{LoadError, LoadOptions, LoadReport, Outcome, Profile, RulesScratch, Ruleset};
pub use settings::Settings;
pub use views::{TextViews, ViewSettings, Views};
