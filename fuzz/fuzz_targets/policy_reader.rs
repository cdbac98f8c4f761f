//! Any text as a policy: read or refused with a reason, and what was read decides.
//!
//! `cargo +nightly fuzz run policy_reader fuzz/corpus/policy_reader rules`

#![no_main]

#[path = "../../crates/policy/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| everything::ask(text));
