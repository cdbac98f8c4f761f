//! Measuring: what the engine and a node cost, and load to measure them with.

pub mod machine;
pub mod scan;
pub mod size;
pub mod spamd;
pub mod usage;
