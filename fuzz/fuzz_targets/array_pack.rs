//! Packs of the array's log, as they come from a database. Run with `cargo +nightly fuzz run
//! array_pack`.

#![no_main]

#[path = "../../crates/array/tests/pack_bytes.rs"]
mod pack_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pack_bytes::read(bytes));
