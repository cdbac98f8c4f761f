//! Any bytes as a message that the console shows.
//!
//! `cargo +nightly fuzz run console_preview fuzz/corpus/console_preview
//! crates/console/tests/previews`

#![no_main]

#[path = "../../crates/console/tests/preview_bytes.rs"]
mod preview_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| preview_bytes::ask(input));
