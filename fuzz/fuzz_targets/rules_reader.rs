//! Any bytes as a rule file: nothing panics, every problem says something, and what was read can be
//! run.
//!
//! `cargo +nightly fuzz run rules_reader`

#![no_main]

#[path = "../../crates/spamassassin/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| everything::reader(text));
