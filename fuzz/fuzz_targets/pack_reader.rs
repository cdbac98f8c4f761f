//! Any bytes as a pack.
//!
//! `cargo +nightly fuzz run pack_reader`

#![no_main]

#[path = "../../crates/store/tests/pack_bytes.rs"]
mod pack_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| pack_bytes::ask(input));
