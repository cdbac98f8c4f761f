//! Verdicts: a pool of threads, each with the current engine.

pub mod corrections;
pub mod data_loss;
pub mod engines;
pub mod good_mail;
pub mod good_signs;
pub mod judge;
pub mod probes;
pub mod scan_pool;
pub mod shadow;
pub mod unpacking;
