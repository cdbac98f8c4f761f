//! Any bytes as a message: nothing panics, and every promise of the views holds.
//!
//! `cargo +nightly fuzz run message fuzz/corpus/message crates/mail/tests/nasty`

#![no_main]

#[path = "../../crates/mail/tests/everything.rs"]
mod everything;

use gauntlet_mail::{Limits, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &[u8]| {
    everything::ask(raw, &Limits::default());
    // Of every message, not of ambiguous ones alone.
    Message::parse(raw).readings();
});
