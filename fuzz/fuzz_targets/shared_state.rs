//! Batches of shared state, as they come from an array's database. Run with `cargo +nightly fuzz
//! run shared_state`.

#![no_main]

use gauntlet_gateway::inbound::rate_limiter::sharing as rates;
use gauntlet_learning::{corrections, signatures};
use gauntlet_store::history::sharing::{decode_senders, decode_triplets};
use libfuzzer_sys::fuzz_target;

fn feed(bytes: &[u8]) {
    let _none_if_damaged = (decode_senders(bytes), decode_triplets(bytes), rates::decode(bytes));
    let _none_if_damaged =
        (corrections::sharing::decode(bytes), signatures::sharing::decode(bytes));
}

fuzz_target!(|bytes: &[u8]| {
    feed(bytes);
    if let Some(plain) = gauntlet_array::state::unpack(bytes) {
        feed(&plain);
    }
});
