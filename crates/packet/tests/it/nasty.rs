//! Whatever comes in: no panic, no endless loop, and what is told fits the bytes.

use gauntlet_packet::Link;

use crate::build::{ethernet, frame, hex, icmp, ipv4, ipv4_with, ipv6, tcp, tcp_with, udp, vlan};
use crate::bytes::{decoder, feed, feed_capture, feed_fragments};

fn corpus() -> Vec<(Link, Vec<u8>)> {
    let ip = ipv4(6, &tcp_with(&hex("020405b4 0402 080a 00000007 00000009 01 030307 0000"), b"x"));
    let extensions = hex("3c 00 0104 00000000   2b 00 0502 0000 0100   33 00 02 00 00000000
         06 02 0000 00000001 00000002 00000003");
    let six = ipv6(0, &[extensions, tcp(b"hi")].concat());
    let piece = ipv6(44, &[&hex("11 00 0001 00000001")[..], &[7; 16]].concat());
    let options = hex("94040000 07070400 00000000 44080500 00000000 860a0000 00010104 00000000");
    let gre = [&hex("f000 0800 00000000 0800 00 04 0a000001 00000000")[..], &ip].concat();
    let erspan = hex("1000 88be 00000001 1005 0000 00000000");
    let vxlan = [&hex("0800 0000 000001 00"), &ethernet(0x0800, &ip)[..]].concat();
    let geneve = [&hex("0140 6558 000001 00 0102 80 00"), &ethernet(0x0800, &ip)[..]].concat();
    let error = icmp(3, 3, &[&[0; 4], &ip[..28]].concat());
    let error6 = [&[1, 4, 0, 0, 0, 0, 0, 0], &six[..]].concat();
    let all = [
        (0x0800, ip.clone()),
        (0x86dd, six.clone()),
        (0x86dd, piece),
        (0x0800, ipv4_with(17, 0, &options, &udp(1, 2, b"x"))),
        (0x0800, ipv4_with(17, 0x2000, &[], &[7; 16])),
        (0x0800, ipv4(47, &gre)),
        (0x0800, ipv4(47, &[&erspan[..], &ethernet(0x0800, &ip)].concat())),
        (0x0800, ipv4(17, &udp(9, 4789, &vxlan))),
        (0x0800, ipv4(17, &udp(9, 6081, &geneve))),
        (0x0800, ipv4(17, &udp(9, 3544, &six))),
        (0x0800, ipv4(41, &six)),
        (0x86dd, ipv6(4, &ip)),
        (0x86dd, ipv6(41, &six)),
        (0x0800, ipv4(1, &error)),
        (0x86dd, ipv6(58, &error6)),
        (0x0800, ipv4(132, &[1; 20])),
        (0x0800, ipv4(50, &[1; 20])),
        (0x88a8, vlan(5, 0x8100, &vlan(6, 0x0800, &ip))),
        (0x8847, [&hex("00010040 00000100")[..], &ip].concat()),
        (0x8864, [&hex("1100 0001 0030 0021")[..], &ip].concat()),
        (0x8863, hex("1109 0000 0004 01010000")),
        (0x894f, [&hex("0002 0201 00000000")[..], &ip].concat()),
        (0x8926, [&hex("00000000 0800")[..], &ip].concat()),
        (0x88e7, [&[0; 16], &hex("0800")[..], &ip].concat()),
        (0x0806, hex("0001 0800 06 04 0002 020000000001 0a000001 020000000002 0a000002")),
    ];
    let mut corpus: Vec<(Link, Vec<u8>)> =
        all.iter().map(|(kind, inner)| (Link::Ethernet, ethernet(*kind, inner))).collect();
    corpus.push((Link::Raw, ip.clone()));
    corpus.push((Link::Null, [&hex("02000000")[..], &ip].concat()));
    corpus.push((Link::Loop, [&hex("0000001c")[..], &six].concat()));
    corpus.push((Link::Ppp, [&hex("ff03 2f")[..], &ipv4(0, &tcp(b"x"))].concat()));
    corpus.push((Link::Hdlc, [&hex("0f00 86dd")[..], &six].concat()));
    corpus.push((Link::LinuxCooked, [&[0; 14], &hex("0800")[..], &ip].concat()));
    corpus.push((Link::LinuxCooked2, [&hex("0800")[..], &[0; 18], &ip].concat()));
    corpus
}

#[test]
fn every_prefix_of_every_packet_is_decoded() {
    let mut decoder = decoder();
    for (link, bytes) in corpus() {
        for len in 0..=bytes.len() {
            feed(&mut decoder, link, &bytes[..len]);
        }
    }
}

#[test]
fn every_byte_may_be_anything() {
    let mut decoder = decoder();
    for (link, bytes) in corpus() {
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for value in [0, 1, 4, 6, 0x0f, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x10] {
                changed[at] = value;
                feed(&mut decoder, link, &changed);
            }
        }
    }
}

#[test]
fn random_bytes_are_decoded_on_every_link() {
    let mut decoder = decoder();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    for round in 0..20_000 {
        let bytes: Vec<u8> = (0..round % 120).map(|_| next()).collect();
        feed_fragments(&bytes);
        feed_capture(&bytes);
        for link in [
            Link::Ethernet,
            Link::Raw,
            Link::Null,
            Link::Loop,
            Link::Ppp,
            Link::Hdlc,
            Link::LinuxCooked,
            Link::LinuxCooked2,
            Link::Other(7),
        ] {
            feed(&mut decoder, link, &bytes);
        }
    }
}

#[test]
fn a_frame_that_is_too_long_is_counted_and_dropped() {
    let mut packets = Vec::new();
    let mut decoder = decoder();
    decoder.decode(&frame(Link::Ethernet, &vec![0; 65_605]), &mut packets);
    assert!(packets.is_empty());
    decoder.decode(&frame(Link::Ethernet, &vec![0; 65_604]), &mut packets);
    assert_eq!(packets.len(), 1);
}
