//! Any bytes as a DNS query, and as the answer of a resolver.
//!
//! `cargo +nightly fuzz run proxy_dns`

#![no_main]

#[path = "../../crates/proxy/tests/dns_bytes.rs"]
mod dns_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    dns_bytes::feed(input);
});
