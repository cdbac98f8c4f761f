//! Any bytes as a file of Suricata's rules.
//!
//! `cargo +nightly fuzz run ids_rules`

#![no_main]

#[path = "../../crates/ids/tests/it/ask.rs"]
#[allow(dead_code, reason = "two targets share it")]
mod ask;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ask::rules(input));
