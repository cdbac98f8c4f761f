//! Any bytes as a session with a service of a real node.
//!
//! `cargo +nightly fuzz run services fuzz/corpus/services crates/gateway/tests/sessions`

#![no_main]

#[path = "../../crates/gateway/tests/services_bytes.rs"]
mod services_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| services_bytes::ask(input));
