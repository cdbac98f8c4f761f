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
//! * [`metrics`] says how good scores are, in the measures of the TREC spam tracks;
//! * [`random`] is the one source of chance, seeded, so that every figure can be had again.

pub mod features;
pub mod linear;
pub mod metrics;
pub mod online;
pub mod random;
