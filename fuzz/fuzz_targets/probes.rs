//! Any bytes as what mail to probes named, as domains of good mail, and as hits of rules.
//!
//! `cargo +nightly fuzz run probes`

#![no_main]

#[path = "../../crates/learning/tests/probes_bytes.rs"]
mod probes_bytes;

use gauntlet_rules::HitRates;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    probes_bytes::feed(input);
    if let Ok(rates) = HitRates::parse(&String::from_utf8_lossy(input)) {
        assert_eq!(HitRates::parse(&rates.to_string()), Ok(rates));
    }
});
