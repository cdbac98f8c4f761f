//! Any bytes as a message with ARC sets.
//!
//! `cargo +nightly fuzz run arc fuzz/corpus/arc crates/gateway/tests/arc`

#![no_main]

#[path = "../../crates/gateway/tests/arc_bytes.rs"]
mod arc_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| arc_bytes::ask(input));
