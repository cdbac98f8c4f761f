//! TLS as rules see it.

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_protocols::Carrier;

use super::talk::Talk;

/// A hello of TLS 1.2 for a.example with two suites and ALPN.
pub(super) const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x5c\x01\x00\x00\x58\x03\x03\
    0123456789abcdef0123456789abcdef\x00\x00\x04\x13\x01\xc0\x2f\x01\x00\x00\x2b\
    \x00\x00\x00\x0e\x00\x0c\x00\x00\x09a.example\
    \x00\x0a\x00\x04\x00\x02\x00\x1d\
    \x00\x0b\x00\x02\x01\x00\
    \x00\x10\x00\x07\x00\x05\x02h2\x01a";
pub(super) const SERVER_HELLO: &[u8] = b"\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03\
    fedcba9876543210fedcba9876543210\x00\xc0\x2f\x00";

#[test]
fn a_hello_has_its_name_and_version() {
    let mut talk = Talk::tcp(443);
    talk.say(ToServer, CLIENT_HELLO).say(ToClient, SERVER_HELLO);
    assert_eq!(talk.protocol(), "tls");
    assert_eq!(talk.texts(0, "tls.sni", ToServer), ["a.example"]);
    assert_eq!(talk.field(0, "tls.version").as_deref(), Some("TLS 1.2"));
    assert!(talk.events(0).is_empty());
}

#[test]
fn a_hello_may_come_in_any_pieces_and_records() {
    // Its handshake in four records.
    let body = CLIENT_HELLO.get(5..).expect("it is longer");
    let mut bytes = Vec::new();
    for piece in body.chunks(23) {
        bytes.extend_from_slice(&[0x16, 3, 1, 0, piece.len() as u8]);
        bytes.extend_from_slice(piece);
    }
    for size in [1000, 100, 3, 1] {
        let mut talk = Talk::tcp(443);
        for piece in bytes.chunks(size) {
            talk.say(ToServer, piece);
        }
        assert_eq!(talk.texts(0, "tls.sni", ToServer), ["a.example"], "pieces of {size}");
    }
}

#[test]
fn fingerprints_are_made_on_request() {
    let mut talk = Talk::new(Carrier::Tcp, 443, &[("tls.ja3-fingerprints", "yes")]);
    talk.say(ToServer, CLIENT_HELLO);
    let string = talk.texts(0, "ja3.string", ToServer);
    assert_eq!(string, ["771,4865-49199,0-10-11-16,29,0"]);
    let mut talk = Talk::tcp(443);
    talk.say(ToServer, CLIENT_HELLO);
    assert!(talk.texts(0, "ja3.string", ToServer).is_empty());
}

#[test]
fn broken_records_are_events() {
    let mut talk = Talk::tcp(443);
    let mut bytes = CLIENT_HELLO.to_vec();
    bytes.extend_from_slice(b"\x16\x07\x07\x00\x01a");
    talk.say(ToServer, &bytes);
    assert!(!talk.events(0).is_empty());
}
