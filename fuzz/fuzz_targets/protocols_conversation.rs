//! Any bytes as a conversation of any protocol.
//!
//! `cargo +nightly fuzz run protocols_conversation`

#![no_main]

#[path = "../../crates/protocols/tests/conversation_bytes.rs"]
mod conversation_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| conversation_bytes::play(input));
