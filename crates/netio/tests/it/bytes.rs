//! Any bytes as what a kernel hands over, for tests and the fuzz target.

use gauntlet_netio::parse;
use gauntlet_packet::Link;

/// Reads them in every way. What is found is within the bytes.
pub(crate) fn feed(bytes: &[u8]) {
    parse::control(bytes);
    parse::packets(bytes, &mut |packet| assert!(packet.payload.len() <= bytes.len()));
    for (link, is_loopback) in [(Link::Ethernet, true), (Link::Raw, false)] {
        parse::walk_block(bytes, link, is_loopback, &mut |received| {
            // A VLAN tag is put back.
            assert!(received.frame.bytes.len() <= bytes.len() + 4);
        });
    }
}
