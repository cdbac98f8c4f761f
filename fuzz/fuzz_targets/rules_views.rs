//! Any bytes as a message, as SpamAssassin's rules see it: nothing panics.
//!
//! `cargo +nightly fuzz run rules_views fuzz/corpus/rules_views crates/mail/tests/nasty`

#![no_main]

#[path = "../../crates/spamassassin/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|raw: &[u8]| everything::views(raw));
