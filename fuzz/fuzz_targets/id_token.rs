//! Any bytes as a provider's keys, an id_token and its claims.
//!
//! `cargo +nightly fuzz run id_token fuzz/corpus/id_token crates/console/tests/id_tokens`

#![no_main]

#[path = "../../crates/console/tests/id_token_bytes.rs"]
mod id_token_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| id_token_bytes::ask(input));
