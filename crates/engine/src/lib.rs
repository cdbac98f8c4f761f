//! The scan engine: filters that a parsed message runs through, and their verdict.
//!
//! CPU only: no I/O, no clock but the timing of filters, no async. Given the same item, facts and
//! [`Snapshot`], [`scan`] returns the same class, score, hits, evidence and defects byte for byte,
//! on any number of threads; only [`costs`](gauntlet_verdict::Verdict::costs) differ.

pub mod classifier;
pub mod corrections;
mod counterfactual;
pub mod file_scan;
pub mod filter;
pub mod filters;
pub mod fusion;
mod learned;
pub mod learning;
pub mod lexicon;
pub mod lookalike;
mod object_texts;
pub mod own_rules;
mod parser_differentials;
pub mod random;
pub mod rule_registry;
pub mod scan;
mod scratch;
pub mod shared_hosts;
pub mod signatures;
pub mod site_model;
pub mod snapshot;
pub mod unscannable;

pub use filter::{Filter, Findings, Item};
pub use filters::url_lists::{MailUrlLists, UrlListMeaning};
pub use learned::Learned;
pub use rule_registry::{Rule, RuleEffect, RuleRegistry};
pub use scan::scan;
pub use scratch::Scratch;
pub use site_model::SiteModel;
pub use snapshot::{FailAction, Settings, Snapshot};
