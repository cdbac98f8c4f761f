//! Any bytes as a tunnel's file, as datagrams of a peer and as packets for one.
//!
//! `cargo +nightly fuzz run tunnel`

#![no_main]

#[path = "../../crates/tunnel/tests/it/bytes.rs"]
mod bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bytes::feed(input));
