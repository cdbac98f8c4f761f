//! Any bytes as a list in every format, compiled and asked; and any bytes as a compiled list.
//!
//! `cargo +nightly fuzz run url_lists`

#![no_main]

#[path = "../../crates/urlfilter/tests/list_bytes.rs"]
mod list_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| list_bytes::feed(input));
