//! Any bytes as the parts of a report to a sender.
//!
//! `cargo +nightly fuzz run reports`

#![no_main]

#[path = "../../crates/gateway/tests/reports_bytes.rs"]
mod reports_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| reports_bytes::ask(input));
