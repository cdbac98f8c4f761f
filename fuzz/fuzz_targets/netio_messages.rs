//! Any bytes as a block of a ring, as control messages and as messages of netlink.
//!
//! `cargo +nightly fuzz run netio_messages`

#![no_main]

#[path = "../../crates/netio/tests/it/bytes.rs"]
mod netio_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netio_bytes::feed(input));
