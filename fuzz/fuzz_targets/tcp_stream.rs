//! Any segments of one conversation, with any settings and a contrary protocol layer.
//!
//! `cargo +nightly fuzz run tcp_stream`

#![no_main]

#[path = "../../crates/packet/tests/it/stream_bytes.rs"]
mod stream_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| stream_bytes::feed(input));
