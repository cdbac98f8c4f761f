//! Any text as a packet policy: read or refused with a reason, and what was read decides and is
//! explained alike.
//!
//! `cargo +nightly fuzz run packet_policy`

#![no_main]

#[path = "../../crates/policy/tests/packets.rs"]
mod packets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| packets::ask(text));
