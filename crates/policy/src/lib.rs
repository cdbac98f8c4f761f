//! From a verdict to what is done: ordered rules that an administrator writes, pure and
//! explainable.
//!
//! A [`Policy`] is a TOML file of rules; each has a direction, conditions as data (no code) and
//! actions. [`Policy::decide`] tries them in order for every recipient and returns one
//! [`Disposition`] each; [`Policy::explain`] does the same and says which condition decided.
//! [`rewrite::apply`] makes the changes that a disposition asks for. [`packets`] has rules of its
//! own: they decide about flows, by their first packet.

mod bounds;
mod bytes;
mod check;
pub mod condition;
pub mod data_condition;
mod data_rules;
pub mod decide;
pub mod diff;
pub mod edit;
mod evaluation;
pub mod file;
pub mod finding;
pub mod groups;
pub mod input;
mod language;
pub mod listed;
pub mod objects;
pub mod packets;
pub mod pattern;
pub mod people;
mod placeholders;
mod removals;
pub mod replay;
pub mod rewrite;
pub mod rule;
mod rule_names;
pub mod suggestion;
mod three_valued;
pub mod web;
pub mod web_rules;

pub use condition::Condition;
pub use decide::Explanation;
pub use file::Policy;
pub use finding::{Finding, PolicyError};
pub use gauntlet_smtp::address::is_mailbox;
pub use groups::Groups;
pub use input::{PolicyInput, Rates};
pub use people::People;
pub use removals::is_folder_name;
pub use rule::Rule;
