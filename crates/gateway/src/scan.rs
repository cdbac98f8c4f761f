//! Verdicts: a pool of threads, each with the engine of the moment.

pub mod corrections;
pub mod judge;
pub mod probes;
pub mod scan_pool;
pub mod unpacking;
