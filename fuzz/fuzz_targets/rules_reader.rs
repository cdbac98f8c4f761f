//! Any bytes as a rule file: nothing panics, and every problem says something.
//!
//! `cargo +nightly fuzz run rules_reader`

#![no_main]

use gauntlet_rules::{LoadOptions, Ruleset};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok((_, report)) = Ruleset::from_bytes(text, &LoadOptions::default()) {
        assert!(report.problems.iter().all(|p| !p.message.is_empty()));
    }
});
