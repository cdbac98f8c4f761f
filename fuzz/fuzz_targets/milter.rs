//! Any bytes as an MTA that speaks to its mail filter, as they are and as packets behind a
//! negotiation.
//!
//! `cargo +nightly fuzz run milter`

#![no_main]

#[path = "../../crates/smtp/tests/everything.rs"]
mod everything;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let piece = 1 + usize::from(input.first().copied().unwrap_or_default());
    everything::filter(input, piece);
    everything::filter(&everything::as_packets(input), piece);
});
