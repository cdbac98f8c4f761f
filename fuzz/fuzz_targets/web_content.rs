//! Any bytes as the body of a response, in every content coding and type.
//!
//! `cargo +nightly fuzz run web_content`

#![no_main]

#[path = "../../crates/proxy/tests/content_bytes.rs"]
mod content_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| content_bytes::feed(input));
