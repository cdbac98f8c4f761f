//! Any bytes as the files of a spool.
//!
//! `cargo +nightly fuzz run spool_reader`

#![no_main]

#[path = "../../crates/store/tests/spool_bytes.rs"]
mod spool_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| spool_bytes::ask(input));
