//! Any bytes as a stream of SMTP with its messages.
//!
//! `cargo +nightly fuzz run smtp_wire`

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/protocols/tests/wire_bytes.rs"]
mod wire_bytes;

use gauntlet_protocols::Protocol;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wire_bytes::stream(Protocol::Smtp, 25, input));
