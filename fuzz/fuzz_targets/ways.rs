//! Any bytes as a message over every way in: what is judged equals what is sent.
//!
//! `cargo +nightly fuzz run ways`

#![no_main]

#[path = "../../crates/gateway/tests/ways_bytes.rs"]
mod ways_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ways_bytes::ask(input));
