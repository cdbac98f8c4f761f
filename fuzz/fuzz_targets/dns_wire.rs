//! Any bytes as messages that stand alone (DNS, SIP, MQTT, LDAP).
//!
//! `cargo +nightly fuzz run dns_wire`

#![no_main]

#[allow(dead_code, reason = "each target feeds one of them")]
#[path = "../../crates/protocols/tests/wire_bytes.rs"]
mod wire_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wire_bytes::messages(input));
