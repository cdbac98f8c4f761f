//! Any bytes as what an ICAP client sends: headers, encapsulated HTTP headers, chunks.
//!
//! `cargo +nightly fuzz run icap`

#![no_main]

#[path = "../../crates/proxy/tests/icap_bytes.rs"]
mod icap_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| icap_bytes::feed(input));
