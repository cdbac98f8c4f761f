//! Any bytes as a list of phrases, and the page that it is tried on.
//!
//! `cargo +nightly fuzz run phrase_list`

#![no_main]

#[path = "../../crates/phrases/tests/list_bytes.rs"]
mod list_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| list_bytes::feed(input));
