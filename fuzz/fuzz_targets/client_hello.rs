//! Any bytes as the begin of a TLS stream: as they are, and as a message in one record.
//!
//! `cargo +nightly fuzz run client_hello`

#![no_main]

#[path = "../../crates/proxy/tests/hello_bytes.rs"]
mod hello_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    hello_bytes::feed(input);
    // With right lengths, the fuzzer gets to what is inside sooner.
    let length = (input.len().min(0xffff) as u32).to_be_bytes();
    let message = [&[1], &length[1..], &input[..input.len().min(0xffff)]].concat();
    hello_bytes::feed(&hello_bytes::records(&message, 1 << 14));
});
