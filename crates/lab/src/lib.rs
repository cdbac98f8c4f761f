//! The laboratory: what makes and measures the parts of a verdict (model, points of rules,
//! settings), on labelled mail or on this machine. No node needs it; the command line calls it, one
//! module a subcommand: each has its arguments and a `run` that prints.

pub mod evaluate;
pub mod fit;
pub mod order;
pub mod parity;
pub mod profile;
pub mod train;
pub mod tune;
