//! Measuring: what the engine and a node cost, and load to measure them with.

pub mod usage;
