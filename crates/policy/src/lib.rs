//! From a verdict to what is done: ordered rules an administrator writes, pure and explainable.

pub mod disposition;

pub use disposition::{Change, Disposition, Final, Trace};
