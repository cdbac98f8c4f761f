//! The gauntlet: filters that a parsed item runs through, and the verdict they come to.
//!
//! CPU only: no I/O, no clock but the timing of filters, no async. Given the same item, facts and
//! [`Snapshot`], [`scan`] returns the same class, score, hits, evidence and defects byte for byte, on
//! any number of threads; only [`costs`](gauntlet_verdict::Verdict::costs) differ.

pub mod classifier;
mod counterfactual;
pub mod filter;
pub mod filters;
pub mod fusion;
pub mod lexicon;
pub mod lookalike;
pub mod own_rules;
mod readings;
pub mod rulebook;
pub mod scan;
pub mod signatures;
pub mod snapshot;
pub mod unscannable;

pub use filter::{Filter, Findings, Item};
pub use rulebook::{Lean, Rule, RuleBook};
pub use scan::{Scratch, scan};
pub use snapshot::{FailAction, Learned, Settings, Snapshot};
