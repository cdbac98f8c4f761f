//! Measuring: what the engine and a node cost, and load to measure them with.

pub mod commands;
pub mod compare;
pub mod disk;
mod histogram;
pub mod http;
pub mod learners;
pub mod load;
pub mod machine;
pub mod null;
pub mod packets;
pub mod plot;
pub mod process;
pub mod protocol;
pub mod report;
pub mod scan;
pub mod sink;
pub mod size;
pub mod spamd;
pub mod store;
pub mod token_bucket;
pub mod topology;
pub mod tune;
pub mod urls;
pub mod usage;
pub mod web;
