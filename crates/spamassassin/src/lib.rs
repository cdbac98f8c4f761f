//! SpamAssassin's dialect of the rule language: what its rules see of a message, and its eval
//! functions.
//!
//! ```text
//! gauntlet_rules::Ruleset ── asks ──▶ document (Document) ──▶ views  (rendered as SpamAssassin
//! does)
//!                                                        └──▶ evals  (rules that are code)
//! ```
//!
//! Answers equal SpamAssassin 4.0.1's with `-L` (profile `local`), which is the oracle that the
//! tests compare with. Nothing here reads a clock: the time is an argument.

pub mod boundaries;
mod document;
pub mod evals;
pub mod questions;
mod ruleset;
mod tags;
pub mod views;

pub use evals::{Eval, EvalContext, EvalTables};
pub use questions::{About, Question, Restrictions};
pub use ruleset::{RulesScratch, Ruleset};
pub use views::{TextViews, ViewSettings, Views};
