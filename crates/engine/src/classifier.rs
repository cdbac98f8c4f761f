//! The classifier: what it looks at, how it learns, and how good it is.
//!
//! Everything here is linear in hashed binary features: a message becomes a set of numbers, each
//! the hash of something it has (four bytes of its header, two words of its text near each other,
//! ...), and its score is a sum of weights found under those numbers. That makes learning from one
//! message as cheap as judging one, a model a plain table, and a score explainable feature by
//! feature.
//!
//! * [`features`] turns bytes into a set of hashes, without repetition;
//! * [`linear`] learns weights: logistic regression (the baseline) and AROW;
//! * [`online`] is the filter that learns from a stream of mail with corrections;
//! * [`extraction`] says what of a parsed message the shipped model may look at, and what not;
//! * [`model`] is that model: its file, its score, and what pushed the score;
//! * [`training`] makes it; [`crate::site_model`] is what a site's corrections put on top;
//! * [`metrics`] says how good scores are, in the measures of the TREC spam tracks.

pub mod extraction;
pub mod features;
pub mod group;
mod group_score;
pub mod linear;
pub mod metrics;
pub mod model;
pub mod online;
mod scratch;
mod tokens;
pub mod training;

pub use model::{Classification, Contribution, Model, ModelError};
pub use scratch::ClassifierScratch;
