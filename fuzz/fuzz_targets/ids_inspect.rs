//! Any bytes under any rule, cut at the first zero byte.
//!
//! `cargo +nightly fuzz run ids_inspect`

#![no_main]

#[path = "../../crates/ids/tests/it/ask.rs"]
#[allow(dead_code, reason = "two targets share it")]
mod ask;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ask::inspect(input));
