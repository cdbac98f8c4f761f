//! Checksums of every kind, and when they are looked at.

use gauntlet_packet::{
    Checksums, Counter, Decoder, Frame, IpVersion, Link, Packet, Settings, Transport,
};

use crate::build::{checksum, decode_with, ethernet, frame, icmp, ipv4, ipv6, sum, tcp, udp};

/// A packet of the transport with its right checksum, over either version of IP.
fn packet(version: IpVersion, protocol: u8, at: usize, mut segment: Vec<u8>) -> Vec<u8> {
    let (header, addresses) = match version {
        IpVersion::V4 => (20, 12),
        IpVersion::V6 => (40, 8),
    };
    let whole = |segment: &[u8]| match version {
        IpVersion::V4 => ipv4(protocol, segment),
        IpVersion::V6 => ipv6(protocol, segment),
    };
    let pseudo = sum(&whole(&segment)[addresses..header], 0);
    let right = checksum(sum(&segment, pseudo + u32::from(protocol) + segment.len() as u32));
    segment[at..at + 2].copy_from_slice(&right);
    whole(&segment)
}

fn decode_as(checksums: Checksums, ip: &[u8]) -> Packet {
    let settings = Settings { checksums, ..Settings::default() };
    decode_with(settings, Link::Raw, ip).pop().unwrap()
}

fn is_right(packet: &Packet) -> bool {
    match &packet.transport {
        Transport::Tcp(tcp) => tcp.checksum_ok,
        Transport::Udp(udp) => udp.checksum_ok,
        Transport::Icmp(icmp) => icmp.checksum_ok,
        other => panic!("{other:?}"),
    }
}

#[test]
fn right_checksums_are_right_and_every_changed_byte_is_noticed() {
    let (four, six) = (IpVersion::V4, IpVersion::V6);
    let mut echo = icmp(128, 0, b"\x00\x01\x00\x02odd");
    echo[2..4].fill(0);
    for (version, good) in [
        (four, packet(four, 6, 16, tcp(b"payload"))),
        (six, packet(six, 6, 16, tcp(b"payloads"))),
        (four, packet(four, 17, 6, udp(1, 2, b"x"))),
        (six, packet(six, 17, 6, udp(1, 2, b""))),
        (four, ipv4(1, &icmp(8, 0, b"\x00\x01\x00\x02odd"))),
        (six, packet(six, 58, 2, echo)),
    ] {
        assert!(is_right(&decode_as(Checksums::All, &good)), "{good:02x?}");
        let header = if version == four { 20 } else { 40 };
        for at in header..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let packet = decode_as(Checksums::All, &bad);
            let still_decoded = !matches!(packet.transport, Transport::None);
            assert!(!still_decoded || !is_right(&packet), "{at} {bad:02x?}");
            let ignored = decode_as(Checksums::None, &bad);
            assert!(matches!(ignored.transport, Transport::None) || is_right(&ignored));
        }
    }
    let mut header = ipv4(6, &tcp(b""));
    assert!(decode_as(Checksums::All, &header).ip.unwrap().checksum_ok);
    header[8] -= 1;
    assert!(!decode_as(Checksums::All, &header).ip.unwrap().checksum_ok);
    assert!(decode_as(Checksums::None, &header).ip.unwrap().checksum_ok);
}

#[test]
fn udp_may_have_no_checksum_over_ipv4_only() {
    let four = decode_as(Checksums::All, &ipv4(17, &udp(1, 2, b"x")));
    let six = decode_as(Checksums::All, &ipv6(17, &udp(1, 2, b"x")));
    assert!(is_right(&four) && !is_right(&six));
    let Transport::Udp(udp) = &four.transport else { panic!("{four:?}") };
    assert!(udp.checksum_absent);
}

#[test]
fn inner_packets_are_checked_though_captured_ones_are_not() {
    let settings = Settings { checksums: Checksums::None, ..Settings::default() };
    let packets = decode_with(settings, Link::Raw, &ipv4(4, &ipv4(6, &tcp(b""))));
    assert!(!is_right(&packets[0]) && packets[1].ip.as_ref().unwrap().checksum_ok);
}

#[test]
fn a_capture_without_checksums_is_recognised_at_its_thousandth_packet() {
    let bad = ethernet(0x0800, &ipv4(6, &tcp(b"bad")));
    let good = ethernet(0x0800, &packet(IpVersion::V4, 6, 16, tcp(b"good")));
    // One in ten is still taken for damage, one in nine no more.
    for (one_in, ignored) in [(1, true), (9, true), (10, false), (100, false)] {
        let mut decoder = Decoder::new(Settings::default());
        let mut packets = Vec::new();
        for number in 1..=1001 {
            packets.clear();
            let bytes = if number % one_in == 0 || number >= 999 { &bad } else { &good };
            let frame = Frame { number, ..frame(Link::Ethernet, bytes) };
            decoder.decode(&frame, &mut packets);
            if number >= 999 {
                assert_eq!(is_right(&packets[0]), ignored && number >= 1000, "{one_in} {number}");
            }
        }
        assert_eq!(decoder.counters().get(Counter::Tcp), 1001);
    }
}
