//! From a verdict to what is done: ordered rules that an administrator writes, pure and explainable.
//!
//! A [`Policy`] is a TOML file of rules; each has a direction, conditions as data (no code) and
//! actions. [`Policy::decide`] tries them in order for every recipient and returns one
//! [`Disposition`] each; [`Policy::explain`] does the same and says which condition decided.
//! [`rewrite::apply`] makes the changes that a disposition asks for.

mod bounds;
pub mod check;
pub mod condition;
pub mod decide;
pub mod diff;
pub mod edit;
pub mod file;
pub mod groups;
mod language;
pub mod pattern;
pub mod people;
pub mod replay;
pub mod rewrite;

pub use check::Finding;
pub use condition::Condition;
pub use decide::{Explanation, PolicyInput, Rates};
pub use file::{Policy, PolicyError, Rule};
pub use groups::Groups;
pub use people::People;
