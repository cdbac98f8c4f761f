//! Any bytes as a frame: the first one chooses what it begins with.
//!
//! `cargo +nightly fuzz run packet_decode`

#![no_main]

#[allow(dead_code, reason = "each target feeds one of them")]
#[path = "../../crates/packet/tests/it/bytes.rs"]
mod packet_bytes;

use gauntlet_packet::Link;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((link, frame)) = input.split_first() else { return };
    let link = match link % 8 {
        0 => Link::Ethernet,
        1 => Link::Raw,
        2 => Link::Null,
        3 => Link::Loop,
        4 => Link::Ppp,
        5 => Link::Hdlc,
        6 => Link::LinuxCooked,
        _ => Link::LinuxCooked2,
    };
    packet_bytes::feed(&mut packet_bytes::decoder(), link, frame);
});
