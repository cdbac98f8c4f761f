//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod migrations;
mod spool_bytes;
mod spool_walk;
