//! Any bytes as a capture file, whose frames are decoded.
//!
//! `cargo +nightly fuzz run capture_file`

#![no_main]

#[allow(dead_code, reason = "each target feeds one of them")]
#[path = "../../crates/packet/tests/it/bytes.rs"]
mod packet_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| packet_bytes::feed_capture(input));
