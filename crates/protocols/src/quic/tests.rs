use super::{MODULE, keys};
use crate::parser::{Guess, Outcome};
use crate::protocol::Carrier::Udp;
use crate::testing::{DOWN, UP, events, guess, play, text, walk};

/// A client's hello with a host's name and one group.
fn hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 4, 0x13, 0x01, 0x13, 0x02, 1, 0]);
    let extensions = [
        &[0, 0, 0, 9, 0, 7, 0, 0, 4][..],
        b"host",
        &[0, 10, 0, 4, 0, 2, 0, 29],
        &[0, 43, 0, 3, 2, 3, 4],
    ]
    .concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    message
}

fn crypto(offset: u8, data: &[u8]) -> Vec<u8> {
    [&[6, offset, 0x40, data.len() as u8][..], data].concat()
}

/// An initial packet of the client with these frames, sealed.
fn initial(version: u32, frames: &[u8]) -> Vec<u8> {
    let first = if version == super::header::V2 { 0xd0 } else { 0xc0 };
    let mut packet = vec![first];
    packet.extend(version.to_be_bytes());
    packet.extend([4, 1, 2, 3, 4, 0, 0]);
    let mut frames = frames.to_vec();
    frames.resize(frames.len().max(40), 0);
    packet.extend((0x4000 | (frames.len() as u16 + 17)).to_be_bytes());
    keys::seal(version, &[1, 2, 3, 4], &packet, &frames)
}

#[test]
fn a_hello_is_read() {
    for (version, bytes) in [(1, b"\0\0\0\x01"), (super::header::V2, b"\x6b\x33\x43\xcf")] {
        let packet = initial(version, &crypto(0, &hello()));
        let (parser, outcome) = play(&MODULE, Udp, &[(UP, &packet)]);
        assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
        let parser = parser.as_ref();
        assert_eq!(text(parser, 0, "quic.sni", 0).as_deref(), Some(&b"host"[..]));
        assert_eq!(text(parser, 0, "quic.version", 0).as_deref(), Some(&bytes[..]));
        let ja3 = text(parser, 0, "ja3.string", 0);
        assert_eq!(ja3.as_deref(), Some(&b"771,4865-4866,0-10-43,29,"[..]));
        let ja4 = text(parser, 0, "ja4.hash", 0).expect("it is a client's");
        assert!(ja4.starts_with(b"q13d020300_"), "{}", String::from_utf8_lossy(&ja4));
        assert_eq!(events(&MODULE, parser, 0), [""; 0]);
    }
}

#[test]
fn a_hello_may_come_in_pieces() {
    let (head, tail) = (hello()[..20].to_vec(), hello()[20..].to_vec());
    let first = initial(1, &crypto(20, &tail));
    let second = initial(1, &crypto(0, &head));
    let (parser, outcome) = play(&MODULE, Udp, &[(UP, &first), (UP, &second)]);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 2));
    assert_eq!(text(parser.as_ref(), 0, "quic.sni", 0), None);
    assert_eq!(text(parser.as_ref(), 1, "quic.sni", 0).as_deref(), Some(&b"host"[..]));
    // The rest is encrypted with other keys.
    let pieces = [(UP, &first[..]), (UP, &second[..]), (UP, &first[..])];
    assert_eq!(play(&MODULE, Udp, &pieces).0.count(), 2);
}

#[test]
fn what_cannot_be_opened_is_an_event() {
    let mut packet = initial(1, &crypto(0, &hello()));
    let last = packet.len() - 1;
    packet[last] ^= 1;
    let (parser, outcome) = play(&MODULE, Udp, &[(UP, &packet)]);
    assert_eq!(outcome, Outcome::Failed);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["failed_decrypt"]);
    let (parser, _) = play(&MODULE, Udp, &[(UP, &initial(1, &crypto(0, b"\x0b\0\0\0")))]);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["error_on_data"]);
}

/// Version 46 of Google with tags in the clear.
fn google() -> Vec<u8> {
    let mut packet = vec![0xc0];
    packet.extend(b"Q046\x50");
    packet.extend([9; 8]);
    packet.extend([0; 16]);
    let message = b"CHLO\x02\0\0\0SNI\0\x04\0\0\0UAID\x07\0\0\0hostcli";
    packet.extend([0xa0, 1, 0, message.len() as u8]);
    packet.extend(message);
    packet.extend([0; 5]);
    packet
}

#[test]
fn tags_of_google_are_fingerprints() {
    let (parser, outcome) = play(&MODULE, Udp, &[(UP, &google())]);
    assert_eq!(outcome, Outcome::Done);
    let parser = parser.as_ref();
    assert_eq!(text(parser, 0, "quic.sni", 0).as_deref(), Some(&b"host"[..]));
    assert_eq!(text(parser, 0, "quic.ua", 0).as_deref(), Some(&b"cli"[..]));
    assert_eq!(text(parser, 0, "quic.cyu.string", 0).as_deref(), Some(&b"46,SNI-UAID"[..]));
    assert_eq!(text(parser, 0, "quic.cyu.hash", 0).map(|hash| hash.len()), Some(32));
    walk(&MODULE, Udp, &[(UP, &google())]);
}

#[test]
fn what_is_recognised() {
    assert_eq!(guess(&MODULE, Udp, UP, &google()), Guess::Yes);
    assert_eq!(guess(&MODULE, Udp, UP, &google()[..12]), Guess::No);
    assert_eq!(guess(&MODULE, Udp, DOWN, &[0x40, 1, 2]), Guess::Yes);
}

#[test]
fn sealed_packets_may_be_cut() {
    let packet = initial(1, &crypto(0, &hello()));
    walk(&MODULE, Udp, &[(UP, &packet)]);
}
