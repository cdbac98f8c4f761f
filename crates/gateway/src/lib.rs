//! A node: receiver, scan pool, dispose, sender; `node` wires all.

pub mod config;
