//! Any bytes as SPF, DKIM and DMARC records, as macros and as headers.
//!
//! `cargo +nightly fuzz run facts_records`

#![no_main]

#[path = "../../crates/gateway/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| everything::ask(input));
