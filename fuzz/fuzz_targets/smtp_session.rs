//! Any bytes as a conversation: the accepting and the sending side, commands, replies,
//! transparency.
//!
//! `cargo +nightly fuzz run smtp_session`

#![no_main]

#[path = "../../crates/smtp/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| everything::ask(input));
