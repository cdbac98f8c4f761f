//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod migrations;
mod pack_bytes;
mod pack_walk;
mod spool_bytes;
mod spool_walk;
