//! Measuring: what the engine and a node cost, and load to measure them with.

pub mod compare;
pub mod load;
pub mod machine;
pub mod null;
pub mod plot;
pub mod process;
pub mod scan;
pub mod sink;
pub mod size;
pub mod spamd;
pub mod usage;
