//! Any bytes as a message over every way in: what is judged equals what is sent.
//!
//! `cargo +nightly fuzz run ingress`

#![no_main]

#[path = "../../crates/gateway/tests/ingress_bytes.rs"]
mod ingress_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ingress_bytes::ask(input));
