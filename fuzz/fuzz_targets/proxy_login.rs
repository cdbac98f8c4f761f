//! Any bytes as what a client says it is (`Proxy-Authorization`).
//!
//! `cargo +nightly fuzz run proxy_login fuzz/corpus/proxy_login`

#![no_main]

#[path = "../../crates/proxy/tests/login_bytes.rs"]
mod login_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    login_bytes::feed(input);
});
