//! Any bytes as the answers of a PostgreSQL server.
//!
//! `cargo +nightly fuzz run postgres fuzz/corpus/postgres crates/gateway/tests/postgres`

#![no_main]

#[path = "../../crates/gateway/tests/postgres_bytes.rs"]
mod postgres_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| postgres_bytes::ask(input));
