//! Any bytes as a channel's metadata, delta or manifest.
//!
//! `cargo +nightly fuzz run channel`

#![no_main]

#[path = "../../crates/channel/tests/channel_bytes.rs"]
mod channel_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| channel_bytes::feed(input));
