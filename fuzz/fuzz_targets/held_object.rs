//! Any bytes as the record of a held body in an array's object.
//!
//! `cargo +nightly fuzz run held_object`

#![no_main]

#[path = "../../crates/array/tests/bodies_bytes.rs"]
mod bodies_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| bodies_bytes::ask(input));
