//! The classifier: what it looks at, how it learns, and how good it is.
//!
//! Everything here is linear in hashed binary features: a message becomes a set of numbers, each the
//! hash of something it has (four bytes of its header, two words of its text near each other, ...),
//! and its score is a sum of weights found under those numbers. That makes learning from one message
//! as cheap as judging one, a model a plain table, and a score explainable feature by feature.
//!
//! * [`features`] turns bytes into a set of hashes, without repetition;
//! * [`linear`] learns weights: logistic regression (the baseline) and AROW;
//! * [`online`] is the filter that learns from a stream of mail with corrections;
//! * [`reading`] says what of a parsed message the shipped model may look at, and what not;
//! * [`model`] is that model: its file, its score, and what pushed the score;
//! * [`training`] makes it; [`site`] is what a site's corrections put on top;
//! * [`metrics`] says how good scores are, in the measures of the TREC spam tracks;
//! * [`random`] is the one source of chance, seeded, so that every figure can be had again.

pub mod features;
pub mod linear;
pub mod metrics;
pub mod model;
pub mod online;
pub mod random;
pub mod reading;
mod scratch;
mod share;
pub mod site;
pub mod training;

pub use model::{Classification, Model, ModelError, Push};
pub use scratch::ClassifierScratch;
pub use site::SiteModel;
