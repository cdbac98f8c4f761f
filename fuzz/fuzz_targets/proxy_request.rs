//! Any bytes as what a client sends to the proxy, explicit and transparent.
//!
//! `cargo +nightly fuzz run proxy_request fuzz/corpus/proxy_request crates/proxy/tests/smuggling`

#![no_main]

#[path = "../../crates/proxy/tests/request_bytes.rs"]
mod request_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    request_bytes::feed(input);
});
